"""Placing a whole gang where some of its tasks need evictions.

Shared by preempt and reclaim. Tasks that fit without evicting anybody are promised their room first; the rest search
for victims. Nothing is evicted unless then the whole gang has a place, and if no eviction was needed the job is left to
allocate. Whoever turns out not to be needed for the gang as a whole is spared.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stromboli.cluster import Job, JobKey, Task
from stromboli.cluster.topology import sub_groups
from stromboli.scheduling.attempt import FailedAttempts
from stromboli.scheduling.gang import (
    EmptyNodes,
    TentativePlaces,
    WaitingTasks,
    conditionally_ready,
    is_eligible,
    needed_groups,
    next_groups,
    with_choices,
)
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .broken_gangs import MOST_CHOICES, MOST_GANGS, MOST_PODS, broken_gangs, choices, harm
from .close_gangs import NO_EVICTIONS, Cost, SubGroupPromises, cheapest_domain
from .concessions import make_room
from .free_places import fits_without, node_without_evictions
from .reprieve import reprieve_needless
from .returned_promises import ReturnedPromises
from .search_turns import Turns
from .victims import VictimSearch

LARGE_GANG = 8  # missing tasks; for fewer, to search for victims costs no more than to count


def starving_jobs(session: Session, jobs: Iterable[Job]) -> list[Job]:
    """Those of these jobs that may look for victims."""
    return [
        job
        for job in jobs
        if job.pending_count
        and session.job_starving(job)
        and not conditionally_ready(job)  # it will have its places without anybody being evicted by these rules
        and is_eligible(session, job)
    ]


def wait_for_leaving(session: Session, job: Job) -> bool:
    """Nominate the only task of a job to a node where pods are leaving anyway; False if there is none. What is idle
    now is left to allocate."""
    (task,) = job.tasks.values()
    node = node_without_evictions(session, task)
    if node is None:
        return False
    if not session.placement.fitting(task).takes(node.row, session.placement.room_now_on(node.row)):
        session.statement().pipeline(task, node)
        session.ledger.nominate(task, node.name)
    return True


def place_with_evictions(
    session: Session,
    job: Job,
    action: str,
    *,
    search: Callable[[], VictimSearch],
    may_evict: Callable[[Task], bool],
    only_while_starving: bool,
) -> bool:
    """Promise places to the job's pending tasks and commit if evictions made the gang whole; else change nothing.
    False if the gang has no place, with or without evictions.

    `action`: its name; what failed for a job is remembered under it.
    `search`: made only when somebody has to go.
    `may_evict`: whether others may be evicted for this task at all.
    `only_while_starving`: stop as soon as the job has what it needs to start.
    """
    session.state(TentativePlaces).give_up(job)
    attempt = _Attempt(session, job, search, may_evict, only_while_starving)
    return bool(session.state(FailedAttempts).once(action, job, lambda: attempt.run(action)))


class _Attempt:
    """One try to place a gang, with evictions where its tasks need them."""

    def __init__(
        self,
        session: Session,
        job: Job,
        search: Callable[[], VictimSearch],
        may_evict: Callable[[Task], bool],
        only_while_starving: bool,
    ) -> None:
        self._session = session
        self._job = job
        self._search = search
        self._may_evict = may_evict
        self._only_while_starving = only_while_starving
        self.found_place = False  # whether the gang had a place, with or without evictions

    def run(self, action: str) -> bool | None:
        """Whether it has a place, with or without evictions. None: it has none until something changes."""
        session, job = self._session, self._job
        if session.state(EmptyNodes).is_hopeless(job):  # whoever goes
            return None
        tasks = session.pending_tasks(job)
        if _all_fit(session, job, tasks):
            return True
        turns = session.state(Turns)
        if session.state(ReturnedPromises).until(job) is not None or not turns.may_search(action, job):
            return False
        if not _is_hopeless(session, job, tasks, self._search):
            if self.place(tasks) or self.found_place:
                return True
            # Room that is kept for others is given up for a job that goes before them, if it needs evictions there.
            choices = session.displacements(job, evicting=True)
            if any(self.place(session.pending_tasks(job), give_up) for give_up in choices):
                return True
        turns.searched_in_vain(action, job)
        return None

    def place(self, tasks: list[Task], give_up: Callable[[Statement], None] | None = None) -> bool:
        """True, and committed, if evictions made the gang whole; else nothing is changed. A hard group gets all its
        places in one domain."""
        closeness = None if self._job.layout is None else self._job.layout.closeness
        if closeness is None or not closeness.hard:
            return self._place_here(tasks, give_up)
        session, job = self._session, self._job
        needed = min(len(tasks), max(1, job.min_available - job.ready_count - job.waiting_count))
        members = list(job.tasks.values())
        domain = cheapest_domain(
            session, closeness, members, tasks, needed, self._search(), lambda: self._cost_here(tasks, give_up)
        )
        if domain is None:
            return False
        with session.inside(domain):
            return self._place_here(tasks, give_up)

    def _cost_here(self, tasks: list[Task], give_up: Callable[[Statement], None] | None) -> Cost | None:
        """What it costs to make the gang whole in the domain that is looked at; None if it cannot be."""
        before, self.found_place = self.found_place, False
        made = self._make(tasks, give_up, trial=True)
        found, self.found_place = self.found_place, before
        if made is None:
            return NO_EVICTIONS if found else None
        statement, search = made
        cost = (search.cost_of_all(), *harm(self._session, statement, search.gone))
        statement.discard()
        return cost

    def _place_here(self, tasks: list[Task], give_up: Callable[[Statement], None] | None) -> bool:
        tasks, _ = with_choices(self._session, tasks)
        small = 1 < len(tasks) <= MOST_PODS
        made = self._make(tasks, give_up)
        if made is None and small and not self.found_place and len(self._session.placement.kinds(tasks)) > 1:
            # The first may have taken what only the last could use.
            tasks = tasks[::-1]
            made = self._make(tasks, give_up)
        if made is None:
            return False
        statement, search = made
        broken = broken_gangs(self._session, search.gone) if small and search.kind == "preemptable" else []
        if 0 < len(broken) <= MOST_GANGS:
            better = self._least_harm(statement, search, broken, tasks, give_up)
            if better is None:
                return False
            statement = better
        statement.commit()
        self._session.notes.attempt(self._job)
        return True

    def _least_harm(
        self,
        statement: Statement,
        search: VictimSearch,
        broken: list[JobKey],
        tasks: list[Task],
        give_up: Callable[[Statement], None] | None,
    ) -> Statement | None:
        """The statement, or another that breaks fewer gangs; None if something has to be prepared for that one."""
        session = self._session
        least, best = harm(session, statement, search.gone), (tasks, frozenset[JobKey]())
        statement.discard()
        to_try = list(choices(broken))
        for protected in to_try:  # it grows meanwhile
            for order in (tasks, tasks[::-1]):
                made = self._make(order, give_up, protected, trial=True)
                if made is not None:
                    other, search = made
                    does = harm(session, other, search.gone)
                    if does < least:
                        least, best = does, (order, protected)
                    also = [choice | protected for choice in choices(broken_gangs(session, search.gone))]
                    to_try += [choice for choice in also if choice not in to_try][: max(0, MOST_CHOICES - len(to_try))]
                    other.discard()
        made = self._make(best[0], give_up, best[1])
        return None if made is None else made[0]

    def _make(
        self,
        tasks: list[Task],
        give_up: Callable[[Statement], None] | None,
        protected: frozenset[JobKey] = frozenset(),
        *,
        trial: bool = False,
    ) -> tuple[Statement, VictimSearch] | None:
        """Evictions with which the gang is whole; None, and nothing changed, if there are none or none are needed.
        `protected`: gangs that must not stop; `trial`: nothing is prepared, such as volumes, which would be made for
        nodes that are not chosen in the end, and tie the gang to them."""
        session, job = self._session, self._job
        statement = session.statement()
        if give_up is not None:
            give_up(statement)
        if job.layout is not None and job.layout.policies:
            victim_search = self._promise_sub_groups(statement, tasks, protected)
        else:
            victim_search = self._promise_places(statement, tasks, protected)
        found_place = self._has_place(statement)
        self.found_place |= found_place
        if victim_search is None or not found_place or not statement.has_evictions:
            statement.discard()
            return None
        reprieve_needless(session, statement, job, victim_search.kind, victim_search.gone)
        if not trial and not session.is_prepared(job, statement.promised(job)):
            statement.discard()
            return None
        return statement, victim_search

    def _promise_places(
        self, statement: Statement, tasks: list[Task], protected: frozenset[JobKey]
    ) -> VictimSearch | None:
        """To as many tasks as the gang needs, or can have; the search for victims, if somebody had to go."""
        session, job, search = self._session, self._job, None
        for number, task in enumerate(tasks):
            if self._only_while_starving and not session.job_starving(job):
                break
            if job.ready_count + job.waiting_count + len(tasks) - number < job.min_available:
                break  # too many were left without a place
            if not fits_without(session, statement, task) and self._may_evict(task):
                if search is None:
                    search = self._search()
                    search.protect(protected)
                make_room(statement, task, search)
        return search

    def _promise_sub_groups(
        self, statement: Statement, tasks: list[Task], protected: frozenset[JobKey]
    ) -> VictimSearch | None:
        """The same for a gang with sub-groups: each of them is promised all its places or none."""
        session, job = self._session, self._job
        assert job.layout is not None
        line = WaitingTasks(job, tasks)
        promises = SubGroupPromises(session, statement, job, line, self._search, self._may_evict, protected)
        if not all(promises.promise(group) for group in needed_groups(job, line)):
            return promises.search
        loose = set(sub_groups(job).loose)
        for task in tasks:
            if task in loose and not (self._only_while_starving and not session.job_starving(job)):
                promises.promise_one(task)
        for policy in job.layout.policies:
            for group in next_groups(job, policy, line):
                if self._only_while_starving and not session.job_starving(job):
                    break
                promises.promise(group)
        return promises.search

    def _has_place(self, statement: Statement) -> bool:
        job = self._job
        if job.single_tasks and not statement.has_evictions:
            return not self._session.job_starving(job)  # what some of them have is no place for the others
        # A gang counts on its pods without requests. Those that are still waiting now were tried and have no place.
        counts_in_vain = bool(job.pending_best_effort) and job.is_below_minimum
        return self._session.job_pipelined(job) and not counts_in_vain


def _all_fit(session: Session, job: Job, tasks: list[Task]) -> bool:
    """A quick look for the common case: a job of equal tasks for which there is room without any eviction."""
    if job.layout is not None or len(session.placement.kinds(tasks)) > 1:
        return False
    first = tasks[0]
    if session.allocatable(job.queue, first.request * len(tasks), job=job) is not None:
        return False
    fitting = session.placement.fitting(first)
    return not fitting.alone and len(fitting.choose(first, len(tasks), session.placement.room_now(job))) == len(tasks)


def _is_hopeless(session: Session, job: Job, tasks: list[Task], search: Callable[[], VictimSearch]) -> bool:
    """Whether a large gang would have too few places even if all who could be evicted were gone. To count costs much
    less than to evict hundreds one by one and to undo it."""
    missing = job.min_available - job.ready_count - job.waiting_count
    # Without a plugin for gangs, any number of places will do.
    if missing < LARGE_GANG or not session.points.job_pipelined:
        return False
    if session.ledger.holdings and (session.points.concessions or session.points.kept_place):
        return False
    return search().most_places(tasks) < missing
