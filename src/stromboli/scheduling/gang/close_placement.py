"""Placing a group whose pods must be close together, or that has sub-groups.

A group that asks for closeness is placed inside one domain. Domains with enough room are tried in order
(`scheduling.topology`); the first in which the group can start is taken, else the one in which it gets furthest: all
its places are promised, or they are if lent room is counted. A hard group has no other places; a soft one goes anywhere
before it waits.

A sub-group starts whole or not at all, each in a domain of its own inside that of the group. If the first choice for
one leaves no domain for the next, others are tried, so many that small groups find their places if there are any.

What is placed already decides which domains remain: a group that has lost pods goes on where its others are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from stromboli.cluster import OCCUPYING, Job, Status, Task
from stromboli.cluster.topology import Closeness, Domain, SubGroup, sub_groups
from stromboli.scheduling.callbacks import Scores
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import ALLOCATE, Statement
from stromboli.scheduling.topology import Wanted, domains_to_try, fill_order, tree_for

from .kept_places import largest_first
from .readiness import conditionally_ready
from .sub_group_line import (
    PLACED,
    WaitingTasks,
    missing_members,
    needed_groups,
    next_groups,
    placed_rows,
    waiting_members,
)
from .task_placement import missing_tasks, place_on_open_nodes

MOST_CHOICES: Final = 64
"""How many domains are tried for the sub-groups of one group beyond the first choice of each."""

Level = tuple[int, int]
"""How far an attempt got: `_READY` and so on, then how many tasks have a place."""

_NO_MORE: Final = object()
_NOTHING, _CONDITIONALLY, _PROMISED, _READY = range(4)


def place_close(
    session: Session,
    statement: Statement,
    job: Job,
    tasks: deque[Task],
    *,
    lending: bool = False,
    conditionally: bool = True,
) -> None:
    """`place_gang` for a job with a layout."""
    attempt = _Attempt(session, statement, job, list(tasks), lending, conditionally)
    placed = attempt.run()
    left = [task for task in tasks if task.status not in PLACED]
    tasks.clear()
    if placed:
        tasks.extend(left)


class _Attempt:
    def __init__(
        self,
        session: Session,
        statement: Statement,
        job: Job,
        tasks: Sequence[Task],
        lending: bool,
        conditionally: bool,
    ) -> None:
        self._session = session
        self._statement = statement
        self._job = job
        self._tasks = tasks
        self._lending = lending
        self._conditionally = conditionally
        self._groups = sub_groups(job)
        self._line = WaitingTasks(job, tasks)
        self._was_ready = session.job_ready(job)
        self._choices = 0

    def run(self) -> bool:
        """Whether tasks were placed."""
        assert self._job.layout is not None
        closeness, before = self._job.layout.closeness, len(self._statement)
        place = self._place_sub_groups if self._job.layout.policies else self._place_tasks
        if closeness is None:
            place()
        else:
            has_places = any(self._job.counts[status] for status in PLACED)
            rows = placed_rows(self._job.tasks.values()) if has_places else []
            self._in_best_domain(closeness, self._wanted(self._tasks, self._needed(), rows), place)
        return len(self._statement) > before

    # -- domains ------------------------------------------------------------------------------------------------

    def _in_best_domain(self, closeness: Closeness, wanted: Wanted, place: Callable[[], Level]) -> None:
        session, statement, before = self._session, self._statement, len(self._statement)
        best: tuple[Level, Domain | None] = ((_NOTHING, 0), None)
        for domain in self._domains(closeness, wanted):
            with session.inside(domain, self._fill_order(closeness, wanted, domain)):
                level = place()
            if level[0] == _READY:
                return
            statement.discard(down_to=before)
            if level > best[0]:
                best = (level, domain)
        # What is not enough is kept only if others may borrow it.
        if best[0][0] > _NOTHING or (best[0][1] and session.points.fallback_possible):
            with session.inside(best[1], self._fill_order(closeness, wanted, best[1])):
                place()

    def _fill_order(self, closeness: Closeness, wanted: Wanted, domain: Domain | None) -> Scores | None:
        """Which parts of a domain are filled first; where a group is there already, that is up to the scores."""
        session = self._session
        if domain is None or len(wanted.kinds) != 1 or wanted.placed:
            return None
        tree = tree_for(session, closeness)
        if not tree.parts_of(domain):
            return None
        ((first, number),) = wanted.kinds
        places = session.placement.fitting(first).places_by_row(session.placement.room_now(self._job))
        return fill_order(tree, domain, places, number)

    def _domains(self, closeness: Closeness, wanted: Wanted) -> Iterator[Domain | None]:
        """Those where the tasks can start now come first, then those where they wait for others to leave."""
        session, seen = self._session, set[tuple[int, str]]()
        placement, job = session.placement, self._job
        may_wait = closeness.hard and self._conditionally and bool(session.points.fallback_possible)
        for room, ahead, uncounted in (
            (placement.room_now(job), False, False),
            (placement.room_later(job) if closeness.hard else None, True, False),
            (placement.room_at_most(job) if may_wait else None, True, True),
        ):
            if room is None:
                continue
            for domain in domains_to_try(session, closeness, wanted, room, ahead=ahead, uncounted=uncounted):
                if (domain.tier, domain.name) not in seen:
                    seen.add((domain.tier, domain.name))
                    yield domain
        if not closeness.hard:
            yield session.domain

    def _wanted(self, tasks: Sequence[Task], needed: int, placed: Sequence[int]) -> Wanted:
        session, nodes = self._session, self._session.nodes.by_name
        hinted: list[int] = []
        if session.ledger.any_nominated:
            hinted += [nodes[task.nominated].row for task in tasks if task.nominated in nodes]
        if self._job.counts[Status.RESERVED]:
            hinted += [task.node.row for task in tasks if task.status is Status.RESERVED and task.node is not None]
        kept = session.kept_rows(tasks)
        return Wanted(session.placement.kinds(tasks) if tasks else (), needed, placed, [*hinted, *kept], kept)

    def _needed(self) -> int:
        """How many tasks must be placed together, at least."""
        if self._was_ready:
            return 1
        in_sub_groups = sum(map(missing_members, needed_groups(self._job, self._line)))
        return min(len(self._tasks), max(missing_tasks(self._job), in_sub_groups))

    # -- a group without sub-groups -----------------------------------------------------------------------------

    def _place_tasks(self) -> Level:
        level = self._place_in_order(self._tasks)
        needs_all = not self._was_ready and missing_tasks(self._job) >= len(self._tasks) > 1
        if level[0] > _NOTHING or not needs_all:
            return level
        by_size = largest_first(self._session, list(self._tasks))
        return level if by_size == list(self._tasks) else self._place_in_order(by_size)

    def _place_in_order(self, tasks: Sequence[Task]) -> Level:
        before = len(self._statement)
        place_on_open_nodes(
            self._session, self._statement, self._job, deque(tasks),
            lending=self._lending, conditionally=self._conditionally,
        )  # fmt: skip
        level = self._level(before)
        if level[0] == _NOTHING and not self._session.points.fallback_possible:
            self._statement.discard(down_to=before)
        return level

    def _level(self, before: int) -> Level:
        session, job = self._session, self._job
        placed = len(self._statement) - before
        if not placed:
            return (_NOTHING, 0)
        if session.job_ready(job):
            return (_READY, placed)
        if session.job_pipelined(job):
            return (_PROMISED, placed)
        return (_CONDITIONALLY if conditionally_ready(job) else _NOTHING, placed)

    # -- sub-groups ---------------------------------------------------------------------------------------------

    def _place_sub_groups(self) -> Level:
        before = len(self._statement)
        if self._was_ready:
            self._place_one_more()
        else:
            self._place_what_it_needs()
        return self._level(before)

    def _place_one_more(self) -> None:
        if all(self._place_first(self._next_of(number)) is None for number in range(self._policies)):
            self._place_loose()

    def _place_what_it_needs(self) -> None:
        needed = needed_groups(self._job, self._line)
        before, self._choices = len(self._statement), 0
        if not self._place_all(needed):
            self._statement.discard(down_to=before)
            largest = sorted(needed, key=lambda group: -missing_members(group))
            if largest == needed or not self._place_all(largest):
                self._statement.discard(down_to=before)
                for group in needed:  # what does not need the others, and what others may borrow
                    self._place_whole(group)
                return
        self._place_loose()
        for number in range(self._policies):
            left = self._next_of(number)
            while not self._is_enough() and (placed := self._place_first(left)) is not None:
                left.remove(placed)

    @property
    def _policies(self) -> int:
        return 0 if self._job.layout is None else len(self._job.layout.policies)

    def _next_of(self, number: int) -> list[SubGroup]:
        assert self._job.layout is not None
        return next_groups(self._job, self._job.layout.policies[number], self._line)

    def _is_enough(self) -> bool:
        return self._session.job_ready(self._job) or self._session.job_pipelined(self._job)

    def _place_loose(self) -> None:
        """As many as the group still needs of those in no sub-group; if it needs none, one more."""
        loose = {task.key for task in self._groups.loose}
        tasks = deque(task for task in self._tasks if task.key in loose and task.status not in PLACED)
        if tasks and (self._was_ready or not self._is_enough()):
            place_on_open_nodes(
                self._session, self._statement, self._job, tasks,
                lending=self._lending, conditionally=self._conditionally,
            )  # fmt: skip

    def _place_first(self, groups: Sequence[SubGroup]) -> SubGroup | None:
        """The first of these that has a place, without looking twice for those that are alike."""
        failed: set[object] = set()
        for group in groups:
            waiting = waiting_members(group, self._line)
            kind = (
                tuple(self._session.placement.constant_keys([task], roles=True) for task in waiting),
                tuple(placed_rows(group.tasks)),
            )
            if kind not in failed:
                if self._place_whole(group):
                    return group
                failed.add(kind)
        return None

    def _place_all(self, groups: Sequence[SubGroup]) -> bool:
        """Each in a domain of its own; with other domains for the first ones, if there is none for the last."""
        tried: list[Iterator[None]] = []  # of each that has a place: it goes on to the next one
        while len(tried) < len(groups):
            tried.append(self._places_for(groups[len(tried)]))
            while next(tried[-1], _NO_MORE) is _NO_MORE:
                tried.pop()
                self._choices += bool(tried)
                if not tried or self._choices > MOST_CHOICES:
                    return False
        return True

    def _place_whole(self, group: SubGroup) -> bool:
        return any(True for _ in self._places_for(group))

    def _places_for(self, group: SubGroup) -> Iterator[None]:
        """Place a sub-group in one domain after the other, as long as the caller wants another; at the end, nowhere."""
        session, statement, before = self._session, self._statement, len(self._statement)
        tasks = waiting_members(group, self._line)[: missing_members(group)]
        closeness = group.policy.closeness
        if closeness is None:
            domains: Iterator[Domain | None] = iter([session.domain])
        else:
            domains = self._domains(closeness, self._wanted(tasks, len(tasks), placed_rows(group.tasks)))
        for domain in list(domains):
            for order in self._orders(tasks):
                with session.inside(domain):
                    place_on_open_nodes(
                        session, statement, self._job, deque(order),
                        lending=self._lending, conditionally=self._conditionally, together=len(order),
                    )  # fmt: skip
                if all(task.status in PLACED for task in tasks) and self._starts_together(tasks, before):
                    yield
                    statement.discard(down_to=before)
                    break
                statement.discard(down_to=before)

    def _starts_together(self, tasks: Sequence[Task], before: int) -> bool:
        """Where some of a sub-group wait for others to leave, all of it waits: it is promised its places. Not if some
        would use what is kept for them, which nobody can promise."""
        statement = self._statement
        if all(task.status in OCCUPYING for task in tasks):
            return True
        placed = [operation for operation in statement.operations[before:] if operation.task.status in OCCUPYING]
        if any(operation.kind is not ALLOCATE for operation in placed):
            return False
        for operation in placed:
            node = operation.task.node
            assert node is not None
            statement.take_back(operation)
            if not statement.pipeline(operation.task, node):
                return False
        return True

    def _orders(self, tasks: list[Task]) -> list[list[Task]]:
        by_size = largest_first(self._session, tasks) if len(tasks) > 1 else tasks
        return [tasks] if by_size == tasks else [tasks, by_size]
