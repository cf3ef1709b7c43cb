"""Room lent to small jobs while a gang waits, and taken back when the gang can start.

A gang that finds places for some of its tasks only cannot start, and what it found would lie idle. With
`backfillNonBestEffort` the allocate action keeps such places until the backfill action (`actions.backfill`), which
lends them to jobs that fit and can start whole. The pods are marked as backfill, and from then on their room counts
twice: it is in use, and a waiting gang may count on getting it back (`counted_on`).

A gang all of whose tasks have a place if lent room is counted is *conditionally ready*. Then no more is lent on what it
holds, and either the pods in its way are evicted (`mode: preemption`) or it waits for them to end (`mode: wait`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np

from stromboli.api import names
from stromboli.cluster import OCCUPYING, Job, JointView, Matrix, Node, Status, Task, Vector
from stromboli.scheduling.attempt import BACKFILL, make_ready, requesting
from stromboli.scheduling.callbacks import GroupCondition, Horizon
from stromboli.scheduling.decisions import Notice
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.explanation.reasons import Code, given_back
from stromboli.scheduling.explanation.reasons import conditionally_ready as conditionally_ready_sentence
from stromboli.scheduling.gang import TentativePlaces
from stromboli.scheduling.operations.lending import count_on_lent
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .backfill_arguments import Lending
from .counted_on import CountedOn, accessible, lent_tasks, may_count_on
from .precedence import Precedence

# -- counting on lent room ------------------------------------------------------------------------------------------


def not_counted_on(session: Session, room: Matrix) -> Matrix:
    """A conditional place may be on idle and on lent room together: then the idle part is taken."""
    nodes = session.nodes
    if not nodes.conditional.any():
        return room
    return np.asarray(np.minimum(room, room + nodes.backfilled - nodes.conditional))


class Borrowers:
    """All tasks on lent room."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._rows = session.ledger.views.rows()
        self._all: list[Task] = []

    @property
    def all(self) -> list[Task]:
        if self._rows.changed():
            nodes = self._session.nodes
            rows = np.flatnonzero(nodes.backfilled.any(axis=1)).tolist()
            self._all = [task for row in rows for task in lent_tasks(nodes.nodes[row])]
        return self._all


class LentRoom:
    """Where lent room would make the difference. Many jobs want to know it while nothing changes."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._precedence = session.state(Precedence)
        views = session.ledger.views
        self._view = JointView(views.rows(), views.reserved(), views.settled())
        self._borrowers: dict[int, list[Task]] = {}  # by row
        self._last: tuple[Any, ...] | None = None  # of the borrower that goes last in the order of jobs
        self._room: Matrix = session.nodes.backfilled  # `accessible` to a job that may send away all borrowers
        self._rows: dict[Fitting, list[int]] = {}  # those of borrowers where such a task would fit then

    def may_have_place(self, task: Task, job: Job | None) -> bool:
        """Whether a task for which idle room is not enough would fit if the job counted on lent room; for None, if it
        were a task of some job."""
        if self._view.changed():
            self._read()
        if not self._borrowers:
            return False
        if job is not None and self._last is not None and self._precedence.key(job) >= self._last:
            return False
        fitting = self._session.placement.fitting(task)
        rows = self._rows.get(fitting)
        if rows is None:
            open_ = set(fitting.rows_with_room(self._room))
            rows = self._rows[fitting] = [row for row in self._borrowers if row in open_]
        return bool(rows) if job is None else any(self._fits(fitting, job, row) for row in rows)

    def _read(self) -> None:
        self._borrowers = {}
        borrowers = self._session.state(Borrowers).all
        jobs = {task.job.key: task.job for task in borrowers if task.job is not None}
        in_jobs = all(task.job is not None for task in borrowers)
        self._last = max(map(self._precedence.key, jobs.values())) if jobs and in_jobs else None
        for task in borrowers:
            if task.node is not None:
                self._borrowers.setdefault(task.node.row, []).append(task)
        if self._borrowers:
            self._room = accessible(self._session, None, self._session.nodes.backfilled)
        self._rows = {}

    def _fits(self, fitting: Fitting, job: Job, row: int) -> bool:
        stay = [task for task in self._borrowers[row] if not may_count_on(self._session, job, task)]
        if not stay:
            return True
        if len(stay) == len(self._borrowers[row]):
            return False
        left = self._room[row] - sum(task.request for task in stay)
        return bool((left[fitting.columns] >= fitting.request[fitting.columns]).all())


def place_conditionally(session: Session, statement: Statement, task: Task) -> bool:
    """Let a task count on lent room. Its queue is asked as if the pods in its way were gone already."""
    job = task.job
    if job is None or not session.nodes.backfilled.any():
        return False
    # Siblings count as neighbours on their conditional places: the gang has to fit as a whole.
    fitting = session.placement.fitting(task, horizon=Horizon.PLANNED)
    counts = session.state(CountedOn).by(job)
    rows = fitting.choose(task, 1, accessible(session, job, counts.lent))
    if not rows:
        return False
    asked, credit = counts.with_place(task, rows[0])
    if session.allocatable(job.queue, asked, job=job, credit=np.minimum(credit, job.queue.allocated)) is not None:
        return False
    count_on_lent(statement, task, session.nodes.nodes[rows[0]])
    return True


def could_borrow(session: Session, statement: Statement, job: Job) -> bool:
    """Whether a conditionally ready job would fit on idle room that gangs before it are only tried with. It may borrow
    that in the backfill action, so nobody has to leave for it. The statement is empty then, and unchanged if not."""
    others = session.state(TentativePlaces).unready()
    if not others:
        return False
    said = session.notes.of(job)
    script = statement.suspend()
    with ExitStack() as stack:
        for other in others:
            stack.enter_context(session.state(TentativePlaces).suspended(other))
        trial = session.statement()
        fits = make_ready(session, trial, job, requesting(session, job), BACKFILL)
        trial.discard()
    session.notes.recall(job, said)
    if not fits:
        statement.repeat(script)
    return fits


# -- taking it back -------------------------------------------------------------------------------------------------


def take_back(session: Session, statement: Statement, job: Job) -> bool:
    """Evict the backfill pods in the way of a conditionally ready job and promise it all its places. The statement is
    committed then; False, and unchanged, if somebody in the way is protected, or volumes have to be made first."""
    places = [(t, t.node) for t in job.tasks.values() if t.status in _TENTATIVE and t.node is not None]
    places.sort(key=lambda place: place[0].key)
    if not session.is_prepared(job, [task for task, _ in places]):
        return False
    evictor = places[0][0]
    before = list(statement.operations)
    nodes = sorted({node.name: node for _, node in places}.values(), key=lambda node: node.name)
    victims = _victims(session, job, evictor, nodes)
    if victims is None:
        return False
    assert statement.operations == before
    statement.discard()
    for victim in victims:
        statement.evict(victim, reason="GivenBack", message=given_back(display_name(job)))
    for task, node in places:
        if not statement.pipeline(task, node):
            statement.discard()
            return False
    statement.commit()
    return True


_TENTATIVE = frozenset({Status.ALLOCATED, Status.PIPELINED, Status.CONDITIONAL})


def _victims(session: Session, job: Job, evictor: Task, nodes: list[Node]) -> list[Task] | None:
    """The borrowers on these nodes who make way; None if they cannot. They are evicted on trial one after the other, so
    that those who protect pods see who is going already: a budget may allow each of two pods to go, but not both."""
    victims: list[Task] = []
    trial = session.statement()
    own = [t for node in nodes for t in lent_tasks(node) if t.job is not None and t.job.queue is job.queue]
    found = all(
        _choose(session, job, evictor, lent_tasks(node), victims, partial(_fits, session, job, node), trial)
        for node in nodes
    ) and _choose(session, job, evictor, own, victims, partial(_within_limits, session, job), trial)
    trial.discard()
    return victims if found else None


def _choose(
    session: Session, job: Job, evictor: Task, lent: list[Task], victims: list[Task],
    enough: Callable[[list[Task]], bool], trial: Statement,
) -> bool:  # fmt: skip
    """Add to the victims until it is enough, those who come last first; False if that cannot be."""
    precedence = session.state(Precedence)
    lent = [task for task in lent if precedence.may_send_away(job, task)]
    last_first = sorted(lent, key=lambda t: (session.job_key(t.job), t.key) if t.job else (), reverse=True)
    for task in last_first:
        if enough(victims):
            break
        if task in victims or task.job is None or task.job is job:
            continue
        unit = _goes_together(session, evictor, task, task.job)
        more = sorted((t for t in unit if t not in victims), key=lambda t: t.key)
        for victim in more:
            trial.evict(victim, reason="GivenBack", message="")
        victims += more
    return enough(victims)


def _goes_together(session: Session, evictor: Task, task: Task, job: Job) -> list[Task]:
    """The pod, or all of its job if it may not leave alone; nobody if these may not leave either."""
    if not session.protected("preemptable", evictor, task):
        return [task]
    unit = [t for t in job.tasks.values() if t.status in OCCUPYING]
    may_leave = not any(session.protected("preemptable", evictor, t, whole=True) for t in unit)
    return unit if may_leave else []


def _fits(session: Session, job: Job, node: Node, victims: list[Task]) -> bool:
    """Whether the job's conditional tasks on a node fit there without the victims."""
    short = sum(_wanted(job, node), start=-session.placement.room_now_on(node.row))
    return bool((sum((-t.request for t in victims if t.node is node), start=short) <= 0).all())


def ends_some_day(session: Session, job: Job) -> bool:
    """Whether a conditionally ready job gets its places if it waits: without the borrowers that end, it fits."""
    nodes = {task.node.name: task.node for task in _conditional(job) if task.node is not None}
    return all(
        _fits(session, job, node, [task for task in lent_tasks(node) if task.ends]) for node in nodes.values()
    )  # fmt: skip


def _conditional(job: Job) -> list[Task]:
    return [task for task in job.tasks.values() if task.status is Status.CONDITIONAL]


def _within_limits(session: Session, job: Job, victims: list[Task]) -> bool:
    """Whether the queue may have the job's conditional tasks. What the victims had in it is free already."""
    asked = sum(_wanted(job), start=session.axis.zeros())
    return session.allocatable(job.queue, asked, job=job) is None


def _wanted(job: Job, node: Node | None = None) -> list[Vector]:
    return [t.request for t in _conditional(job) if node is None or t.node is node]


def note_conditional(session: Session, job: Job) -> None:
    """Say whom a conditionally ready job waits for; and, where it is news, that it is so."""
    tasks = sorted((t for t in job.tasks.values() if t.status is Status.CONDITIONAL), key=lambda task: task.key)
    nodes = {task.node.name: task.node for task in tasks if task.node is not None}
    note = session.notes.of(job)
    sentence = conditionally_ready_sentence(sorted(lent.key for node in nodes.values() for lent in lent_tasks(node)))
    note.said[Code.CONDITIONALLY_READY] = sentence
    places = sorted({t.node.name for t in job.tasks.values() if t.status in _TENTATIVE and t.node is not None})
    session.state(Lending).kept[job.key] = places
    for task in tasks:
        said = {c.reason for c in task.pod.status.conditions if c.type == "PodScheduled"}
        if Code.CONDITIONALLY_READY not in said:
            session.cycle.decisions.append(Notice("Pod", task.key, "Conditional", sentence))


def note_kept(session: Session) -> None:
    """At the end of a session: on which nodes conditionally ready jobs keep room."""
    for job, names_of_nodes in sorted(session.state(Lending).kept.items()):
        for name in names_of_nodes:
            session.cycle.kept.setdefault(name, []).append(job)


CONDITIONALLY_READY = "ConditionallyReady"
"""The condition of a group that could start if lent room were given back."""


def conditionally_ready_condition(session: Session, job: Job) -> Iterator[GroupCondition]:
    """The group's condition while it counts on lent room."""
    said = session.notes.of(job).said.get(Code.CONDITIONALLY_READY)
    if said is not None:
        yield GroupCondition(CONDITIONALLY_READY, "LentRoom", said)


# -- who may be lent to ---------------------------------------------------------------------------------------------


def may_borrow(session: Session, job: Job) -> bool:
    """Whether a job may run on lent room: it must be possible to take the room back."""
    if job.object is None or job.object.metadata.annotations.get(names.BACKFILL, "").lower() == "false":
        return False
    waiting = session.pending_tasks(job)
    if any(task.pod.metadata.annotations.get(names.BACKFILL, "").lower() == "false" for task in waiting):
        return False
    if session.state(Lending).rules.evicts and not all(task.preemptable for task in waiting):
        return False
    return session.points.backfill_eligible.all(job)
