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

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar

from msgspec.structs import replace

from stromboli.api import (
    Command,
    Condition,
    KObject,
    Node,
    ObjectMeta,
    Pod,
    PodGroup,
    Queue,
    QueueStatus,
    Reservation,
    default,
    names,
)

from .changes import Change, Create, Delete, Notify, Objects, Update
from .commands import next_commands
from .queue_locks import CONDITIONS, LockStatus, QueueLocks
from .queue_tree import QueueTree
from .validator import Validator, reject_queue, with_accepted_condition
from .work_queue import WorkQueue

OPEN, CLOSING, CLOSED, UNKNOWN = "Open", "Closing", "Closed", "Unknown"

_COUNT_BY_PHASE = {
    "": "pending",
    "Pending": "pending",
    "Inqueue": "inqueue",
    "Running": "running",
    "Completed": "completed",
}


class QueueController:
    observes: ClassVar = (Queue, PodGroup, Node, Pod, Reservation)

    def __init__(
        self,
        validator: Validator,
        *,
        required: Sequence[str],
        unfit: QueueTree | None = None,
        locks: QueueLocks | None = None,
    ) -> None:
        """`required`: queues that are created when they do not exist; `unfit` finds queues that do not fit the others,
        if nobody else does; `locks` locks nodes for queues."""
        self._locks = locks
        self._validator = validator
        self._unfit = unfit
        self._unfit_errors: dict[str, str] = {}  # by name
        self._tree_changed = True
        self._required = required
        self._queues = WorkQueue()
        self._children: dict[str, set[str]] = {}  # by the name of the parent, which need not exist
        self._groups = _GroupCounts()

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        if self._locks is not None:
            self._locks.observe(after if before is None else before)
        if isinstance(before, Node | Pod | Reservation) or isinstance(after, Node | Pod | Reservation):
            return
        if isinstance(before, PodGroup) or isinstance(after, PodGroup):
            old = before if isinstance(before, PodGroup) else None
            new = after if isinstance(after, PodGroup) else None
            self._queues.add_all(self._groups.count(old, new))
            return
        self._tree_changed = True
        if isinstance(before, Queue):
            self._queues.add(before.metadata.name)
            self._children[_parent(before)].discard(before.metadata.name)
        if isinstance(after, Queue):
            self._queues.add(after.metadata.name)
            self._children.setdefault(_parent(after), set()).add(after.metadata.name)

    def next_due(self, now: float) -> float | None:
        return None if self._locks is None else self._locks.next_due()

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for name in self._required:
            if objects.get(Queue, name) is None:
                missing = Queue(metadata=ObjectMeta(name=name))
                default(missing)
                changes.append(Create(missing))
        commands = next_commands("Queue", objects)
        for command in commands.values():
            changes.append(Delete(command, reason="the command is being executed"))

        self._check_tree(objects)
        locks = self._decide_locks(objects, now)
        states: dict[str, str] = {}
        queues = self._to_visit(objects, [*self._queues.take(now), *commands, *locks])
        for queue in _parents_first(queues):
            name = queue.metadata.name
            parent = _parent(queue)
            parent_state = states.get(parent, OPEN) if parent in queues else _last_state(parent, objects)
            parent_open = name == names.ROOT_QUEUE or parent_state == OPEN
            states[name], of_queue = self._visit(
                queue, commands.get(name), locks.get(name), parent_open=parent_open, now=now
            )
            if of_queue:
                self._queues.add(name)
                if self._locks is not None:
                    self._locks.observe(queue)  # it may not be written
            changes += of_queue
        return changes

    def _decide_locks(self, objects: Objects, now: float) -> dict[str, LockStatus]:
        """What the status of queues should say about their locks, for those that have to say something else."""
        if self._locks is None:
            return {}
        decided = self._locks.decide(objects, now, is_valid=lambda queue: not self._error_in(queue))
        changed = {}
        for name, lock in decided.items():
            queue = objects.get(Queue, name)
            if queue is not None and (lock.notices or not lock.is_said_by(queue)):
                changed[name] = lock
        return changed

    def _error_in(self, queue: Queue) -> str:
        return self._validator.error_in(queue) or self._unfit_errors.get(queue.metadata.name, "")

    def _check_tree(self, objects: Objects) -> None:
        """Visit the queues that fit the others no longer, or do again."""
        if self._unfit is None or not self._tree_changed:
            return
        self._tree_changed = False
        before = self._unfit_errors
        valid = [queue for queue in objects.list(Queue) if not self._validator.error_in(queue)]
        self._unfit_errors = dict(self._unfit.errors(valid))
        names_in_question = before.keys() | self._unfit_errors.keys()
        self._queues.add_all(name for name in names_in_question if before.get(name) != self._unfit_errors.get(name))

    def _to_visit(self, objects: Objects, changed: Iterable[str]) -> dict[str, Queue]:
        """The queues that changed and all below them, in the order of names: a queue depends on the state of its
        parent."""
        found: dict[str, Queue] = {}
        seen: set[str] = set()
        to_do = list(changed)
        while to_do:
            name = to_do.pop()
            if name not in seen:
                seen.add(name)
                to_do += self._children.get(name, ())
                queue = objects.get(Queue, name)
                if queue is not None:
                    found[name] = queue
        return dict(sorted(found.items()))

    def _visit(
        self, queue: Queue, command: Command | None, lock: LockStatus | None, *, parent_open: bool, now: float
    ) -> tuple[str, list[Change]]:
        """The state of the queue, and the changes to it."""
        error = self._error_in(queue)
        if error:
            changes = reject_queue(queue, error, now)
            if command is not None:
                changes.append(Notify(queue, "CommandRefused", f"The queue is invalid: {error}", warning=True))
            return queue.status.state or OPEN, changes
        changes = []
        groups = self._groups.of_queue(queue.metadata.name)
        state, by_parent = _state_without_command(queue, has_groups=bool(groups), parent_open=parent_open)
        if command is not None:
            problem = _problem_with(command, queue, parent_open=parent_open)
            if problem:
                changes.append(Notify(queue, "CommandRefused", problem, warning=True))
            else:
                state, by_parent = _state_after(command, state, by_parent, has_groups=bool(groups))
        changes += _status_update(queue, state, by_parent, groups, now, lock)
        if lock is not None:
            changes += [Notify(queue, n.reason, n.message, warning=n.warning, nodes=n.nodes) for n in lock.notices]
        return state, changes


class _GroupCounts:
    """The counts of each queue's status: its groups by phase."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}  # without zeros

    def of_queue(self, name: str) -> Mapping[str, int]:
        return self._counts.get(name, {})

    def count(self, before: PodGroup | None, after: PodGroup | None) -> set[str]:
        """Count a group that was created, changed or deleted. Returns the queues whose counts have changed."""
        places = [(_place(group), number) for group, number in ((before, -1), (after, 1)) if group is not None]
        if len(places) == 2 and places[0][0] == places[1][0]:
            return set()
        for (name, phase), number in places:
            counts = self._counts.setdefault(name, Counter())
            counts[phase] += number
            if not counts[phase]:
                del counts[phase]
            if not counts:
                del self._counts[name]
        return {name for (name, _), _ in places}


def _place(group: PodGroup) -> tuple[str, str]:
    """The queue of a group, and the count of the queue's status that it is part of."""
    return group.spec.queue or names.DEFAULT_QUEUE, _COUNT_BY_PHASE.get(group.status.phase, "unknown")


def _parent(queue: Queue) -> str:
    return queue.spec.parent or names.ROOT_QUEUE


def _last_state(name: str, objects: Objects) -> str:
    """The state of a queue that has not changed, or would be visited. A missing one closes nothing."""
    queue = objects.get(Queue, name)
    return OPEN if queue is None else queue.status.state or OPEN


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


def _status_update(
    queue: Queue, state: str, by_parent: bool, groups: Mapping[str, int], now: float, lock: LockStatus | None
) -> list[Change]:
    conditions = with_accepted_condition(queue.status.conditions, Condition, "", now)
    if lock is not None:
        conditions = [c for c in conditions if c.type not in CONDITIONS] + lock.conditions
    status: QueueStatus = replace(
        queue.status,
        state=state,
        pending=groups.get("pending", 0),
        inqueue=groups.get("inqueue", 0),
        running=groups.get("running", 0),
        completed=groups.get("completed", 0),
        unknown=groups.get("unknown", 0),
        conditions=conditions,
        reservation=queue.status.reservation if lock is None else lock.reservation,
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


def _parents_first(queues: dict[str, Queue]) -> list[Queue]:
    """In the order of names, but none before its parent. A cycle of parents starts at its first name."""
    ordered: dict[str, Queue] = {}
    for name in queues:
        ancestors: list[str] = []
        current = name
        while current in queues and current not in ordered and current not in ancestors:
            ancestors.append(current)
            current = _parent(queues[current])
        for ancestor in reversed(ancestors):
            ordered[ancestor] = queues[ancestor]
    return list(ordered.values())
