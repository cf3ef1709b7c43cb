"""Which objects of a resource a list or a watch is about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stromboli.embedded.kinds import dig
from stromboli.embedded.schema import Schema
from stromboli.embedded.selectors import FieldRequirement, Requirement, parse_field_selector, parse_label_selector
from stromboli.embedded.status import bad_request
from stromboli.embedded.store import Record

from .routes import Route


class Selection:
    def __init__(self, route: Route, query: Mapping[str, str]) -> None:
        """Raises a StatusError for a selector that makes no sense."""
        self.namespace = route.namespace
        self.is_restricted = bool(query.get("labelSelector") or query.get("fieldSelector"))
        self._labels: list[Requirement] = parse_label_selector(query.get("labelSelector", ""))
        self._key_fields: list[tuple[bool, bool, str]] = []
        self._fields: list[tuple[tuple[str, ...], str, bool, str]] = []
        for requirement in parse_field_selector(query.get("fieldSelector", "")):
            self._add_field(requirement, route)
        if route.name:  # a watch of one object, by its path
            self._key_fields.append((True, True, route.name))

    def _add_field(self, requirement: FieldRequirement, route: Route) -> None:
        field, equal, value = requirement
        if field in ("metadata.name", "metadata.namespace"):
            self._key_fields.append((field == "metadata.name", equal, value))
            return
        path = route.type.strategy.selectable.get(field)
        if path is None:
            if route.type.is_custom:
                raise bad_request(f"field label not supported: {field[:100]}")
            kind, version = route.type.kind, route.type.api_version
            raise bad_request(
                f'Unable to find "{version}, Kind={kind}" that match label selector "", field selector '
                f'"{field[:100]}": field label not supported: {field[:100]}'
            )
        self._fields.append((path, _absent(route.type.schema, path), equal, value))

    def selects(self, record: Record) -> bool:
        key = record.key
        if self.namespace and key.namespace != self.namespace:
            return False
        for is_name, equal, value in self._key_fields:
            if ((key.name if is_name else key.namespace) == value) != equal:
                return False
        labels = record.metadata.labels
        if not all(requirement(labels) for requirement in self._labels):
            return False
        if not self._fields:
            return True
        obj = record.value()
        return all((_text(dig(obj, *path), absent) == value) == equal for path, absent, equal, value in self._fields)


def _absent(schema: Schema | None, path: tuple[str, ...]) -> str:
    """What an absent field counts as."""
    for step in path:
        schema = schema.child(step) if schema is not None else None
    return {"boolean": "false", "integer": "0"}.get(schema.type if schema is not None else "", "")


def _text(value: Any, absent: str) -> str:
    if value is None:
        return absent
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)
