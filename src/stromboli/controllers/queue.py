"""The Queue controller: the state of each queue and the number of groups in it.

                      Close, has groups
          ┌───────┐ ────────────────────▶ ┌─────────┐
    ""──▶ │ Open  │ ◀──────────────────── │ Closing │
          └───────┘         Open          └─────────┘
            │   ▲                              │ last group gone
            │   │ Open    ┌────────┐           │
            │   └──────── │ Closed │ ◀─────────┘
            └───────────▶ └────────┘
           Close, is empty

Any other state becomes Unknown; the commands Open and Close work from there as well.

A queue is open only if its parent is. This is a rule about states, not a side effect of commands: it holds whether a
state was changed by a command, by a patch, or while no controller ran. A child that is closed because of its parent
gets an annotation that says so and opens again with the parent; one that a user closed stays closed. Queues are
processed from the root downwards, so one pass is enough for any depth.

The root is never closed. The queue `default` always exists; on a real cluster the root exists as well, because users
list it. An invalid queue keeps its state.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stromboli.api import Command, Condition, ObjectMeta, PodGroup, Queue, QueueStatus, default, names

from .changes import Change, Create, Delete, Notify, Objects, Update
from .commands import next_commands
from .queue_tree import QueueTree
from .validator import Validator, reject_queue, with_accepted_condition

OPEN, CLOSING, CLOSED, UNKNOWN = "Open", "Closing", "Closed", "Unknown"

_COUNT_BY_PHASE = {
    "": "pending",
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Completed": "completed",
}


def reconcile(
    objects: Objects, validator: Validator, now: float, *, required: Sequence[str], unfit: QueueTree | None = None
) -> list[Change]:
    """`unfit` finds queues that do not fit the others; without it, nobody has to."""
    queues = {queue.metadata.name: queue for queue in objects.list(Queue)}
    counts = _count_groups(objects.list(PodGroup))
    changes: list[Change] = []
    for name in required:
        if name not in queues:
            missing = Queue(metadata=ObjectMeta(name=name))
            default(missing)
            changes.append(Create(missing))
    commands = next_commands("Queue", objects)
    for command in commands.values():
        changes.append(Delete(command, reason="the command is being executed"))

    states: dict[str, str] = {}
    errors = {name: error for name, queue in queues.items() if (error := validator.error_in(queue))}
    if unfit is not None:
        errors |= unfit.errors(queue for name, queue in queues.items() if name not in errors)
    for queue in _parents_first(queues):
        name = queue.metadata.name
        error = errors.get(name, "")
        if error:
            states[name] = queue.status.state or OPEN
            changes += reject_queue(queue, error, now)
            if name in commands:
                changes.append(Notify(queue, "CommandRefused", f"The queue is invalid: {error}", warning=True))
            continue
        groups = counts.get(name, {})
        parent = queue.spec.parent or names.ROOT_QUEUE
        parent_open = name == names.ROOT_QUEUE or states.get(parent, OPEN) == OPEN
        state, by_parent = _state_without_command(queue, has_groups=bool(groups), parent_open=parent_open)
        queue_command = commands.get(name)
        if queue_command is not None:
            problem = _problem_with(queue_command, queue, parent_open=parent_open)
            if problem:
                changes.append(Notify(queue, "CommandRefused", problem, warning=True))
            else:
                state, by_parent = _state_after(queue_command, state, by_parent, has_groups=bool(groups))
        states[name] = state
        changes += _status_update(queue, state, by_parent, groups, now)
    return changes


def _state_without_command(queue: Queue, *, has_groups: bool, parent_open: bool) -> tuple[str, bool]:
    """The state of the queue, and whether it is closed because of its parent."""
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


def _problem_with(command: Command, queue: Queue, *, parent_open: bool) -> str:
    """Why the command cannot be executed; "" if it can."""
    if command.action == "CloseQueue":
        if queue.metadata.name == names.ROOT_QUEUE:
            return "The queue root cannot be closed, because all other queues are below it. Close those instead."
        return ""
    if command.action == "OpenQueue":
        if not parent_open:
            return (
                f"The queue {queue.metadata.name} cannot be opened, because its parent is not open. "
                f"Open {queue.spec.parent} first."
            )
        return ""
    return f"A queue supports the actions OpenQueue and CloseQueue, not {command.action}."


def _state_after(command: Command, state: str, by_parent: bool, *, has_groups: bool) -> tuple[str, bool]:
    if command.action == "OpenQueue":
        return OPEN, False
    if state in (CLOSING, CLOSED):
        return state, by_parent
    return _closed(has_groups), False


def _closed(has_groups: bool) -> str:
    return CLOSING if has_groups else CLOSED


def _status_update(queue: Queue, state: str, by_parent: bool, groups: dict[str, int], now: float) -> list[Change]:
    status: QueueStatus = replace(
        queue.status,
        state=state,
        pending=groups.get("pending", 0),
        inqueue=groups.get("inqueue", 0),
        running=groups.get("running", 0),
        completed=groups.get("completed", 0),
        unknown=groups.get("unknown", 0),
        conditions=with_accepted_condition(queue.status.conditions, Condition, "", now),
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
    """The counts of each queue's status: its groups by phase."""
    counts: dict[str, dict[str, int]] = {}
    for group in groups:
        of_queue = counts.setdefault(group.spec.queue or names.DEFAULT_QUEUE, {})
        count = _COUNT_BY_PHASE.get(group.status.phase, "unknown")
        of_queue[count] = of_queue.get(count, 0) + 1
    return counts


def _parents_first(queues: dict[str, Queue]) -> list[Queue]:
    """In the order of names, but none before its parent. A cycle of parents starts at its first name."""
    ordered: dict[str, Queue] = {}
    for name in queues:
        ancestors: list[str] = []
        current = name
        while current in queues and current not in ordered and current not in ancestors:
            ancestors.append(current)
            current = queues[current].spec.parent or names.ROOT_QUEUE
        for ancestor in reversed(ancestors):
            ordered[ancestor] = queues[ancestor]
    return list(ordered.values())
