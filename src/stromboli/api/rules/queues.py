"""Queues: what they may use, deserve and are guaranteed, and their place in a tree.

The rules between a queue and its relatives are in `validation.queue_tree`: they need all queues at once.
"""

from __future__ import annotations

from typing import Any, Final

from stromboli.api.kinds.batch import Guarantee, Queue, QueueSpec
from stromboli.api.names import HIERARCHY, HIERARCHY_WEIGHTS, ROOT_QUEUE
from stromboli.api.quantity import QuantityError, parse_quantity

from .quantities import QUANTITY, within
from .rule import Door, Rule, given, unless

_PATH: Final = f"metadata.annotations[{HIERARCHY}]"
_WEIGHTS: Final = f"metadata.annotations[{HIERARCHY_WEIGHTS}]"


def _own_parent(queue: Queue) -> str:
    return unless(not queue.spec.parent or queue.spec.parent != queue.metadata.name, "must not be the queue itself")


def _guaranteed(spec: QueueSpec) -> Any:
    return spec.guarantee.resource


def _deserved(spec: QueueSpec) -> Any:
    return spec.deserved


def _capability(spec: QueueSpec) -> Any:
    return spec.capability


def _guaranteed_but_not_deserved(spec: QueueSpec) -> str:
    missing = [name for name in spec.guarantee.resource if name not in spec.deserved] if spec.deserved else []
    return f"must have {min(missing)}, of which guarantee.resource has some" if missing else ""


def _locks_something(guarantee: Guarantee) -> str:
    holds = not guarantee.policy or guarantee.percentage is not None or bool(guarantee.resource)
    return unless(holds, "must have a resource or a percentage")


def _steps(queue: Queue) -> tuple[list[str], list[str]] | None:
    path, weights = (queue.metadata.annotations.get(name) for name in (HIERARCHY, HIERARCHY_WEIGHTS))
    return ((path or "").split("/"), (weights or "").split("/")) if path or weights else None


def _path(queue: Queue) -> str:
    steps = _steps(queue)
    holds = steps is None or (steps[0][0] == ROOT_QUEUE and "" not in steps[0])
    return unless(holds, f'{_PATH_MUST}, not "{queue.metadata.annotations.get(HIERARCHY, "")}"')


def _one_weight_each(queue: Queue) -> str:
    steps = _steps(queue)
    if steps is None or len(steps[0]) == len(steps[1]):
        return ""
    return f"{_LENGTH_MUST} ({len(steps[0])}), not {len(steps[1])}"


def _positive_weights(queue: Queue) -> str:
    steps = _steps(queue)
    wrong = [] if steps is None else [part for part in steps[1] if not _is_weight(part)]
    return f'{_WEIGHTS_MUST}, not "{wrong[0]}"' if wrong else ""


def _is_weight(text: str) -> bool:
    try:
        return parse_quantity(text) >= 1
    except QuantityError:
        return False


_PATH_MUST: Final = 'must be a path such as "root/science/dev"'
_LENGTH_MUST: Final = f"must have one weight for each step of {HIERARCHY}"
_WEIGHTS_MUST: Final = "must be weights of 1 or more"


def _annotation(name: str) -> str:
    return f"(has(self.metadata.annotations) && '{name}' in self.metadata.annotations ? {_value(name)} : '')"


def _value(name: str) -> str:
    return f"self.metadata.annotations['{name}']"


_GIVEN_PATH: Final = _annotation(HIERARCHY)
_GIVEN_STEPS: Final = f"{_annotation(HIERARCHY)}.split('/')"
_GIVEN_WEIGHTS: Final = f"{_annotation(HIERARCHY_WEIGHTS)}.split('/')"
_POSITIVE: Final = f"w.matches('{QUANTITY}') && quantity(w).compareTo(quantity('1')) >= 0"
_HAS_NONE: Final = f"{_GIVEN_PATH} == '' && {_annotation(HIERARCHY_WEIGHTS)} == ''"

RULES: Final = (
    Rule(
        on=Queue, field="spec.parent", must="must not be the queue itself", broken=_own_parent,
        cel="!has(self.spec.parent) || self.spec.parent != self.metadata.name",
    ),
    within(QueueSpec, ("deserved", _deserved), ("capability", _capability), "the capability"),
    within(QueueSpec, ("guarantee.resource", _guaranteed), ("deserved", _deserved), "the deserved amount"),
    within(QueueSpec, ("guarantee.resource", _guaranteed), ("capability", _capability), "the capability"),
    Rule(
        on=QueueSpec, field="deserved", must="must have every resource that guarantee.resource has",
        broken=_guaranteed_but_not_deserved,
        cel="!has(self.deserved) || self.deserved.size() == 0 || !has(self.guarantee) || !has(self.guarantee.resource)"
        " || self.guarantee.resource.all(r, r in self.deserved)",
        says="'must have ' + self.guarantee.resource.filter(r, !(r in self.deserved)).min()"
        " + ', of which guarantee.resource has some'",
        door=Door.POLICY,
    ),
    Rule(
        on=Guarantee, field="", must="must have a resource or a percentage", broken=_locks_something,
        cel=f"!{given('self.policy')} || has(self.percentage) || has(self.resource) && self.resource.size() > 0",
    ),
    Rule(
        on=Queue, field=_PATH, must=_PATH_MUST, broken=_path, door=Door.POLICY,
        cel=f"{_HAS_NONE} || {_GIVEN_PATH}.matches('^{ROOT_QUEUE}(/[^/]+)*$')",
        says=f"""'{_PATH_MUST}, not "' + {_GIVEN_PATH} + '"'""",
    ),
    Rule(
        on=Queue, field=_WEIGHTS, must=_LENGTH_MUST, broken=_one_weight_each, door=Door.POLICY,
        cel=f"{_HAS_NONE} || {_GIVEN_STEPS}.size() == {_GIVEN_WEIGHTS}.size()",
        says=f"'{_LENGTH_MUST} (' + string({_GIVEN_STEPS}.size()) + '), not ' + string({_GIVEN_WEIGHTS}.size())",
    ),
    Rule(
        on=Queue, field=_WEIGHTS, must=_WEIGHTS_MUST, broken=_positive_weights, door=Door.POLICY,
        cel=f"{_HAS_NONE} || {_GIVEN_WEIGHTS}.all(w, {_POSITIVE})",
        says=f"""'{_WEIGHTS_MUST}, not "' + {_GIVEN_WEIGHTS}.filter(w, !({_POSITIVE}))[0] + '"'""",
    ),
)  # fmt: skip
