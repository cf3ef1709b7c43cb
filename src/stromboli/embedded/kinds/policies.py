"""Admission policies and their bindings: what makes sense is stored, and `admission` acts on it.

Every expression is compiled when a policy is written. One that uses what this server does not know is refused with the
name of it, so that no policy is in effect that means something else here than elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from stromboli.embedded.cel import CompileError, Program, compiled
from stromboli.embedded.schema import FieldError
from stromboli.embedded.schema.field_errors import forbidden, invalid, not_supported, required

from .strategy import AGE, NAME, Column, Object, Strategy, dig

ACTIONS: Final = ("Deny", "Warn", "Audit")
OPERATIONS: Final = ("*", "CONNECT", "CREATE", "DELETE", "UPDATE")
_REQUEST: Final = ("object", "oldObject", "request")
_MOST_CONDITIONS: Final = 64
_LONGEST: Final = 200_000  # characters of all expressions of an object, which are compiled while others wait
_EXPRESSIONS: Final = ("expression", "messageExpression", "valueExpression", "rule")


def too_long(value: Any) -> str:
    """What is wrong with a policy or a schema that has too many characters in its expressions."""
    length = _length(value)
    return f"its expressions have {length} characters in all, and may have {_LONGEST} here" if length > _LONGEST else ""


def _length(value: Any) -> int:
    if isinstance(value, list):
        return sum(_length(item) for item in value)
    if not isinstance(value, dict):
        return 0
    texts = (value.get(field) for field in _EXPRESSIONS)
    return sum(len(text) for text in texts if isinstance(text, str)) + sum(_length(part) for part in value.values())


def condition_variables(spec: Object) -> tuple[str, ...]:
    """What conditions of a policy may name. Parameters are there if the policy has a kind of them."""
    return (*_REQUEST, "params") if spec.get("paramKind") else _REQUEST


def variables(spec: Object) -> tuple[str, ...]:
    """What all other expressions of a policy may name."""
    return (*condition_variables(spec), "namespaceObject", "variables")


class _PolicyStrategy(Strategy):
    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        if problem := too_long(spec):
            return [invalid("spec", "", problem)]
        constraints = spec.get("matchConstraints") or {}
        errors = _rule_errors(constraints, "spec.matchConstraints")
        if not constraints.get("resourceRules"):
            errors.append(required("spec.matchConstraints.resourceRules"))
        conditions = spec.get("matchConditions") or []
        if len(conditions) > _MOST_CONDITIONS:
            errors.append(
                invalid("spec.matchConditions", len(conditions), f"must have at most {_MOST_CONDITIONS} items")
            )
        for index, one in enumerate(conditions):
            at = f"spec.matchConditions[{index}].expression"
            errors += _expression_errors(one.get("expression", ""), at, condition_variables(spec), frozenset())
        known: set[str] = set()
        for index, one in enumerate(spec.get("variables") or ()):
            at = f"spec.variables[{index}]"
            name = one.get("name", "")
            if not name.isidentifier() or name in known:
                errors.append(invalid(f"{at}.name", name, "name is not a valid CEL identifier, or is there twice"))
            errors += _expression_errors(
                one.get("expression", ""), f"{at}.expression", variables(spec), frozenset(known)
            )
            known.add(name)
        for at, text in self.bodies(spec):
            errors += _expression_errors(text, at, variables(spec), frozenset(known))
        return errors + self.other_errors(spec)

    def bodies(self, spec: Object) -> Iterator[tuple[str, str]]:
        """The fields and texts of expressions, besides conditions and variables."""
        raise NotImplementedError

    def other_errors(self, spec: Object) -> list[FieldError]:
        return []


def _count(*path: str) -> Any:
    return lambda obj, now: len(dig(obj, *path, default=()))


class ValidatingPolicyStrategy(_PolicyStrategy):
    columns = (
        NAME,
        Column("Validations", _count("spec", "validations"), type="integer"),
        Column("ParamKind", lambda obj, now: dig(obj, "spec", "paramKind", "kind", default="<unset>")),
        AGE,
    )

    def bodies(self, spec: Object) -> Iterator[tuple[str, str]]:
        for index, one in enumerate(spec.get("validations") or ()):
            yield f"spec.validations[{index}].expression", one.get("expression", "")
            if one.get("messageExpression"):
                yield f"spec.validations[{index}].messageExpression", one["messageExpression"]
        for index, one in enumerate(spec.get("auditAnnotations") or ()):
            yield f"spec.auditAnnotations[{index}].valueExpression", one.get("valueExpression", "")

    def other_errors(self, spec: Object) -> list[FieldError]:
        if not spec.get("validations") and not spec.get("auditAnnotations"):
            problem = "validations or auditAnnotations must contain at least one item"
            return [required("spec.validations", problem), required("spec.auditAnnotations", problem)]
        return []


class MutatingPolicyStrategy(_PolicyStrategy):
    columns = (
        NAME,
        Column("Mutations", _count("spec", "mutations"), type="integer"),
        Column("ParamKind", lambda obj, now: dig(obj, "spec", "paramKind", "kind", default="<unset>")),
        AGE,
    )

    def bodies(self, spec: Object) -> Iterator[tuple[str, str]]:
        for index, one in enumerate(spec.get("mutations") or ()):
            field = "jsonPatch" if one.get("patchType") == "JSONPatch" else "applyConfiguration"
            if dig(one, field, "expression"):
                yield f"spec.mutations[{index}].{field}.expression", one[field]["expression"]

    def other_errors(self, spec: Object) -> list[FieldError]:
        errors = []
        for index, one in enumerate(spec.get("mutations") or ()):
            used, other = ("jsonPatch", "applyConfiguration")
            if one.get("patchType") == "ApplyConfiguration":
                used, other = other, used
            at = f"spec.mutations[{index}]"
            if not dig(one, used, "expression"):
                errors.append(required(f"{at}.{used}", f"must be specified when patchType is {one.get('patchType')}"))
            if one.get(other):
                errors.append(
                    invalid(f"{at}.{other}", "", f"must not be specified when patchType is {one['patchType']}")
                )
        return errors


class BindingStrategy(Strategy):
    """Of both kinds of policies. Only those of validating ones have actions."""

    columns = (
        NAME,
        Column("PolicyName", lambda obj, now: dig(obj, "spec", "policyName", default="")),
        Column("ParamRef", lambda obj, now: dig(obj, "spec", "paramRef", "name", default="<unset>")),
        AGE,
    )

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        errors = _rule_errors(spec.get("matchResources") or {}, "spec.matchResources")
        reference = spec.get("paramRef")
        if reference is not None:
            has_selector = reference.get("selector") is not None
            if reference.get("name") and has_selector:
                errors.append(forbidden("spec.paramRef.name", "name and selector are mutually exclusive"))
            if not reference.get("name") and not has_selector:
                errors.append(required("spec.paramRef", "one of name or selector must be specified"))
        actions = spec.get("validationActions") or []
        for index, action in enumerate(actions):
            if action not in ACTIONS:
                errors.append(not_supported(f"spec.validationActions[{index}]", action, ACTIONS))
        if "Deny" in actions and "Warn" in actions:
            errors.append(invalid("spec.validationActions", actions, "must not contain both Deny and Warn"))
        return errors


def _rule_errors(constraints: Object, at: str) -> list[FieldError]:
    errors = []
    for field in ("resourceRules", "excludeResourceRules"):
        for index, rule in enumerate(constraints.get(field) or ()):
            for place, operation in enumerate(rule.get("operations") or ()):
                if operation not in OPERATIONS:
                    where = f"{at}.{field}[{index}].operations[{place}]"
                    errors.append(not_supported(where, operation, OPERATIONS))
    return errors


def _expression_errors(text: str, at: str, names: tuple[str, ...], known: frozenset[str]) -> list[FieldError]:
    if not text.strip():
        return [required(at)]
    try:
        unknown = undefined(compiled(text, names), known)
    except CompileError as error:
        return [invalid(at, text, f"compilation failed: {error}")]
    if unknown:
        return [invalid(at, text, f"compilation failed: undefined field '{unknown}' of variables")]
    return []


def undefined(program: Program, known: frozenset[str]) -> str:
    """A variable of the policy that an expression uses and that is not defined before it."""
    return min(program.fields_of("variables") - known, default="")
