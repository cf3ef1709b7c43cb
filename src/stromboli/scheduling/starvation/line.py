"""Rule 2. Who is served.

Nobody behind a job that waits only for the number of nodes takes another one: a wide job would wait for ever if
narrower ones used up the number again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial

import numpy as np

from stromboli.cluster import Job, Status, Vector
from stromboli.scheduling.attempt import JobKinds
from stromboli.scheduling.callbacks import Horizon
from stromboli.scheduling.decisions import Evict, Notice
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.display_names import what_waits
from stromboli.scheduling.explanation.reasons import (
    never_beside_services,
    never_beside_services_of_queue,
    not_before_there_is_more,
)
from stromboli.scheduling.explanation.reserved_node_reasons import back_in_line, limit_exceeded
from stromboli.scheduling.gang import TentativePlaces, reserved_tasks
from stromboli.scheduling.operations.set_aside import give_up
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .drained_room import DrainedRoom, needed, over_quota
from .holders import (
    FEATURE,
    STARVING,
    condition_time,
    holders,
    one_then_several,
    rank,
    release,
    reserved_by_row,
    usable_rows,
)
from .node_choice import NodeChoice
from .node_index import NodeOrder, NodeOwners
from .queue_holds import QueueHolds
from .reserve_arguments import ReserveRules, Starvation
from .turn_length import is_stuck
from .whole_placement import Attempt, place_as_a_whole

_Answer = Callable[[Job], None]
"""Says to a job why nothing was set aside for it, if there is more to say than that it waits in line."""


class Line:
    """Serves one job after the other, in the order of `rank`."""

    def __init__(self, session: Session, rules: ReserveRules) -> None:
        self._session = session
        self._rules = rules
        self._order = NodeOrder(session)
        self._kept_nodes = np.zeros(len(session.nodes), dtype=np.bool_)  # for jobs that wait in line
        # They were just emptied for others, and nobody knows yet how long those will run there: a job would start late.
        self._emptied = _emptied_in_this_cycle(session)
        self._keeps_number = False  # somebody in line waits only for the number of nodes
        # Grows whenever the same attempt could end otherwise than before: something was set aside or given up, or nodes
        # are kept for one more job in line.
        self._version = 0
        self._answers: dict[tuple[int, Hashable], _Answer] = {}  # by version and kind of job
        # Attempts as if nobody held anything, by kind of job. Who holds what makes no difference to them.
        self._alone: dict[Hashable, Attempt] = {}
        session.state(DrainedRoom).look_again()
        self._look_again()

    def _look_again(self) -> None:
        self._version += 1
        self._holders = holders(self._session)
        self._owners = NodeOwners(self._session)

    # -- serving ------------------------------------------------------------------------------------------------

    def serve(self, job: Job) -> None:
        """Set nodes aside for a job, or let it wait in line. If nothing can be set aside for a job, that holds for all
        jobs of its kind until something changes, and they get the same answer."""
        places = self._session.state(TentativePlaces)
        if job in places:
            with places.suspended(job):
                self._serve(job)(job)
            # A plugin may object to places that are taken again.
            self._version += bool(self._session.points.allocate)
            return
        kind = self._session.state(JobKinds).of(job, without=(FEATURE,))
        if kind is None:
            self._serve(job)(job)
            return
        known = (self._version, kind)
        if known not in self._answers:
            self._answers[known] = self._serve(job)
        self._answers[known](job)

    def _serve(self, job: Job) -> _Answer:
        refusal = over_quota(self._session, job, needed(job))
        if refusal is not None:
            later = self._session.some_day(refusal)
            if later.have + later.need <= later.total:
                return partial(self._say_never, not_before_there_is_more(what_waits(job), refusal))
            guaranteed = self._session.is_limited_by_guarantees(later)
            never = never_beside_services_of_queue(what_waits(job), later, guaranteed=guaranteed)
            return partial(self._say_never, never)
        if not self._fits_queue(job, needed(job)):
            return _say_nothing
        for displaced in self._choices(job):
            if self._take(job, displaced):
                return _say_nothing
        return self._wait_in_line(job)

    def move_stuck(self) -> None:
        """Holders whose nodes do not drain, and whose place nobody needs, get nodes where less has to drain, if any."""
        for job in sorted(self._holders.values(), key=lambda holder: rank(self._session, holder)):
            if is_stuck(self._session, job):
                self._take_other_nodes(job)

    def _fits_queue(self, job: Job, request: Vector) -> bool:
        """Whether the queue's hard limits would allow the job if all that may drain had drained. What the queue keeps
        for holders that go first does not drain."""
        kept = self._session.state(QueueHolds).kept_from(job)
        return over_quota(self._session, job, request, kept=kept) is None

    def _choices(self, job: Job) -> Iterator[Sequence[Job]]:
        """Whose places and nodes the job may have: nobody's, those of lower priority, those that do not drain."""
        session = self._session
        yield []
        others = [holder for holder in self._holders.values() if holder is not job and reserved_tasks(holder)]
        others.sort(key=lambda holder: rank(session, holder), reverse=True)
        lower = [holder for holder in others if holder.priority < job.priority]
        if not self._rules.yields:
            lower = lower[:1] if len(self._holders) >= self._rules.max_holders else []
        yield from one_then_several(lower)
        stuck = [holder for holder in others if holder.priority == job.priority and is_stuck(session, holder)]
        yield from ([holder] for holder in stuck)
        if len(stuck) > 1:
            yield stuck

    def _take(self, job: Job, displaced: Sequence[Job]) -> bool:
        places = len(self._holders) - len(displaced) + (job.key not in self._holders)
        if places > self._rules.max_holders:
            return False
        attempt = self._attempt(job, displaced)
        if not attempt.complete:
            attempt.statement.discard()
            return False
        attempt.statement.commit()
        self._version += 1
        for holder in displaced:
            if holder.priority == job.priority:
                said = back_in_line(job.key)
                self._session.state(Starvation).gave_up_place[holder.key] = said
        if displaced:
            self._look_again()
        else:
            self._holders[job.key] = job
            self._owners.add(job)
        return True

    def _attempt(self, job: Job, without: Sequence[Job], *, alone: bool = False, most: int | None = None) -> Attempt:
        """Try to set aside what a job needs, as if some others held nothing any more. `alone`: as if nobody waited in
        line before it. `most`: as if so many nodes could be set aside."""
        statement = self._session.statement()
        for holder in without:
            why = "has a higher priority" if holder.priority < job.priority else "goes first: the nodes did not drain"
            for task in reserved_tasks(holder):
                give_up(statement, task, f"{job.key} {why}")
        limit = self._rules.most_nodes(self._session, job.queue) if most is None else most
        if self._keeps_number and not alone:
            limit = 0
        closed = None if alone else self._kept_nodes | self._emptied
        return self._set_aside(job, statement, self._owners.without(without), limit, closed)

    def _set_aside(
        self, job: Job, statement: Statement, owners: NodeOwners, most: int, closed: np.ndarray | None
    ) -> Attempt:
        """Where the job's tasks mind their neighbours: first beside the pods that are there now, and if that fails, as
        if those that end had ended."""
        before = len(statement)
        for horizon in (Horizon.PLANNED, Horizon.DRAINED):
            statement.discard(down_to=before)
            choice = NodeChoice(self._session, job, self._order, owners, most, closed, horizon=horizon)
            attempt = place_as_a_whole(self._session, job, statement, choice)
            if attempt.complete or not choice.minds_neighbours:
                break
        return attempt

    # -- waiting ------------------------------------------------------------------------------------------------

    def _wait_in_line(self, job: Job) -> _Answer:
        session = self._session
        if job.counts[Status.RESERVED]:
            # It needs more than before. What it holds is of no use by itself, and keeps others out.
            release(session, job, "the job needs more than can be reserved")
            self._look_again()
        others = list(self._holders.values())
        attempt = self._tried_without_holders(job, others)
        if not attempt.complete:
            return self._what_is_in_the_way(job, others, attempt)
        before = self._keeps_number, self._kept_nodes
        with session.inside(attempt.domain):  # of a group that must be close together, only the one it would get
            self._kept_nodes = self._kept_nodes | usable_rows(session, session.pending_tasks(job))
        if not self._keeps_number and len(self._holders) < self._rules.max_holders:
            self._keeps_number = self._tried(job, (), most=len(session.nodes)).complete
        self._version += self._keeps_number != before[0] or bool((self._kept_nodes != before[1]).any())
        return _say_nothing

    def _tried_without_holders(self, job: Job, others: Sequence[Job]) -> Attempt:
        kind = self._session.state(JobKinds).of(job, without=(FEATURE,))
        if kind is None:
            return self._tried(job, others)
        if kind not in self._alone:
            self._alone[kind] = self._tried(job, others)
        return self._alone[kind]

    def _tried(self, job: Job, without: Sequence[Job], *, most: int | None = None) -> Attempt:
        """An attempt as if the job were alone, that leaves no trace."""
        attempt = self._attempt(job, without, alone=True, most=most)
        attempt.statement.discard()
        return attempt

    def _what_is_in_the_way(self, job: Job, others: Sequence[Job], attempt: Attempt) -> _Answer:
        """The limit on nodes; or the job could not start even if it had the cluster to itself."""
        if attempt.over_limit:
            over_limit = attempt.over_limit
            attempt = self._tried(job, others, most=len(self._session.nodes))
            if attempt.complete:
                return partial(self._say_limit, over_limit)
        never = never_beside_services(what_waits(job), attempt.found, attempt.missing, attempt.short)
        return partial(self._say_never, never)

    def _say_never(self, sentence: str, job: Job) -> None:
        """Nothing is set aside for a job that could not start on empty nodes, and it stands in nobody's way."""
        if job.counts[Status.RESERVED]:
            release(self._session, job, "the job cannot start there, even if all others leave")
            self._look_again()
        self._session.state(Starvation).cannot_start[job.key] = sentence

    def _say_limit(self, over_limit: int, job: Job) -> None:
        sentence = limit_exceeded(over_limit, self._rules.most_nodes(self._session, job.queue))
        self._session.state(Starvation).limits[job.key] = sentence
        if condition_time(job, STARVING, Code.RESERVATION_LIMIT_EXCEEDED) is None:
            notice = Notice("PodGroup", job.key, Code.RESERVATION_LIMIT_EXCEEDED, sentence, warning=True)
            self._session.cycle.decisions.append(notice)

    # -- nodes that do not drain --------------------------------------------------------------------------------

    def _take_other_nodes(self, job: Job) -> None:
        session = self._session
        before = self._short(job)
        statement = session.statement()
        left = {task.node.row for task in reserved_tasks(job) if task.node is not None}
        for task in reserved_tasks(job):
            give_up(statement, task, "the nodes did not drain")
        closed = self._kept_nodes | self._emptied
        closed[sorted(left)] = True
        most = self._rules.most_nodes(session, job.queue)
        attempt = self._set_aside(job, statement, self._owners.without([job]), most, closed)
        if attempt.complete and self._short(job) < before:
            statement.commit()
            self._look_again()
        else:
            statement.discard()

    def _short(self, job: Job) -> float:
        """How much still has to drain on the nodes set aside for a job, in nodes."""
        nodes = self._session.nodes
        return sum(
            float((np.maximum(amount - nodes.idle[row], 0) / np.maximum(nodes.allocatable[row], 1)).max())
            for row, amount in sorted(reserved_by_row(job).items())
        )


def _say_nothing(job: Job) -> None:
    """The job was served, or waits in line."""


def _emptied_in_this_cycle(session: Session) -> np.ndarray:
    rows = np.zeros(len(session.nodes), dtype=np.bool_)
    for decision in session.cycle.decisions:
        if isinstance(decision, Evict) and (node := session.nodes.by_name.get(decision.node)) is not None:
            rows[node.row] = True
    return rows
