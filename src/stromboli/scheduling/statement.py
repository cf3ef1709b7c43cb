"""The transaction: every change that a session makes to tasks can be undone.

Each operation takes effect on the ledger at once, so plugins and filters answer the next question as if it had
happened. `discard` undoes all operations, last first, and leaves no trace. `commit` turns them into decisions and makes
them permanent. A statement that is neither committed nor discarded stays in force until the session ends: this keeps
room for one cycle for a job that waits for terminating pods. If somebody gives way for a task, `commit` also nominates
the task to the node, and the nomination outlives the session.

A statement itself places tasks, promises them room, and evicts them. All other operations belong to features: each
makes a `Kind` that says how such an operation is undone, done again, and committed, and hands its operations to `do`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from stromboli.cluster import Job, JobKey, Node, Status, Task, TaskKey, Vector

from .callbacks import Objection
from .decisions import Bind, Evict
from .framework import Framework

# Looked up once: it takes long to find members of an enumeration.
_PENDING = Status.PENDING
_PIPELINED = Status.PIPELINED
_RELEASING = Status.RELEASING


class Operation(NamedTuple):
    kind: Kind
    task: Task
    was: tuple[Status, Node | None]
    reason: str = ""
    message: str = ""
    subject: str = ""  # what is changed besides the task, and how much of it
    amount: Vector | None = None


Script = list[tuple[Operation, Node | None]]
"""Operations that were undone, with the nodes that their tasks had then; to do them again."""


def _move_back(statement: Statement, operation: Operation) -> None:
    statement.move(operation.task, *operation.was)


def _nothing(statement: Statement, operation: Operation) -> None:
    """It needs no decision."""


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """What a statement has to know of a kind of operation. `again` does it once more after it was undone, and gets the
    node that the task had."""

    name: str
    again: Callable[[Statement, Operation, Node | None], object]
    undo: Callable[[Statement, Operation], None] = _move_back
    commit: Callable[[Statement, Operation], None] = _nothing
    gives_way: bool = False  # for others, who are promised the room beyond this session
    ties: bool = False  # the task to the node that it has


class Statement:
    def __init__(self, session: Framework) -> None:
        self.session = session
        self.operations: list[Operation] = []
        self._allocate = session.points.allocate.calls
        self._deallocate = session.points.deallocate.calls
        self._outlook = session.points.outlook.calls

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def has_evictions(self) -> bool:
        """Whether somebody gives way for others."""
        return any(operation.kind.gives_way for operation in self.operations)

    def promised(self, job: Job) -> list[Task]:
        """The tasks of a job that it promises room."""
        return [o.task for o in self.operations if o.kind is PIPELINE and o.task.job is job]

    # -- operations ---------------------------------------------------------------------------------------------

    def allocate(self, task: Task, node: Node) -> bool:
        """Give a task idle room. False if a plugin objected; then nothing changed."""
        return self._place(ALLOCATE, task, Status.ALLOCATED, node)

    def pipeline(self, task: Task, node: Node) -> bool:
        """Promise a task room that terminating pods release."""
        return self._place(PIPELINE, task, _PIPELINED, node)

    def allocate_many(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> int:
        """`allocate` for tasks of one job and shape; how many were placed (fewer only if a plugin objected)."""
        return self._place_many(ALLOCATE, tasks, Status.ALLOCATED, nodes)

    def pipeline_many(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> int:
        """`pipeline` for tasks of one job and shape; how many were placed."""
        return self._place_many(PIPELINE, tasks, Status.PIPELINED, nodes)

    def evict(self, task: Task, *, reason: str, message: str) -> None:
        """Evict a running task, or one whose bind waits. Its share is free at once, its room when it is gone."""
        for call_before in self.session.points.eviction.calls:
            call_before(self, task, reason, message)
        self.operations.append(Operation(EVICT, task, (task.status, task.node), reason, message))
        self.session.ledger.move(task, _RELEASING, task.node)
        for call in self._deallocate:
            call(task)

    def spare(self, task: Task) -> None:
        """Undo one eviction of this statement, with what gave way together with the task."""
        for index in range(len(self.operations) - 1, -1, -1):
            operation = self.operations[index]
            if operation.kind is EVICT and operation.task is task:
                operation.kind.undo(self, operation)
                del self.operations[index]
                before = self.operations[index - 1] if index else None
                if before is not None and before.kind.gives_way and before.task is task:
                    before.kind.undo(self, before)
                    del self.operations[index - 1]
                return
        raise ValueError(f"{task} is not evicted in this statement")

    def do(self, operation: Operation) -> Operation:
        """Record an operation of a feature, which takes effect on the ledger now. The feature sees to that."""
        self.operations.append(operation)
        return operation

    def move(self, task: Task, status: Status, node: Node | None) -> None:
        """Change what a task may count on. No share changes. To be used by operations of features."""
        self.session.ledger.move(task, status, node)
        for call in self._outlook:
            call(task)

    def take_back(self, operation: Operation) -> None:
        """Undo one operation of this statement on which no other depends."""
        self.operations.remove(operation)
        operation.kind.undo(self, operation)

    def _place_many(self, kind: Kind, tasks: Sequence[Task], status: Status, nodes: Sequence[Node]) -> int:
        if self._allocate or len(tasks) == 1 or any(task.status is not Status.PENDING for task in tasks):
            for done, (task, node) in enumerate(zip(tasks, nodes, strict=True)):
                if not self._place(kind, task, status, node):
                    return done
            return len(tasks)
        before = (Status.PENDING, None)
        self.operations.extend([Operation(kind, task, before) for task in tasks])
        self.session.ledger.place_many(tasks, status, nodes)
        return len(tasks)

    def _place(self, kind: Kind, task: Task, status: Status, node: Node) -> bool:
        operation = Operation(kind, task, (task.status, task.node))
        self.session.ledger.move(task, status, node)
        self.operations.append(operation)
        for done, call in enumerate(self._allocate):
            try:
                call(task)
            except Objection:
                self.operations.pop()
                self.session.ledger.move(task, *operation.was)
                for undo in self._deallocate[: done + 1]:
                    undo(task)
                return False
        return True

    # -- ends ---------------------------------------------------------------------------------------------------

    def discard(self, *, down_to: int = 0) -> None:
        """Undo all operations, last first; `down_to`: only until this many are left."""
        operations = self.operations
        while len(operations) > down_to:
            number = self._alike_at_the_end(down_to)
            if number == 1:
                operation = operations.pop()
                operation.kind.undo(self, operation)
            else:
                self.session.ledger.take_back_many([operation.task for operation in operations[-number:]])
                del operations[-number:]

    def _alike_at_the_end(self, down_to: int) -> int:
        """How many of the last operations placed tasks of one job and shape in the same way, and can be undone at
        once."""
        operations = self.operations
        kind, task, was = operations[-1][:3]
        places = kind is ALLOCATE or kind is PIPELINE
        if self._deallocate or not places or was[0] is not _PENDING or task.job is None or task.backfill:
            return 1
        job, shape, status = task.job, task.shape, task.status
        first = len(operations) - 1
        while first > down_to:
            before = operations[first - 1]
            other = before.task
            if before.kind is not kind or before.was[0] is not _PENDING or other.backfill:
                break
            if other.job is not job or other.shape is not shape or other.status is not status:
                break
            first -= 1
        return len(operations) - first

    def suspend(self) -> Script:
        """`discard`; returns what `repeat` needs to do it all again."""
        script: Script = []
        before: dict[TaskKey, Node | None] = {}  # the node that a task had before what follows
        for operation in reversed(self.operations):
            task = operation.task
            script.append((operation, before.get(task.key, task.node)))
            before[task.key] = operation.was[1]
        self.discard()
        return script[::-1]

    def repeat(self, script: Script) -> None:
        """Do again what was undone, unless a plugin objects now."""
        for operation, node in script:
            operation.kind.again(self, operation, node)

    def merge(self, other: Statement) -> None:
        """Take over the operations of another statement, in order; it is empty afterwards."""
        self.operations.extend(other.operations)
        other.operations = []

    def commit(self) -> None:
        """Make the operations permanent in the ledger, and turn them into decisions."""
        session = self.session
        session.ledger.note_change()
        session.is_settling = True
        runs = list(_in_runs(self.operations))
        evicts = any(operation.kind.gives_way for operation, _, _ in runs)
        held = self._held_jobs(runs)
        for operation, task, together in runs:
            if operation.kind is ALLOCATE:
                self._start(operation, together, held)
            elif operation.kind is not PIPELINE:
                operation.kind.commit(self, operation)
            elif evicts:  # otherwise it is a promise for this cycle only: no decision
                assert task.node is not None
                session.ledger.nominate(task, task.node.name)
        self.operations = []
        session.is_settling = False

    def _start(self, operation: Operation, tasks: Sequence[Task], held: set[JobKey]) -> None:
        """Bind tasks of one job for which an operation is the same, unless their job is held or stands for something
        else."""
        if self.session.points.start.any(operation, tasks):
            return
        ledger, job = self.session.ledger, operation.task.job
        assert job is not None
        ledger.settle_binding(tasks)
        if job.key in held:
            return
        for task in tasks:
            if task.nominated:
                ledger.nominate(task, "")
        self.session.cycle.decisions.extend(
            [Bind(t.key, t.node.name, job.key, t.backfill, t.uses) for t in tasks if t.node is not None]
        )

    def _held_jobs(self, runs: Iterable[Run]) -> set[JobKey]:
        """Jobs whose binds must wait."""
        hold = self.session.points.hold
        if not hold:
            return set()
        placed: dict[Job, list[Task]] = {}
        for operation, task, together in runs:
            if operation.kind is ALLOCATE and task.job is not None:
                before = placed.get(task.job)
                placed[task.job] = together if before is None else before + together
        return {job.key for job, tasks in placed.items() if hold.any(job, tasks)}


Run = tuple[Operation, Task, list[Task]]
"""An operation with its task, and the tasks for which it is the same."""


def _in_runs(operations: Sequence[Operation]) -> Iterator[Run]:
    """The operations in order, where tasks of one job that get their places one after the other come together."""
    run: list[Task] = []
    first: Operation | None = None
    for operation in operations:
        task = operation.task
        plain = operation.kind is ALLOCATE and operation.was[0] is _PENDING and not task.stands_for
        if first is not None and plain and task.job is run[0].job:
            run.append(task)
            continue
        if first is not None:
            yield first, run[0], run
            first = None
        if plain:
            first, run = operation, [task]
        else:
            yield operation, task, [task]
    if first is not None:
        yield first, run[0], run


def _place_again(statement: Statement, operation: Operation, node: Node | None) -> bool:
    assert node is not None
    return (statement.allocate if operation.kind is ALLOCATE else statement.pipeline)(operation.task, node)


def _take_place_back(statement: Statement, operation: Operation) -> None:
    statement.session.ledger.move(operation.task, *operation.was)
    for call in statement.session.points.deallocate.calls:
        call(operation.task)


def _evict_again(statement: Statement, operation: Operation, node: Node | None) -> None:
    statement.evict(operation.task, reason=operation.reason, message=operation.message)


def _call_back(statement: Statement, operation: Operation) -> None:
    statement.session.ledger.move(operation.task, *operation.was)
    for call in statement.session.points.allocate.calls:
        call(operation.task)


def _send_away(statement: Statement, operation: Operation) -> None:
    session, task = statement.session, operation.task
    if task.key in session.ledger.held:  # it does not run yet, and only gives its place back
        session.points.withdrawal.call(task, operation.reason, operation.message)
        return
    assert task.node is not None
    session.ledger.settle(task, _RELEASING, task.node)
    session.cycle.decisions.append(Evict(task.key, task.node.name, operation.reason, operation.message))


ALLOCATE = Kind("allocate", again=_place_again, undo=_take_place_back)
PIPELINE = Kind("pipeline", again=_place_again, undo=_take_place_back)
EVICT = Kind("evict", again=_evict_again, undo=_call_back, commit=_send_away, gives_way=True)
