"""Promising sub-groups their places, with evictions where they need them: all places of one, or none.

A hard sub-group gets its places in one domain, where evictions for it cost least.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from stromboli.cluster import Job, JobKey, Task
from stromboli.cluster.topology import SubGroup
from stromboli.scheduling.gang import WaitingTasks, home_domain, missing_members, waiting_members
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from ..broken_gangs import harm
from ..concessions import make_room
from ..free_places import fits_without
from ..victims import VictimSearch
from .cheapest_domain import NO_EVICTIONS, Cost, cheapest_domain


class SubGroupPromises:
    """Those of one statement. `search` is made when somebody has to go, or domains have to be compared."""

    def __init__(
        self,
        session: Session,
        statement: Statement,
        job: Job,
        tasks: WaitingTasks,
        search: Callable[[], VictimSearch],
        may_evict: Callable[[Task], bool],
        protected: frozenset[JobKey],
    ) -> None:
        self.search: VictimSearch | None = None
        self._session = session
        self._statement = statement
        self._job = job
        self._line = tasks
        self._new_search = search
        self._may_evict = may_evict
        self._protected = protected

    def promise(self, group: SubGroup) -> bool:
        """Whether it has all its places; if not, nothing has changed."""
        tasks = waiting_members(group, self._line)[: missing_members(group)]
        closeness = group.policy.closeness
        if closeness is None or not closeness.hard:
            return self._promise_all(tasks)
        domain = cheapest_domain(
            self._session, closeness, group.tasks, tasks, len(tasks), self._victims(), lambda: self._cost_here(tasks)
        )
        if domain is None:
            return False
        with self._session.inside(domain):
            return self._promise_all(tasks)

    def promise_one(self, task: Task) -> bool:
        with self._session.inside(home_domain(self._session, task) or self._session.domain):
            if fits_without(self._session, self._statement, task):
                return True
            return self._may_evict(task) and make_room(self._statement, task, self._victims())

    def _victims(self) -> VictimSearch:
        if self.search is None:
            self.search = self._new_search()
            self.search.protect(self._protected)
        return self.search

    def _promise_all(self, tasks: Sequence[Task]) -> bool:
        before, gone = len(self._statement), 0 if self.search is None else len(self.search.gone)
        for task in tasks:
            if fits_without(self._session, self._statement, task):
                continue
            if not self._may_evict(task) or not make_room(self._statement, task, self._victims()):
                self._take_back(before, gone)
                return False
        return True

    def _take_back(self, before: int, gone: int) -> None:
        self._statement.discard(down_to=before)
        if self.search is not None:
            del self.search.gone[gone:]

    def _cost_here(self, tasks: Sequence[Task]) -> Cost | None:
        search = self._victims()
        before, gone = len(self._statement), len(search.gone)
        evicted = sum(operation.kind.gives_way for operation in self._statement.operations)
        if not self._promise_all(tasks):
            return None
        cost: Cost = (search.cost_of_all(), *harm(self._session, self._statement, search.gone))
        if sum(operation.kind.gives_way for operation in self._statement.operations) == evicted:
            cost = NO_EVICTIONS
        self._take_back(before, gone)
        return cost
