"""Which resources there are: the built-in ones, and those of the CustomResourceDefinitions in the store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stromboli.embedded.kinds import ResourceType, builtin_resources, defined_types
from stromboli.embedded.store import Change, Store

DEFINITIONS: Final = "customresourcedefinitions.apiextensions.k8s.io"
_FIRST_GROUPS: Final = ("", "apps", "batch", "policy")


class Catalog:
    def __init__(self, store: Store) -> None:
        self._builtin = builtin_resources()
        self._custom: dict[str, list[ResourceType]] = {}  # by the name of the definition
        self._by_path: dict[tuple[str, str, str], ResourceType] = {}
        self.revision = 0
        """Changes whenever the resources change."""
        for record in store.list(DEFINITIONS):
            self._custom[record.key.name] = defined_types(record.value())
        self._index()
        store.listen(self._on_change)

    def find(self, group: str, version: str, plural: str) -> ResourceType | None:
        return self._by_path.get((group, version, plural))

    def types(self) -> Iterator[ResourceType]:
        yield from self._builtin
        for name in sorted(self._custom):
            yield from self._custom[name]

    def versions(self) -> dict[str, list[str]]:
        """The versions of each group, the preferred one first."""
        found: dict[str, list[str]] = {}
        for one in self.types():
            versions = found.setdefault(one.group, [])
            if one.version not in versions:
                versions.append(one.version)
        for versions in found.values():
            versions.sort(key=_rank)
        order = sorted(found, key=lambda group: (group not in _FIRST_GROUPS, group))
        return {group: found[group] for group in order}

    def in_group(self, group: str, version: str) -> list[ResourceType]:
        return [one for one in self.types() if (one.group, one.version) == (group, version)]

    def versions_of(self, type: ResourceType) -> list[str]:
        """The versions of a resource that are served."""
        return [one.version for one in self.types() if one.resource == type.resource]

    def by_resource(self, resource: str) -> ResourceType | None:
        """The type of a stored resource, in the version that it is stored in."""
        found = [one for one in self.types() if one.resource == resource]
        return next((one for one in found if one.version == one.storage_version), found[0] if found else None)

    def by_kind(self, api_version: str, kind: str) -> ResourceType | None:
        """The type of an owner; any version of the group will do."""
        group = api_version.rpartition("/")[0]
        return next((one for one in self.types() if (one.group, one.kind) == (group, kind)), None)

    def _on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource != DEFINITIONS:
            return
        if change.type == "DELETED":
            self._custom.pop(key.name, None)
        else:
            self._custom[key.name] = defined_types(change.record.value())
        self._index()

    def _index(self) -> None:
        self._by_path = {(one.group, one.version, one.plural): one for one in self.types()}
        self.revision += 1


def _rank(version: str) -> tuple[int, int, int, str]:
    """Stable versions before beta before alpha, newer before older."""
    digits = "".join(character if character.isdigit() else " " for character in version).split()
    stage = 2 if "alpha" in version else 1 if "beta" in version else 0
    major = int(digits[0]) if digits else 0
    minor = int(digits[1]) if len(digits) > 1 else 0
    return stage, -major, -minor, version
