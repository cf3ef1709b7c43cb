"""Sparing those who turned out not to be needed.

Room for a gang is made task by task, each time with as few evictions as that task needs. Together they may be too many.
A whole gang that goes for the second task also frees the node where somebody was evicted for the first; or what one
large pod leaves would have been enough for two small tasks. So when every task has its place, each eviction is
questioned once more, last first: without it, would all of them still have their places?

Mostly the answer is plain arithmetic. What is left on a node when all promises are kept is less than the evicted pods
took there, and nothing has to be tried. Otherwise the statement is taken back and made again without them.

Then whoever is left is spared if the tasks that were promised its room find another place (`other_places`): where a
later victim leaves more than its task needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import add

import numpy as np

from stromboli.cluster import Job, Node, Task, TaskKey, Vector
from stromboli.cluster.model import requests_by_row
from stromboli.scheduling.callbacks import EvictionKind
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import PIPELINE, Script, Statement

from .other_places import OtherPlaces
from .plans import EvictionUnit

_MOST_FAILURES = 4
"""So many attempts to spare somebody by moving promises may fail. Arithmetic and filters said that they would work, so
what was in the way is mostly the same for all."""
_NO_MOVES: Mapping[TaskKey, Node] = {}


def reprieve_needless(
    session: Session, statement: Statement, claimant: Job, kind: EvictionKind, gone: Sequence[EvictionUnit]
) -> None:
    """`kind`: preemptable or reclaimable. `gone`: all that was evicted in the statement, for tasks of `claimant`. Some
    of it stays evicted in any case: a job that needs no evictions is none of ours."""
    evicted = _spare_covered(session, statement, claimant, kind, gone)
    spared = _spare_by_moving(session, statement, claimant, kind, evicted)
    if spared:
        # Where a promise has left, others may be needless now.
        _spare_covered(session, statement, claimant, kind, [unit for unit in evicted if unit not in spared])


def _spare_covered(
    session: Session, statement: Statement, claimant: Job, kind: EvictionKind, gone: Sequence[EvictionUnit]
) -> list[EvictionUnit]:
    """Those who are left when all are spared whose room nobody was promised."""
    evicted = list(gone)
    covered = _covered(session, gone) if len(gone) > 1 else []
    for position in range(len(covered) - 1, -1, -1):
        unit = gone[position]
        if len(evicted) > 1 and covered[position] and _without(session, statement, claimant, kind, [unit]):
            evicted.remove(unit)
            covered = _covered(session, gone)
    return evicted


def _spare_by_moving(
    session: Session, statement: Statement, claimant: Job, kind: EvictionKind, evicted: Sequence[EvictionUnit]
) -> list[EvictionUnit]:
    """All at once, as to make a large statement again takes long; one by one only if that fails. The last come first:
    each task got the least valuable victim that was left."""
    if len(evicted) < 2:
        return []
    spared, moves = OtherPlaces(session, statement, claimant).moves(evicted[::-1], most=len(evicted) - 1)
    if not spared or _without(session, statement, claimant, kind, spared, moves):
        return list(spared)
    failures, found = 0, []
    for unit in spared if len(spared) > 1 else ():
        alone, moves = OtherPlaces(session, statement, claimant).moves([unit], most=1)
        if alone and _without(session, statement, claimant, kind, alone, moves):
            found.append(unit)
        elif alone:
            failures += 1
            if failures == _MOST_FAILURES:
                break
    return found


def is_torn(session: Session, unit: EvictionUnit) -> bool:
    """Whether those who are spared would be the rest of a gang that is gone."""
    job = unit.tasks[0].job
    assert job is not None
    return unit.was_ready and not session.job_ready(job)


def fits_within(
    session: Session, task: Task, node: Node, kind: EvictionKind, had: Vector, fitting: Fitting | None = None
) -> bool:
    """Whether a task fits on a node once those who are leaving have left. `had`: what its queue had before anybody was
    evicted. Only what it would have beyond that is a matter of its limits: a queue that has borrowed more than it
    deserves may still put one pod in the place of another, and need not first give back all it borrowed. And a queue
    that reclaims what it lacks may have more than it deserves of something else. `fitting`: that of the task, if it is
    at hand."""
    assert task.job is not None
    queue = task.job.queue
    if fitting is None:
        fitting = session.placement.fitting(task, ahead=True)
    else:
        fitting.refresh()
    if not fitting.takes_later(node.row):
        return False
    own = session.books.own_rows(task)
    if own is not None and own[node.row]:
        return session.allocatable_on_own_rows(task) is None
    return _is_within(session, task, kind, queue.allocated - had, task.request)


def still_within(session: Session, task: Task, kind: EvictionKind, had: Vector) -> bool:
    """The same for a task that has its place, as far as its queue is concerned."""
    assert task.job is not None
    assert task.node is not None
    own = session.books.own_rows(task)
    nothing = session.axis.zeros()
    on_own = own is not None and bool(own[task.node.row])
    return on_own or _is_within(session, task, kind, task.job.queue.allocated - had, nothing)


def _is_within(session: Session, task: Task, kind: EvictionKind, change: Vector, request: Vector) -> bool:
    """`change`: of what the queue has; negative where something was freed. `request`: what it is to have beside."""
    assert task.job is not None
    queue, beyond, amounts = task.job.queue, request, change.tolist()
    if any(amounts):
        wanted = map(add, beyond.tolist(), amounts)
        beyond = np.array([amount if amount > 0 else 0 for amount in wanted], dtype=np.int64)
    refusal = session.allocatable(queue, beyond, job=task.job, credit=change)
    if refusal is not None and kind == "reclaimable" and refusal.code == Code.QUEUE_OVER_DESERVED:
        refusal = session.preemptive(queue, beyond, job=task.job, credit=change)
    return refusal is None


def _covered(session: Session, units: Sequence[EvictionUnit]) -> list[bool]:
    """For each of at least one unit, whether what stays free, with all promises kept, is as much as its tasks took."""
    firsts: list[int] = []
    rows: list[int] = []
    amounts: list[Vector] = []
    for unit in units:
        firsts.append(len(rows))
        took = requests_by_row(unit.tasks)
        rows += took
        amounts += took.values()
    fits = (session.nodes.future_idle[rows] >= np.array(amounts)).all(axis=1)
    covered: list[bool] = np.logical_and.reduceat(fits, firsts).tolist()
    return covered


def _without(
    session: Session,
    statement: Statement,
    claimant: Job,
    kind: EvictionKind,
    units: Sequence[EvictionUnit],
    moves: Mapping[TaskKey, Node] = _NO_MOVES,
) -> bool:
    """Make the statement again without these evictions; as it was, and False, if it does not work. `moves`: tasks that
    are promised another node."""
    spared = {task.key for unit in units for task in unit.tasks}
    script = statement.suspend()
    had = claimant.queue.allocated.copy()
    kept = [(done, moves.get(done.task.key, node)) for done, node in script if done.task.key not in spared]
    if _again(session, statement, kept, kind, had) and not any(is_torn(session, unit) for unit in units):
        return True
    statement.discard()
    _again(session, statement, script, kind, None)
    return False


def _again(
    session: Session,
    statement: Statement,
    script: Script,
    kind: EvictionKind,
    had: Vector | None,
) -> bool:
    """Promises last; False at the first that cannot be kept. Without `had` they were kept before."""
    statement.repeat([(operation, node) for operation, node in script if operation.kind is not PIPELINE])
    for operation, node in script:
        if operation.kind is PIPELINE:
            assert node is not None
            if had is not None and not fits_within(session, operation.task, node, kind, had):
                return False
            if not statement.pipeline(operation.task, node):
                return False
    return True
