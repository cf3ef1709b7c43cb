"""Policies and their bindings, ready to be applied."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from stromboli.embedded.cel import CompileError, Program, compiled
from stromboli.embedded.kinds import Object, dig
from stromboli.embedded.kinds.policies import condition_variables, variables
from stromboli.embedded.store import Change, Record, Store

from .matching import GROUP

_KINDS: Final = {
    f"{plural}.{GROUP}": kind
    for plural, kind in (
        ("validatingadmissionpolicies", "policy"),
        ("validatingadmissionpolicybindings", "binding"),
        ("mutatingadmissionpolicies", "mutation"),
        ("mutatingadmissionpolicybindings", "mutation binding"),
    )
}


@dataclass(frozen=True, slots=True)
class Validation:
    test: Program
    says: Program | None
    message: str
    reason: str


@dataclass(frozen=True, slots=True)
class Mutation:
    program: Program
    is_patch: bool


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    constraints: Object
    fails: bool
    """Whether a request is refused for which an expression has no value."""
    parameters: Object | None
    conditions: tuple[Program, ...] = ()
    variables: tuple[tuple[str, Program], ...] = ()
    validations: tuple[Validation, ...] = ()
    annotations: tuple[Program, ...] = ()
    mutations: tuple[Mutation, ...] = ()
    again: bool = False
    """Whether it is applied once more if others changed the object after it."""
    problem: str = ""
    """Why it cannot be evaluated; it was stored by another version of this server."""


@dataclass(frozen=True, slots=True)
class Binding:
    name: str
    policy: str
    matching: Object | None
    parameters: Object | None
    actions: tuple[str, ...] = ()


@dataclass(slots=True)
class _Known:
    policies: dict[str, Policy] = field(default_factory=dict)
    bindings: dict[str, Binding] = field(default_factory=dict)

    def pairs(self) -> list[tuple[Policy, list[Binding]]]:
        bound: dict[str, list[Binding]] = {}
        for name in sorted(self.bindings):
            bound.setdefault(self.bindings[name].policy, []).append(self.bindings[name])
        return [(self.policies[name], bound[name]) for name in sorted(self.policies) if name in bound]


class Policies:
    """All that are in effect, by name. Follows the store."""

    def __init__(self, store: Store) -> None:
        self._validating, self._mutating = _Known(), _Known()
        self.validating: list[tuple[Policy, list[Binding]]] = []
        self.mutating: list[tuple[Policy, list[Binding]]] = []
        for resource in _KINDS:
            for record in store.list(resource):
                self._put(record)
        self._index()
        store.listen(self._on_change)

    def _on_change(self, change: Change) -> None:
        record = change.record
        if record.key.resource not in _KINDS:
            return
        if change.type == "DELETED":
            kind, name = _KINDS[record.key.resource], record.key.name
            known = self._known(kind)
            known.bindings.pop(name, None) if "binding" in kind else known.policies.pop(name, None)
        else:
            self._put(record)
        self._index()

    def _known(self, kind: str) -> _Known:
        return self._mutating if kind.startswith("mutation") else self._validating

    def _put(self, record: Record) -> None:
        kind, value = _KINDS[record.key.resource], record.value()
        known = self._known(kind)
        if "binding" in kind:
            known.bindings[record.key.name] = _binding(value)
        else:
            known.policies[record.key.name] = _policy(value)

    def _index(self) -> None:
        self.validating, self.mutating = self._validating.pairs(), self._mutating.pairs()


def _binding(value: Object) -> Binding:
    spec = value["spec"]
    return Binding(
        name=value["metadata"]["name"],
        policy=spec["policyName"],
        matching=spec.get("matchResources"),
        parameters=spec.get("paramRef"),
        actions=tuple(spec.get("validationActions") or ()),
    )


def _policy(value: Object) -> Policy:
    name, spec = value["metadata"]["name"], value["spec"]
    constraints, fails = spec.get("matchConstraints") or {}, spec.get("failurePolicy") != "Ignore"
    try:
        return Policy(
            name=name,
            constraints=constraints,
            fails=fails,
            parameters=spec.get("paramKind"),
            conditions=tuple(_programs(spec.get("matchConditions"), "expression", condition_variables(spec))),
            variables=tuple(
                (one["name"], compiled(one["expression"], variables(spec))) for one in spec.get("variables") or ()
            ),
            validations=tuple(_validations(spec)),
            annotations=tuple(_programs(spec.get("auditAnnotations"), "valueExpression", variables(spec))),
            mutations=tuple(_mutations(spec)),
            again=spec.get("reinvocationPolicy") == "IfNeeded",
        )
    except CompileError as error:
        return Policy(name, constraints, fails, None, problem=f"compilation failed: {error}")


def _programs(written: Iterable[Object] | None, field: str, names: tuple[str, ...]) -> Iterator[Program]:
    for one in written or ():
        yield compiled(one[field], names)


def _validations(spec: Object) -> Iterator[Validation]:
    for one in spec.get("validations") or ():
        text, says = one["expression"], one.get("messageExpression", "")
        yield Validation(
            test=compiled(text, variables(spec)),
            says=compiled(says, variables(spec)) if says else None,
            message=one.get("message", "").strip() or f"failed expression: {text.strip()}",
            reason=one.get("reason", "") or "Invalid",
        )


def _mutations(spec: Object) -> Iterator[Mutation]:
    for one in spec.get("mutations") or ():
        is_patch = one["patchType"] == "JSONPatch"
        text: Any = dig(one, "jsonPatch" if is_patch else "applyConfiguration", "expression", default="")
        yield Mutation(compiled(text, variables(spec)), is_patch)
