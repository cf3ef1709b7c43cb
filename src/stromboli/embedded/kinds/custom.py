"""Objects of custom kinds.

For our own kinds, the rules that span several fields are those of `stromboli.api`, which the simulator and the
controllers use as well. Kubernetes evaluates rules in CEL for this; we do not have CEL, and rules of other definitions
are not evaluated.
"""

from __future__ import annotations

from typing import Any

import msgspec

from stromboli import api
from stromboli.api import ApiError
from stromboli.api.kinds import KINDS
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import invalid

from .strategy import Column, Context, Object, Strategy


class CustomStrategy(Strategy):
    def __init__(self, *, group: str, version: str, kind: str, has_status: bool, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self._has_status = has_status
        self._type = KINDS.get((f"{group}/{version}", kind)) if group.endswith(".volcano.sh") else None

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


def _field_error(error: ApiError) -> FieldError:
    return invalid(error.field or "<nil>", "", error.message)
