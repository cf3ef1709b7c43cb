"""What one container is as a process of this machine: its command, its limits, and what cannot be had here.

There is no image: the command must exist on this machine and runs as the current user. A CPU limit below the number of
cores sets on how many cores it may run.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from stromboli.api.quantity import QuantityError, amount
from stromboli.sandbox.program import Limits

from .environment import expand
from .sandbox_process import CannotRun


def command_of(container: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """The command line, with `$(NAME)` replaced as Kubernetes does. Raises CannotRun."""
    written = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise CannotRun("the container has no command; images are not run here, so spec.containers[].command is needed")
    return [expand(part, environment) for part in written]


def memory_limit(container: Mapping[str, Any]) -> int:
    """In bytes; 0 is none. Raises CannotRun."""
    return _limit(container, "memory")


def limits_of(
    pod: Mapping[str, Any], container: Mapping[str, Any], *, address_space: int, group: str, first_core: int = 0
) -> Limits:
    """Raises CannotRun."""
    user, users_group, groups = _user(pod, container)
    cores = -(-_limit(container, "cpu") // 1000)
    return Limits(address_space, cores, first_core, group, user, users_group, groups)


def refuse_what_is_not_here(pod: Mapping[str, Any]) -> None:
    """Raises CannotRun for what a pod asks of its surroundings and cannot get."""
    spec = pod["spec"]
    for field, what in (
        ("hostPID", "the processes of the machine"),
        ("hostIPC", "the interprocess communication of the machine"),
        ("shareProcessNamespace", "containers that see each other's processes"),
    ):
        if spec.get(field):
            raise CannotRun(f"spec.{field}: {what} cannot be had here")
    if (spec.get("os") or {}).get("name", "linux") not in ("", "linux"):
        raise CannotRun("spec.os.name: only linux can be had here")


def _limit(container: Mapping[str, Any], resource: str) -> int:
    limits = (container.get("resources") or {}).get("limits") or {}
    try:
        return amount(resource, limits[resource]) if resource in limits else 0
    except QuantityError as error:
        raise CannotRun(f"its limits cannot be read: {error}") from None


def _user(pod: Mapping[str, Any], container: Mapping[str, Any]) -> tuple[int | None, int | None, tuple[int, ...]]:
    """Whom the program runs as, where that was asked for."""
    of_pod = pod["spec"].get("securityContext") or {}
    asked = of_pod | {name: one for name, one in (container.get("securityContext") or {}).items() if one is not None}
    user, group = asked.get("runAsUser"), asked.get("runAsGroup")
    own = os.geteuid()
    if own != 0 and (user not in (None, own) or group not in (None, os.getegid())):
        raise CannotRun(f"it asks for the user {user} and the group {group}; only root can change to others than {own}")
    if asked.get("runAsNonRoot") and (own if user is None else user) == 0:
        raise CannotRun("runAsNonRoot: it would run as root; start this as another user, or set runAsUser")
    if asked.get("privileged") and own != 0:
        raise CannotRun("privileged: it would not have the rights of root")
    groups = tuple(of_pod.get("supplementalGroups") or ()) if own == 0 and sys.platform == "linux" else ()
    return user, group, groups
