"""Objects of custom kinds.

Rules over several fields are in their definitions, in CEL. For our own kinds, most of them are the rules of
`stromboli.api`, which the simulator and the controllers use as well. Those are checked in Python here, which is faster
and names values. The verdicts are the same, as a test finds out; other rules of a definition are evaluated.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stromboli import api
from stromboli.api import ApiError
from stromboli.api.kinds import KINDS
from stromboli.api.rules import RULES
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import broken

from .strategy import Column, Context, Object, Strategy


class CustomStrategy(Strategy):
    def __init__(self, *, group: str, version: str, kind: str, has_status: bool, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self._has_status = has_status
        self._type = KINDS.get((f"{group}/{version}", kind)) if group.endswith(".volcano.sh") else None
        self.known_rules = frozenset(rule.cel for rule in RULES) if self._type is not None else frozenset()
        """Rules that are checked here, and need not be evaluated."""

    def before_create(self, obj: Object, context: Context) -> None:
        if self._has_status:
            obj.pop("status", None)

    def before_update(self, obj: Object, old: Object, context: Context) -> None:
        if self._has_status:
            obj.pop("status", None)
            if "status" in old:
                obj["status"] = old["status"]

    def validate(self, obj: Object) -> list[FieldError]:
        if self._type is None:
            return []
        try:
            api.validate(self._typed(obj))
        except ApiError as error:
            return [_field_error(error)]
        return []

    def is_judged_again(self, obj: Object, old: Object) -> bool:
        """Whoever removes a finalizer or sets a label of an object that is not as it should be is not refused."""
        return _content(obj) != _content(old)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        if self._type is None:
            return []
        try:
            api.validate_update(self._typed(old), self._typed(obj))
        except ApiError as error:
            return [_field_error(error)]
        return []

    def _typed(self, obj: Object) -> Any:
        assert self._type is not None
        typed = api.decode_json(msgspec.json.encode(obj), self._type)
        api.default(typed)
        return typed


def _content(obj: Object) -> tuple[Object, Object]:
    content = {name: part for name, part in obj.items() if name not in ("metadata", "status")}
    return content, obj["metadata"].get("annotations") or {}


def _field_error(error: ApiError) -> FieldError:
    return broken(error.field or "<nil>", error.message)
