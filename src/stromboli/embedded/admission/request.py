"""A request as policies see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from stromboli.embedded.kinds import Object, ResourceType


@dataclass(frozen=True, slots=True)
class User:
    """Who makes a request."""

    name: str
    groups: tuple[str, ...] = ("system:authenticated",)


_ACCOUNTS: Final = ("system:serviceaccounts", "system:serviceaccounts:stromboli-system", "system:authenticated")
ADMINISTRATOR: Final = User("admin", ("system:masters", "system:authenticated"))
"""Whoever has the token."""
PARTS: Final = User("system:serviceaccount:stromboli-system:stromboli", _ACCOUNTS)
"""The scheduler and the controllers that run beside this server."""
CONTROLLERS: Final = User("system:kube-controller-manager")
"""What Kubernetes leaves to controllers, and this server does itself."""


@dataclass(frozen=True, slots=True)
class Review:
    """What is to be done, by whom. Policies see the object as it will be and as it was."""

    operation: str
    type: ResourceType
    namespace: str
    name: str
    user: User = ADMINISTRATOR
    subresource: str = ""
    dry_run: bool = False
    object: Object | None = None
    old: Object | None = None
    kind: tuple[str, str, str] | None = None
    """Group, version and kind of the object of a subresource, if it is not that of the resource."""

    def shown(self, version: str) -> dict[str, Any]:
        """As `request`. Other versions of a resource may be what a policy is about: then that one is shown."""
        type = self.type
        group, own_version, kind = self.kind or (type.group, type.version, type.kind)
        about = {
            "kind": {"group": group, "version": version if self.kind is None else own_version, "kind": kind},
            "resource": {"group": type.group, "version": version, "resource": type.plural},
            "requestKind": {"group": group, "version": own_version, "kind": kind},
            "requestResource": {"group": type.group, "version": type.version, "resource": type.plural},
            "operation": self.operation,
            "userInfo": {"username": self.user.name, "groups": [*self.user.groups]},
            "dryRun": self.dry_run,
            "uid": "",
        }
        texts = {
            "name": self.name, "namespace": self.namespace, "subResource": self.subresource,
            "requestSubResource": self.subresource,
        }  # fmt: skip
        return about | {name: text for name, text in texts.items() if text}
