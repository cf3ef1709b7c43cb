"""The expressions of one policy, for one request and one parameter."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stromboli.embedded.cel import MOST_STEPS, Budget, CelError, Lazy, OverBudget, Program, Struct
from stromboli.embedded.kinds import Object
from stromboli.embedded.patches import PatchError, PatchFailed, apply_json_patch, merge_applied
from stromboli.embedded.schema import Schema

from .policies import Policy, Validation

_MOST_REQUEST_STEPS = 3 * MOST_STEPS
_LONGEST_MESSAGE = 5 * 1024


class Unevaluated(Exception):
    """An expression has no value, or a mutation cannot be applied; says why."""


@dataclass(frozen=True, slots=True)
class Denial:
    message: str
    reason: str = "Invalid"


class Evaluation:
    """`budget` is that of the whole request."""

    def __init__(self, policy: Policy, known: dict[str, Any], budget: Budget) -> None:
        self._policy = policy
        self._budget = budget
        self._known = dict(known)
        self._known["variables"] = Lazy({name: self._lazily(program) for name, program in policy.variables})

    def _lazily(self, program: Program) -> Any:
        return lambda: program.value(self._known, self._budget)

    def _value(self, program: Program) -> Any:
        try:
            return program.value(self._known, self._budget)
        except CelError as error:
            raise Unevaluated(f"expression '{program.text.strip()}' resulted in error: {error}") from None
        except OverBudget as error:
            problem = f"{error}: no further validation rules will be run"
            raise Unevaluated(f"expression '{program.text.strip()}' resulted in error: {problem}") from None

    def applies(self) -> bool:
        """Whether the conditions hold. Raises Unevaluated if one has no value and none is false."""
        failed: Unevaluated | None = None
        for condition in self._policy.conditions:
            try:
                if self._value(condition) is not True:
                    return False
            except Unevaluated as error:
                failed = failed or error
        if failed is not None:
            raise failed
        return True

    def denials(self) -> Iterator[Denial]:
        for validation in self._policy.validations:
            try:
                if self._value(validation.test) is not True:
                    yield Denial(self._message(validation), validation.reason)
            except Unevaluated as error:
                if self._policy.fails:
                    yield Denial(str(error))
        for annotation in self._policy.annotations:
            try:
                # There is no audit log; but an annotation without a value counts.
                value = self._value(annotation)
                if value is not None and not isinstance(value, str):
                    raise Unevaluated(f"valueExpression '{annotation.text}' must be either string or null")
            except Unevaluated as error:
                if self._policy.fails:
                    yield Denial(str(error))

    def _message(self, validation: Validation) -> str:
        if validation.says is None:
            return validation.message
        try:
            said = self._value(validation.says)
        except Unevaluated:
            return validation.message
        text = said.strip() if isinstance(said, str) else ""
        return text if text and "\n" not in text and len(text) <= _LONGEST_MESSAGE else validation.message

    def mutated(self, value: Object, schema: Schema) -> Object:
        """The object, changed by all mutations, each on the result of the one before. Raises Unevaluated."""
        for mutation in self._policy.mutations:
            result = self._value(mutation.program)
            try:
                change = _Change(self._budget)
                value = change.patched(value, result) if mutation.is_patch else change.applied(value, result, schema)
            except OverBudget:
                problem = f"the result of '{mutation.program.text.strip()[:200]}' is too large"
                raise Unevaluated(f"type mismatch: {problem}") from None
            self._known["object"] = value
        return value


def request_budget() -> Budget:
    return Budget(_MOST_REQUEST_STEPS)


class _Change:
    """What an expression of a mutation makes of an object. A value may be in its result any number of times, and is in
    the object as often, so to write one out takes steps."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget

    def patched(self, value: Object, result: Any) -> Object:
        is_patch = isinstance(result, list) and all(
            isinstance(one, Struct) and one.name == "JSONPatch" for one in result
        )
        if not is_patch:
            raise Unevaluated("type mismatch: JSONPatchType.expression should evaluate to array of JSONPatch")
        operations = [self._plain(one) for one in result]
        try:
            made = apply_json_patch(value, operations)
        except PatchFailed as error:
            tests = [one for one in operations if one.get("op") == "test"]
            if tests and "testing value" in str(error):
                return value  # as for Kubernetes: the patch is not for this object
            raise Unevaluated(f"JSON Patch: {error}") from None
        except PatchError as error:
            raise Unevaluated(f"JSON Patch: {error}") from None
        if not isinstance(made, dict) or not isinstance(made.get("metadata"), dict):
            raise Unevaluated("JSON Patch: the result is no object")
        return made

    def applied(self, value: Object, result: Any, schema: Schema) -> Object:
        if not isinstance(result, Struct) or result.name != "Object":
            raise Unevaluated("type mismatch: ApplyConfigurationType.expression should evaluate to Object")
        self._check_names(result, "Object")
        applied = self._plain(result)
        if atomic := _atomic(applied, schema, ""):
            raise Unevaluated(
                "error applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
                f"{atomic}"
            )
        for field in ("apiVersion", "kind"):
            applied.pop(field, None)
        merged: Object = merge_applied(value, applied, schema)
        return merged

    def _check_names(self, value: Any, name: str) -> None:
        """`Object.spec` may only be where the field `spec` is."""
        if isinstance(value, Struct):
            self._budget.take(1)
            if value.name != name:
                raise Unevaluated(f"type mismatch: {value.name} is not the type of the field {name}")
            for field, part in value.fields.items():
                for item in part if isinstance(part, list) else [part]:
                    self._check_names(item, f"{name}.{field}")

    def _plain(self, value: Any) -> Any:
        """As JSON."""
        self._budget.take(1 + (len(value) // 10 if isinstance(value, str) else 0))
        if isinstance(value, Struct):
            return {name: self._plain(part) for name, part in value.fields.items()}
        if isinstance(value, dict):
            return {str(name): self._plain(part) for name, part in value.items()}
        if isinstance(value, list):
            return [self._plain(item) for item in value]
        if value is None or isinstance(value, str | int | float):
            return value
        raise Unevaluated("type mismatch: the value cannot be written as JSON")


def _atomic(applied: Any, schema: Schema | None, path: str) -> str:
    """The first field that has one owner as a whole, which an applied part would replace."""
    if schema is None or not isinstance(applied, dict | list):
        return ""
    is_atomic_list = isinstance(applied, list) and schema.type == "array" and not schema.is_merged_list
    if path and (schema.atomic or is_atomic_list):
        return path
    if isinstance(applied, list):
        found = (_atomic(item, schema.items, f"{path}[{index}]") for index, item in enumerate(applied))
    else:
        found = (_atomic(part, schema.child(name), f"{path}.{name}") for name, part in applied.items())
    return next((one for one in found if one), "")
