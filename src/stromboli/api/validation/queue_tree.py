"""The rules between a queue and its relatives.

A queue cannot have more than its parent: its capability is within the parent's, and the guarantees of all children
together are within what the parent guarantees and may have. A queue that breaks a rule is rejected, whether it comes
as a child or as the parent of queues that exist already.

The paths of the annotation `volcano.sh/hierarchy` name leaves: a path cannot lead through another queue.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stromboli.api import names
from stromboli.api.errors import ApiError
from stromboli.api.kinds.batch import Queue
from stromboli.api.kinds.metadata import ResourceList
from stromboli.api.quantity import amounts, format_amount

from .limits import MAX_QUEUE_DEPTH


def validate_queue_tree(queue: Queue, queues: Sequence[Queue]) -> None:
    """Raise an ApiError if the queue, new or changed, does not fit the other queues."""
    others = {other.metadata.name: other for other in queues if other.metadata.name != queue.metadata.name}
    _check_depth(queue, others)
    parent = others.get(_parent_of(queue))
    children = [other for other in others.values() if _parent_of(other) == queue.metadata.name]
    if parent is not None:
        siblings = [other for other in others.values() if _parent_of(other) == parent.metadata.name]
        _check_capability(queue, parent, field="spec.capability")
        _check_guarantees([*siblings, queue], parent, field="spec.guarantee.resource")
    for child in children:
        _check_capability(child, queue, field="spec.capability")
    _check_guarantees(children, queue, field="spec")
    _check_path(queue, others)


def _parent_of(queue: Queue) -> str:
    if queue.metadata.name == names.ROOT_QUEUE:
        return ""
    return queue.spec.parent or names.ROOT_QUEUE


def _check_depth(queue: Queue, others: Mapping[str, Queue]) -> None:
    above = [queue.metadata.name]
    parent = others.get(_parent_of(queue))
    while parent is not None:
        above.append(parent.metadata.name)
        if len(above) > MAX_QUEUE_DEPTH:
            raise ApiError("spec.parent", f"must have at most {MAX_QUEUE_DEPTH - 1} queues above it, one by one")
        name = _parent_of(parent)
        if name == queue.metadata.name:
            raise ApiError("spec.parent", f"must not be below the queue itself, as {above[1]} is")
        parent = others.get(name)


def _check_capability(child: Queue, parent: Queue, *, field: str) -> None:
    has, most = amounts(child.spec.capability), amounts(parent.spec.capability)
    for resource in sorted(has.keys() & most.keys()):
        if has[resource] > most[resource]:
            raise ApiError(
                field,
                f"the capability of the queue {child.metadata.name} ({_text(resource, has[resource])}) must be at most "
                f"that of its parent {parent.metadata.name} ({_text(resource, most[resource])})",
            )


def _check_guarantees(children: Sequence[Queue], parent: Queue, *, field: str) -> None:
    together: dict[str, int] = {}
    for child in children:
        for resource, amount in amounts(child.spec.guarantee.resource).items():
            together[resource] = together.get(resource, 0) + amount
    limits: tuple[tuple[str, ResourceList], ...] = (
        ("guarantee", parent.spec.guarantee.resource), ("capability", parent.spec.capability),
    )  # fmt: skip
    for name, limit in limits:
        most = amounts(limit)
        for resource in sorted(together.keys() & most.keys()):
            if together[resource] > most[resource]:
                raise ApiError(
                    field,
                    f"the guarantees of the queues below {parent.metadata.name} "
                    f"({_text(resource, together[resource])}) must be at most the {name} of {parent.metadata.name} "
                    f"({_text(resource, most[resource])})",
                )


def _check_path(queue: Queue, others: Mapping[str, Queue]) -> None:
    path = queue.metadata.annotations.get(names.HIERARCHY)
    if not path:
        return
    for name, other in sorted(others.items()):
        taken = other.metadata.annotations.get(names.HIERARCHY)
        if taken and (f"{taken}/".startswith(f"{path}/") or f"{path}/".startswith(f"{taken}/")):
            raise ApiError(
                f"metadata.annotations[{names.HIERARCHY}]",
                f'"{path}" must not lead through, or to, the path of the queue {name}, "{taken}"',
            )


def _text(resource: str, amount: int) -> str:
    return f"{format_amount(resource, amount)} {resource}"
