"""Rules of definitions, `x-kubernetes-validations`: what must hold for a value, beside its schema.

A rule sees `self`, and where a change is judged `oldSelf`, if it is clear which value that is: the same field, the same
key of a map or of a list with keys. What an object had before and keeps is not refused, only warned of.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from stromboli.embedded.cel import (
    NOTHING,
    Budget,
    CelError,
    CompileError,
    KeyedList,
    Maybe,
    OverBudget,
    Program,
    SetList,
    compiled,
    equal,
    moment_of,
    span_of,
)

from .field_errors import MOST_ERRORS, FieldError, broken, duplicate, forbidden, invalid, required
from .schema import Json, Schema

MOST_STEPS: Final = 3_000_000
"""Of all rules of a request."""

_VARIABLES: Final = ("self", "oldSelf")
_FORMATS: Final = ("date-time", "date", "duration", "byte")
_LONGEST_MESSAGE: Final = 5 * 1024
_STEP: Final = re.compile(r"\.([A-Za-z_][A-Za-z0-9_-]*)|\['((?:[^'\\]|\\.)*)'\]")
_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_RESERVED: Final = frozenset(
    ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import",
     "let", "loop", "package", "namespace", "return", "var", "void", "while")
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Rule:
    text: str
    message: str
    field: str
    """The path that a refusal names, below the value."""
    reason: str
    program: Program | None
    says: Program | None
    problem: str = ""
    """Why it cannot be evaluated: a stored definition may be older than what is checked when one is written."""
    optional_old: bool = False

    @property
    def is_about_changes(self) -> bool:
        return self.program is not None and "oldSelf" in self.program.uses


class RuleError(Exception):
    """A rule that makes no sense; the field of it and the problem."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(problem)
        self.field = field
        self.problem = problem


def read_rule(written: Mapping[str, Any], schema: Schema, *, is_correlated: bool) -> Rule:
    """Raises RuleError."""
    text, expression = str(written.get("rule", "")), str(written.get("messageExpression", ""))
    program = _program("rule", text)
    says = _program("messageExpression", expression) if expression else None
    rule = Rule(
        text=text,
        message=str(written.get("message", "")).strip() or f"failed rule: {text.strip()}",
        field=_field(str(written.get("fieldPath", "")), schema),
        reason=str(written.get("reason", "")),
        program=program,
        says=says,
        optional_old=bool(written.get("optionalOldSelf")),
    )
    if rule.is_about_changes and not is_correlated:
        raise RuleError("rule", "oldSelf cannot be used on the uncorrelatable portion of the schema")
    return rule


def unreadable(written: Mapping[str, Any], problem: str) -> Rule:
    return Rule(str(written.get("rule", "")), "", "", "", None, None, problem)


def _program(field: str, text: str) -> Program:
    try:
        return compiled(text, _VARIABLES)
    except CompileError as error:
        raise RuleError(field, f"compilation failed: {error}") from None


def _field(path: str, schema: Schema) -> str:
    if not path:
        return ""
    at, found, known = 0, "", schema
    while at < len(path):
        step = _STEP.match(path, at)
        inner = known.child(step[1] or step[2]) if step is not None else None
        if step is None or inner is None:
            raise RuleError("fieldPath", f"{path[:200]} does not refer to a valid field")
        is_key = (step[1] or step[2]) not in known.properties
        found += f"[{step[1] or step[2]}]" if is_key else f".{step[1] or step[2]}"
        known, at = inner, step.end()
    return found.removeprefix(".")


# -- what a rule sees --------------------------------------------------------------------------------------------------


@cache
def escaped(name: str) -> str:
    """Field names that are words of the language, or have other characters than its names."""
    if name in _RESERVED:
        return f"__{name}__"
    return re.sub(r"__|[.\-/]", lambda found: _ESCAPES[found[0]], name)


def seen(value: Json, schema: Schema) -> Json:
    """A value with the types and names that rules see."""
    if value is None or _is_seen_as_it_is(schema):
        return value
    if isinstance(value, dict):
        made = {}
        for name, part in value.items():
            if name in schema.properties:
                made[escaped(name)] = seen(part, schema.properties[name])
            else:
                made[name] = seen(part, schema.values) if schema.values is not None else part
        return made
    if isinstance(value, list):
        return _seen_list(value, schema)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if schema.type == "number" else int(value) if schema.type == "integer" else value
    if isinstance(value, str) and schema.type == "string":
        return _seen_text(value, schema.facets.get("format"))
    return value


def _seen_list(value: list[Json], schema: Schema) -> list[Json]:
    items = [seen(item, schema.items) for item in value] if schema.items is not None else value
    if schema.is_set:
        return SetList(items)
    if schema.keys:
        keyed = KeyedList(items)
        keyed.keys = tuple(escaped(key) for key in schema.keys)
        return keyed
    return items


def _seen_text(value: str, form: Any) -> Any:
    try:
        match form:
            case "date-time":
                return moment_of(value)
            case "date":
                return moment_of(f"{value}T00:00:00Z")
            case "duration":
                return span_of(value)
            case "byte":
                return base64.b64decode(value, validate=True)
    except (CelError, binascii.Error):
        pass  # the format is checked elsewhere, or not at all
    return value


def _is_seen_as_it_is(schema: Schema) -> bool:
    if schema.seen_as_it_is is None:
        inner = [part for part in (*schema.properties.values(), schema.values, schema.items) if part is not None]
        schema.seen_as_it_is = (
            schema.type != "number"
            and not (
                schema.type == "string" and schema.facets.get("format") in ("date-time", "date", "duration", "byte")
            )
            and not (schema.type == "array" and (schema.is_set or schema.keys))
            and all(escaped(name) == name for name in schema.properties)
            and all(_is_seen_as_it_is(part) for part in inner)
        )
    return schema.seen_as_it_is


# -- evaluation --------------------------------------------------------------------------------------------------------


def rule_errors(value: Json, schema: Schema, old: Json | None = None) -> tuple[list[FieldError], list[str]]:
    """What breaks a rule, and warnings of what breaks one as before. The value fits the schema."""
    if not has_rules(schema):
        return [], []
    judge = _Judge()
    judge.walk(_root(value, schema), None if old is None else _root(old, schema), schema, "")
    return judge.errors, judge.warnings


def has_rules(schema: Schema) -> bool:
    """Whether there are any, anywhere inside."""
    if schema.rules_below is None:
        inner = [part for part in (*schema.properties.values(), schema.values, schema.items) if part is not None]
        schema.rules_below = bool(schema.rules) or any(has_rules(part) for part in inner)
    return schema.rules_below


def _root(value: Json, schema: Schema) -> Json:
    """Of the metadata, rules see the name."""
    metadata = value.get("metadata") or {}
    known = {name: metadata[name] for name in ("name", "generateName") if name in metadata}
    rest = {name: part for name, part in value.items() if name != "metadata"}
    return {**seen(rest, schema), "metadata": known}


class _Judge:
    def __init__(self) -> None:
        self.errors: list[FieldError] = []
        self.warnings: list[str] = []
        self._budget = Budget(MOST_STEPS)
        self._is_over = False

    def walk(self, value: Json, old: Json | None, schema: Schema, path: str) -> None:
        if value is None or self._is_over or not has_rules(schema):
            return
        for rule in schema.rules:
            if not self._is_over:
                self._judge(rule, value, old, schema, path)
        if isinstance(value, dict):
            self._walk_object(value, old if isinstance(old, dict) else {}, schema, path)
        elif isinstance(value, list) and schema.items is not None and has_rules(schema.items):
            known = _by_keys(old, schema)
            for index, item in enumerate(value):
                was_item = known.get(_key_of(item, schema)) if known else None
                self.walk(item, was_item, schema.items, f"{path}[{index}]")

    def _walk_object(self, value: dict[str, Json], was: dict[str, Json], schema: Schema, path: str) -> None:
        for name, part in schema.properties.items():
            at = escaped(name)
            if at in value and name != "metadata":
                self.walk(value[at], was.get(at), part, f"{path}.{name}" if path else name)
        if schema.values is not None and has_rules(schema.values):
            for key, item in value.items():
                if key not in schema.properties:
                    self.walk(item, was.get(key), schema.values, f"{path}[{key}]")

    def _judge(self, rule: Rule, value: Json, old: Json | None, schema: Schema, path: str) -> None:
        try:
            self._budget.take(1)
            self._evaluate(rule, value, old, schema, path)
        except OverBudget as error:
            self._is_over = True
            problem = f"{error}: no further validation rules will be run due to call cost exceeds limit for rule"
            self.errors.append(invalid(path or "<nil>", schema.type, f"{problem}: {rule.text.strip()}"))

    def _evaluate(self, rule: Rule, value: Json, old: Json | None, schema: Schema, path: str) -> None:
        """Raises OverBudget."""
        if rule.program is None:
            self._refuse(invalid(path or "<nil>", schema.type, f"rule compile error: {rule.problem}"))
            return
        if rule.is_about_changes and old is None and not rule.optional_old:
            return
        before = (NOTHING if old is None else Maybe(old)) if rule.optional_old else old
        variables = {"self": value, "oldSelf": before}
        try:
            if rule.program.value(variables, self._budget) is True:
                return
            at = rule.field if not path else path + (rule.field if rule.field[:1] in ("", "[") else f".{rule.field}")
            shown = None if schema.type in ("object", "array") else value
            error = _error(rule.reason, at or "<nil>", shown, self._sentence(rule, variables))
        except CelError as problem:
            text = f"{problem} evaluating rule: {rule.text.strip()}"
            error = _error(rule.reason, path or "<nil>", schema.type, text)
        if old is not None and not rule.is_about_changes and equal(value, old, self._budget):
            self._warn(str(error))
        else:
            self._refuse(error)

    def _sentence(self, rule: Rule, variables: dict[str, Any]) -> str:
        try:
            said = rule.says.value(variables, self._budget) if rule.says is not None else ""
        except (CelError, OverBudget):
            return rule.message
        text = said.strip() if isinstance(said, str) else ""
        return text if text and "\n" not in text and len(text) <= _LONGEST_MESSAGE else rule.message

    def _refuse(self, error: FieldError) -> None:
        self.errors.append(error)
        self._is_over = len(self.errors) >= MOST_ERRORS

    def _warn(self, text: str) -> None:
        if len(self.warnings) < MOST_ERRORS:
            self.warnings.append(text)


def _error(reason: str, field: str, shown: Any, sentence: str) -> FieldError:
    match reason:
        case "FieldValueForbidden":
            return forbidden(field, sentence)
        case "FieldValueRequired":
            return required(field, sentence)
        case "FieldValueDuplicate":
            return duplicate(field, shown)
    if shown is None:
        return broken(field, sentence)
    return invalid(field, shown, sentence)


def _by_keys(old: Json | None, schema: Schema) -> dict[str, Json]:
    if not isinstance(old, list) or not schema.keys:
        return {}
    return {_key_of(item, schema): item for item in old}


def _key_of(item: Json, schema: Schema) -> str:
    return repr([item.get(escaped(key)) for key in schema.keys]) if isinstance(item, dict) else ""
