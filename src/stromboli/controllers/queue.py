"""Queues: open, closing, closed, and how many groups are in them.

                      Close, has groups
          ┌───────┐ ────────────────────▶ ┌─────────┐
    ""──▶ │ Open  │ ◀──────────────────── │ Closing │
          └───────┘         Open          └─────────┘
            │   ▲                              │ last group gone
            │   │ Open    ┌────────┐           │
            │   └──────── │ Closed │ ◀─────────┘
            └───────────▶ └────────┘
           Close, is empty

A state that is none of these becomes Unknown, from which Open and Close lead back.

Parents rule their children, and that is kept as a rule about states rather than as a consequence of
commands: below a queue that is not open no queue is open. A child closed for that reason carries an
annotation that says so, and opens again with its parent; one that its own user had closed stays closed. So
it does not matter whether a state was changed by a command, by a patch, or while no controller ran. Queues
are looked at from the root downwards, and one pass is enough for any depth.

The root is never closed. The queue `default` is always there, and so is the root where people look for it.
A queue that breaks the rules keeps its state, whatever happens.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stromboli.api import Command, Condition, ObjectMeta, PodGroup, Queue, QueueStatus, default, names

from .changes import Change, Create, Delete, Notify, Objects, Update
from .commands import commands_for
from .refusals import Refusals, refusal_of_queue, with_verdict

OPEN, CLOSING, CLOSED, UNKNOWN = "Open", "Closing", "Closed", "Unknown"

_COUNTED_AS = {
    "": "pending",
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Completed": "completed",
}


def reconcile(objects: Objects, refusals: Refusals, now: float, *, always: Sequence[str]) -> list[Change]:
    queues = {queue.metadata.name: queue for queue in objects.list(Queue)}
    counts = _count_groups(objects.list(PodGroup))
    changes: list[Change] = []
    for name in always:
        if name not in queues:
            missing = Queue(metadata=ObjectMeta(name=name))
            default(missing)
            changes.append(Create(missing))
    commands = commands_for("Queue", objects)
    for command in commands.values():
        changes.append(Delete(command, reason="the command is being obeyed"))

    states: dict[str, str] = {}
    for queue in _parents_first(queues):
        name = queue.metadata.name
        why = refusals.why_not(queue)
        if why:
            states[name] = queue.status.state or OPEN
            changes += refusal_of_queue(queue, why, now)
            if name in commands:
                changes.append(Notify(queue, "CommandRefused", f"The queue is invalid: {why}", warning=True))
            continue
        groups = counts.get(name, {})
        parent = queue.spec.parent or names.ROOT_QUEUE
        parent_open = name == names.ROOT_QUEUE or states.get(parent, OPEN) == OPEN
        state, by_parent = _synchronised(queue, has_groups=bool(groups), parent_open=parent_open)
        order = commands.get(name)
        if order is not None:
            refusal = _refusal(order, queue, parent_open=parent_open)
            if refusal:
                changes.append(Notify(queue, "CommandRefused", refusal, warning=True))
            else:
                state, by_parent = _obeyed(order, state, by_parent, has_groups=bool(groups))
        states[name] = state
        changes += _written(queue, state, by_parent, groups, now)
    return changes


def _synchronised(queue: Queue, *, has_groups: bool, parent_open: bool) -> tuple[str, bool]:
    """The state by itself, and whether the queue is closed on its parent's account."""
    state = queue.status.state or OPEN
    by_parent = queue.metadata.annotations.get(names.CLOSED_BY_PARENT) == "true"
    if state not in (OPEN, CLOSING, CLOSED):
        return UNKNOWN, by_parent
    if state == OPEN and not parent_open:
        return _closed(has_groups), True
    if state != OPEN and by_parent and parent_open:
        return OPEN, False
    if state == CLOSING:
        return _closed(has_groups), by_parent
    return state, by_parent and state != OPEN


def _refusal(command: Command, queue: Queue, *, parent_open: bool) -> str:
    if command.action == "CloseQueue":
        if queue.metadata.name == names.ROOT_QUEUE:
            return "The queue root cannot be closed: all other queues are below it. Close those instead."
        return ""
    if command.action == "OpenQueue":
        if not parent_open:
            return (
                f"The queue {queue.metadata.name} cannot be opened while its parent is not: "
                f"open {queue.spec.parent} first."
            )
        return ""
    return f"A queue can be told OpenQueue or CloseQueue, not {command.action}."


def _obeyed(command: Command, state: str, by_parent: bool, *, has_groups: bool) -> tuple[str, bool]:
    if command.action == "OpenQueue":
        return OPEN, False
    if state in (CLOSING, CLOSED):
        return state, by_parent
    return _closed(has_groups), False


def _closed(has_groups: bool) -> str:
    return CLOSING if has_groups else CLOSED


def _written(queue: Queue, state: str, by_parent: bool, groups: dict[str, int], now: float) -> list[Change]:
    status: QueueStatus = replace(
        queue.status,
        state=state,
        pending=groups.get("pending", 0),
        inqueue=groups.get("inqueue", 0),
        running=groups.get("running", 0),
        completed=groups.get("completed", 0),
        unknown=groups.get("unknown", 0),
        conditions=with_verdict(queue.status.conditions, Condition, "", now),
    )
    annotations = dict(queue.metadata.annotations)
    if by_parent:
        annotations[names.CLOSED_BY_PARENT] = "true"
    else:
        annotations.pop(names.CLOSED_BY_PARENT, None)
    if status == queue.status and annotations == queue.metadata.annotations:
        return []
    metadata = replace(queue.metadata, annotations=annotations)
    return [Update(replace(queue, metadata=metadata, status=status))]


def _count_groups(groups: Iterable[PodGroup]) -> dict[str, dict[str, int]]:
    """How many groups of each queue are in which count of its status."""
    counts: dict[str, dict[str, int]] = {}
    for group in groups:
        of_queue = counts.setdefault(group.spec.queue or names.DEFAULT_QUEUE, {})
        counted_as = _COUNTED_AS.get(group.status.phase, "unknown")
        of_queue[counted_as] = of_queue.get(counted_as, 0) + 1
    return counts


def _parents_first(queues: dict[str, Queue]) -> list[Queue]:
    """In the order of names, but none before its parent. A circle of parents is entered at its first name."""
    ordered: dict[str, Queue] = {}
    for name in queues:
        line: list[str] = []
        step = name
        while step in queues and step not in ordered and step not in line:
            line.append(step)
            step = queues[step].spec.parent or names.ROOT_QUEUE
        for ancestor in reversed(line):
            ordered[ancestor] = queues[ancestor]
    return list(ordered.values())
