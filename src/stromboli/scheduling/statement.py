"""The transaction: every change that a session makes to tasks can be undone.

Each operation takes effect on the ledger at once, so plugins and filters answer the next question as if it had
happened. `discard` undoes all operations, last first, and leaves no trace. `commit` turns them into decisions and makes
them permanent. A statement that is neither committed nor discarded stays in force until the session ends: this keeps
room for one cycle for a job that waits for terminating pods. If pods were evicted for a task, `commit` also nominates
the task to the node, and the nomination outlives the session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from stromboli.api.reservations import AVAILABLE, PENDING, queue_of
from stromboli.api.waiting_reservations import waiting_name, waiting_reservation
from stromboli.cluster import Job, JobKey, Node, QueueName, Status, Task, Vector

from .callbacks import Objection
from .decisions import Bind, Evict, Reserve, Unreserve
from .framework import Framework
from .reservation_status import new_holding, reservation_gives_way, reservation_holds


class Kind(Enum):
    ALLOCATE = "allocate"
    PIPELINE = "pipeline"
    EVICT = "evict"
    CONDITION = "condition"
    RESERVE = "reserve"
    RELEASE = "release"
    CONSUME = "consume"
    YIELD = "yield"
    LEND = "lend"


# Looked up once: it takes long to find members of an enumeration.
_ALLOCATE = Kind.ALLOCATE
_EVICT = Kind.EVICT
_PIPELINE = Kind.PIPELINE
_PENDING = Status.PENDING
_PIPELINED = Status.PIPELINED
_RELEASING = Status.RELEASING

GIVES_SHARE = frozenset({Kind.ALLOCATE, Kind.PIPELINE})
"""Operations that fire allocate handlers; undoing them, and evicting, fires deallocate handlers."""

WITHOUT_SHARE = frozenset({Kind.CONDITION, Kind.RESERVE, Kind.RELEASE})
"""Operations that change what a task may count on."""


class Operation(NamedTuple):
    kind: Kind
    task: Task
    was: tuple[Status, Node | None]
    reason: str = ""
    message: str = ""
    reservation: str = ""
    amount: Vector | None = None  # what was taken out of the reservation


class Statement:
    def __init__(self, session: Framework) -> None:
        self.session = session
        self.operations: list[Operation] = []
        self._allocate = [hook.call for hook in session.hooks("allocate")]
        self._deallocate = [hook.call for hook in session.hooks("deallocate")]
        self._outlook = [hook.call for hook in session.hooks("outlook")]

    def __len__(self) -> int:
        return len(self.operations)

    @property
    def has_evictions(self) -> bool:
        """Whether somebody gives way for others: a pod, or a Reservation."""
        kinds = [operation.kind for operation in self.operations]
        return Kind.EVICT in kinds or Kind.YIELD in kinds

    def promised(self, job: Job) -> list[Task]:
        """The tasks of a job that it promises room."""
        return [o.task for o in self.operations if o.kind is _PIPELINE and o.task.job is job]

    # -- operations ---------------------------------------------------------------------------------------------

    def allocate(self, task: Task, node: Node) -> bool:
        """Give a task idle room. False if a plugin objected; then nothing changed."""
        return self._place(Kind.ALLOCATE, task, Status.ALLOCATED, node)

    def pipeline(self, task: Task, node: Node) -> bool:
        """Promise a task room that terminating pods release."""
        return self._place(_PIPELINE, task, _PIPELINED, node)

    def allocate_many(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> int:
        """`allocate` for tasks of one job and shape; how many were placed (fewer only if a plugin objected)."""
        return self._place_many(Kind.ALLOCATE, tasks, Status.ALLOCATED, nodes)

    def pipeline_many(self, tasks: Sequence[Task], nodes: Sequence[Node]) -> int:
        """`pipeline` for tasks of one job and shape; how many were placed."""
        return self._place_many(Kind.PIPELINE, tasks, Status.PIPELINED, nodes)

    def evict(self, task: Task, *, reason: str, message: str) -> None:
        """Evict a running task, or one whose bind waits. Its share is free at once, its room when it is gone. What it
        uses of a Reservation would return there, so the Reservation goes with it."""
        held = self.session.ledger.holdings.get(task.uses.partition("/")[0]) if task.uses else None
        if held is not None and held.id == task.uses and held.node is task.node:
            self.give_way(task.uses.partition("/")[0], task, reason=reason, message=message)
        self._do(Operation(_EVICT, task, (task.status, task.node), reason, message), _RELEASING, task.node)
        for call in self._deallocate:
            call(task)

    def spare(self, task: Task) -> None:
        """Undo one eviction of this statement."""
        for index in range(len(self.operations) - 1, -1, -1):
            operation = self.operations[index]
            if operation.kind is Kind.EVICT and operation.task is task:
                self._undo(operation)
                del self.operations[index]
                before = self.operations[index - 1] if index else None
                if before is not None and before.kind is Kind.YIELD and before.task is task:
                    self._undo(before)
                    del self.operations[index - 1]
                return
        raise ValueError(f"{task} is not evicted in this statement")

    def lend(self, task: Task) -> None:
        """Mark a placed task as running on lent room."""
        self.operations.append(Operation(Kind.LEND, task, (task.status, task.node)))
        self._mark_lent(task, True)

    def _mark_lent(self, task: Task, lent: bool) -> None:
        ledger = self.session.ledger
        ledger.leave(task)
        task.backfill = lent
        ledger.enter(task)

    def condition(self, task: Task, node: Node) -> None:
        """Give a task a conditional place, on idle and lent room together. No share changes."""
        self._do(Operation(Kind.CONDITION, task, (task.status, task.node)), Status.CONDITIONAL, node)
        self._note(task)

    def reserve(self, task: Task, node: Node) -> None:
        """Reserve room for a starved task. The task occupies nothing."""
        self._do(Operation(Kind.RESERVE, task, (task.status, task.node)), Status.RESERVED, node)
        self._note(task)

    def release(self, task: Task, why: str = "") -> None:
        """Give up a reservation or a conditional place."""
        if task.status not in (Status.RESERVED, Status.CONDITIONAL):
            raise ValueError(f"{task} has neither a reservation nor a conditional place")
        self._do(Operation(Kind.RELEASE, task, (task.status, task.node), message=why), Status.PENDING, None)
        self._note(task)

    def consume(self, task: Task, reservation: str, amount: Vector) -> None:
        """Use this much of a Reservation for a task that was placed there."""
        self.session.ledger.draw(reservation, amount)
        self._count_consumed(reservation, amount)
        was = (task.status, task.node)
        self.operations.append(Operation(Kind.CONSUME, task, was, reservation=reservation, amount=amount))

    def consume_many(self, uses: Sequence[tuple[Task, str, Vector]]) -> None:
        """`consume` for tasks of one queue and namespace, of Reservations on different nodes."""
        totals: dict[str, Vector] = {}
        done = self.operations.append
        for task, reservation, amount in uses:
            known = totals.get(reservation)
            totals[reservation] = amount if known is None else known + amount
            done(Operation(Kind.CONSUME, task, (task.status, task.node), "", "", reservation, amount))
        self.session.ledger.draw_many(totals)
        for reservation, total in totals.items():
            self._count_consumed(reservation, total)

    def _count_consumed(self, reservation: str, amount: Vector) -> None:
        """The queue that is charged for a Reservation no longer requests what is used of it."""
        known = self.session.snapshot.reservations.get(reservation)
        if known is None:
            return  # it was given up meanwhile, with all that it held
        consumed, name = self.session.consumed, QueueName(queue_of(known))
        consumed[name] = consumed[name] + amount if name in consumed else amount

    def give_way(self, reservation: str, task: Task, *, reason: str, message: str) -> Operation:
        """Let a Reservation go for a task, with all it holds; it will wait for a node again."""
        ledger = self.session.ledger
        amount = ledger.holdings[reservation].remainder.copy()
        ledger.draw(reservation, amount)
        was = (task.status, task.node)
        operation = Operation(Kind.YIELD, task, was, reason, message, reservation, amount)
        self.operations.append(operation)
        return operation

    def take_back(self, operation: Operation) -> None:
        """Undo one operation of this statement on which no other depends."""
        self.operations.remove(operation)
        self._undo(operation)

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
        self._do(operation, status, node)
        for done, call in enumerate(self._allocate):
            try:
                call(task)
            except Objection:
                self.operations.pop()
                self._move_back(operation)
                for undo in self._deallocate[: done + 1]:
                    undo(task)
                return False
        return True

    def _do(self, operation: Operation, status: Status, node: Node | None) -> None:
        self.session.ledger.move(operation.task, status, node)
        self.operations.append(operation)

    # -- ends ---------------------------------------------------------------------------------------------------

    def discard(self, *, down_to: int = 0) -> None:
        """Undo all operations, last first; `down_to`: only until this many are left."""
        operations = self.operations
        while len(operations) > down_to:
            number = self._alike_at_the_end(down_to)
            if number == 1:
                self._undo(operations.pop())
            else:
                self.session.ledger.take_back_many([operation.task for operation in operations[-number:]])
                del operations[-number:]

    def _alike_at_the_end(self, down_to: int) -> int:
        """How many of the last operations placed tasks of one job and shape in the same way, and can be undone at
        once."""
        operations = self.operations
        kind, task, was = operations[-1][:3]
        places = kind is _ALLOCATE or kind is _PIPELINE
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

    def _note(self, task: Task) -> None:
        for call in self._outlook:
            call(task)

    def _undo(self, operation: Operation) -> None:
        self._move_back(operation)
        if operation.kind in WITHOUT_SHARE:
            self._note(operation.task)
        if operation.kind in GIVES_SHARE:
            for call in self._deallocate:
                call(operation.task)
        elif operation.kind is Kind.EVICT:
            for call in self._allocate:
                call(operation.task)

    def _move_back(self, operation: Operation) -> None:
        if operation.kind is Kind.LEND:
            self._mark_lent(operation.task, False)
        elif operation.kind in (Kind.CONSUME, Kind.YIELD):
            assert operation.amount is not None
            self.session.ledger.draw(operation.reservation, -operation.amount)
            if operation.kind is Kind.CONSUME:
                self._count_consumed(operation.reservation, -operation.amount)
        else:
            self.session.ledger.move(operation.task, *operation.was)

    def repeat(self, places: Iterable[tuple[Kind, Task, Node | None]]) -> None:
        """Take places again that `discard` gave up, unless a plugin objects now."""
        for kind, task, node in places:
            assert node is not None
            if kind is Kind.CONDITION:
                self.condition(task, node)
            else:
                (self.allocate if kind is Kind.ALLOCATE else self.pipeline)(task, node)

    def merge(self, other: Statement) -> None:
        """Take over the operations of another statement, in order; it is empty afterwards."""
        self.operations.extend(other.operations)
        other.operations = []

    def commit(self) -> None:
        """Make the operations permanent in the ledger, and turn them into decisions."""
        self.session.version += 1
        ledger = self.session.ledger
        ledger.changes += 1
        decide = self.session.cycle.decisions.append
        evicts = self.has_evictions
        used = {op.task.key: ledger.holdings.get(op.reservation) for op in self.operations if op.kind is Kind.CONSUME}
        runs = list(_in_runs(self.operations))
        self.session.is_settling = True
        held = self._held_jobs(runs)
        for operation, task, together in runs:
            node = task.node
            if operation.kind is _PIPELINE:  # without evictions, a promise for this cycle only: no decision
                if evicts:
                    assert node is not None
                    ledger.nominate(task, node.name)
                continue
            match operation.kind:
                case Kind.ALLOCATE:
                    assert node is not None
                    assert task.job is not None
                    if task.stands_for:
                        self._hold(task, node)
                        continue
                    if operation.was[0] is Status.RESERVED:
                        decide(_unreserve(operation, "the pod starts"))
                    ledger.settle_binding(together)
                    for one in together:
                        if one.uses or used:
                            source = used.get(one.key)
                            ledger.set_use(one, "" if source is None else source.id)
                    if task.job.key not in held:
                        self._bind(task.job.key, together)
                case Kind.EVICT if task.key in ledger.held:
                    # It does not run yet: it only gives its place back.
                    for hook in self.session.hooks("withdrawal"):
                        hook.call(task, operation.reason, operation.message)
                case Kind.EVICT:
                    assert node is not None
                    ledger.settle(task, _RELEASING, node)
                    decide(Evict(task.key, node.name, operation.reason, operation.message))
                case Kind.RESERVE:
                    assert node is not None
                    assert task.job is not None
                    assert task.job.object is not None
                    if operation.was[0] is Status.RESERVED:
                        decide(_unreserve(operation, "another node is a better fit"))
                    ledger.settle(task, Status.RESERVED, node)
                    decide(Reserve(task.key, node.name, waiting_reservation(task.pod, task.job.object, node.name)))
                case Kind.RELEASE if operation.was[0] is Status.RESERVED:
                    if task.true_status is Status.RESERVED:
                        task.true_status, task.true_node = Status.PENDING, None
                    decide(_unreserve(operation, operation.message))
                case Kind.CONSUME if task.status is not Status.PIPELINED:  # not if it is only promised its place
                    assert operation.amount is not None
                    ledger.settle_draw(operation.reservation, operation.amount)
                case Kind.YIELD:
                    ledger.set_holding(operation.reservation, None)
                    ledger.assumed[operation.reservation] = (PENDING, "")
                    why = (operation.reason, operation.message)
                    decide(reservation_gives_way(self.session, operation.reservation, *why))
                case _:
                    pass
        self.operations = []
        self.session.is_settling = False

    def _bind(self, job: JobKey, tasks: Sequence[Task]) -> None:
        for task in tasks:
            if task.nominated:
                self.session.ledger.nominate(task, "")
        self.session.cycle.decisions.extend(
            [Bind(task.key, task.node.name, job, task.backfill, task.uses) for task in tasks if task.node is not None]
        )

    def _hold(self, task: Task, node: Node) -> None:
        """A Reservation got its node: it holds there what the task that stood for it was given."""
        ledger, name = self.session.ledger, task.stands_for
        decision = reservation_holds(self.session, name, node.name)
        ledger.nominate(task, "")
        ledger.settle(task, Status.SUCCEEDED, None)
        ledger.set_holding(name, new_holding(self.session, task, node))
        ledger.assumed[name] = (AVAILABLE, node.name)
        self.session.cycle.decisions.append(decision)

    def _held_jobs(self, runs: Iterable[Run]) -> set[JobKey]:
        """Jobs whose binds must wait."""
        hooks = self.session.hooks("hold")
        if not hooks:
            return set()
        placed: dict[Job, list[Task]] = {}
        for operation, task, together in runs:
            if operation.kind is _ALLOCATE and task.job is not None:
                before = placed.get(task.job)
                placed[task.job] = together if before is None else before + together
        return {job.key for job, tasks in placed.items() if any(hook.call(job, tasks) for hook in hooks)}


Run = tuple[Operation, Task, list[Task]]
"""An operation with its task, and the tasks for which it is the same."""


def _in_runs(operations: Sequence[Operation]) -> Iterator[Run]:
    """The operations in order, where tasks of one job that get their places one after the other come together."""
    run: list[Task] = []
    first: Operation | None = None
    for operation in operations:
        task = operation.task
        plain = operation.kind is _ALLOCATE and operation.was[0] is _PENDING and not task.stands_for
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


def _unreserve(operation: Operation, why: str) -> Unreserve:
    node = operation.was[1]
    name = waiting_name(operation.task.pod)
    return Unreserve(operation.task.key, "" if node is None else node.name, name, why)
