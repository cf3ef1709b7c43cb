"""Room for a job that waits, with the fewest and cheapest moves.

The job's pods are placed one after the other in the view. One that finds room is left to the scheduler. For one that
does not, every node is looked at on which it could run: which pods would have to leave, and do they all find a place
elsewhere? The node with the fewest moves is taken, then the one whose moves cost least. If a pod finds no node in this
way, there is no plan, and nothing moves. A job that must be close together gets all its places in one domain
(`pending_domains`).

Before anything is evicted the nodes are set aside for the job (Reservations in phase Waiting, as the reserve action
makes them), so nobody else takes what the moves free. All limits of that action hold here, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import combinations, islice
from typing import Final

import numpy as np

from stromboli.cluster import Job, JobKey, Node, Status, Task, Vector
from stromboli.descheduling.planning import Place
from stromboli.descheduling.run import Run
from stromboli.scheduling.explanation import waiting_since
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.gang import is_eligible
from stromboli.scheduling.starvation import (
    NamespaceHolds,
    NamespaceParts,
    Starvation,
    above_deserved,
    holders,
    needed,
    rank,
)
from stromboli.scheduling.starvation.holders import counted_rows, reserved_rows

from .pending_domains import place_in_domains, rows_of_domains, tasks_that_must_start

MOST_SETS: Final = 200  # sets of pods that are weighed against each other on one node
MOST_TRIES: Final = 8  # sets for which places are looked for, on one node

Cost = tuple[int, float, int, int, str]
PlannedSoFar = tuple[tuple[int, int], int, frozenset[int]]


class PendingRoom:
    def __init__(
        self,
        run: Run,
        plugin: str,
        cooldown: float,
        evictable: Callable[[str], bool],
        *,
        max_moves: int,
        wait_per_move: float,
    ) -> None:
        """`wait_per_move`: seconds that a job must have waited for each move."""
        self._run = run
        self._view = run.view
        self._session = run.view.session
        self._plugin = plugin
        self._cooldown = cooldown
        self._evictable = evictable
        self._most_moves = max_moves
        self._max_moves = max_moves  # for the job that is being planned for
        self._wait_per_move = wait_per_move
        self._in_vain: dict[Hashable, int] = {}  # kinds of jobs for which so many moves make no room
        self._served: set[JobKey] = set()  # jobs with a plan of this run, which will hold nodes
        self._set_aside: set[str] = set()  # these nodes
        # Of the plan that is being made:
        self._began = run.mark
        self._places: list[Place] = []
        self._closing: set[int] = set()  # nodes that it closes to everybody but its job
        self._wanted: list[int] = []  # nodes that pods which move should leave to its job

    def make(self, only: JobKey | None, *, min_pending: float = 0.0) -> None:
        """Plan for one job, or for all that wait, in the order in which they may hold nodes."""
        named = None if only is None else self._view.job(only)
        jobs = self._session.jobs if only is None else [] if named is None else [named]
        waiting = [job for job in jobs if self._may_be_served(job, min_pending if only is None else 0.0)]
        if only is not None and not waiting:
            self._run.options.notes.append(f"no room can be made for {only}: {self._why_not(only)}")
        for job in sorted(waiting, key=lambda job: rank(self._session, job)):
            self._max_moves = self._most_moves if only is not None else self._moves_worth(job)
            kind = self._kind(job)
            if self._is_one_too_many(job) or self._in_vain.get(kind, -1) >= self._max_moves:
                continue
            if not self._plan_for(job) and kind is not None:
                self._in_vain[kind] = self._max_moves

    def _moves_worth(self, job: Job) -> int:
        """How many moves a job has waited for. Most jobs start by themselves before long; who has waited for an hour is
        likely to wait for another one. So moves are made when waiting has cost as much as they do."""
        if not self._wait_per_move:
            return self._most_moves
        waited = self._session.now - waiting_since(self._session, job)
        return min(self._most_moves, int(waited / self._wait_per_move))

    def _is_one_too_many(self, job: Job) -> bool:
        """Whether the scheduler would give up what is set aside for the job, because it allows no more holders."""
        rules = self._session.state(Starvation).rules
        held = holders(self._session).keys() | self._served
        return rules is not None and job.key not in held and len(held) >= rules.max_holders

    def _kind(self, job: Job) -> Hashable | None:
        """Jobs of one kind get the same answer. Where many copies of a job wait, one search is enough: plans that are
        made in between leave less room, not more. None if nobody else gets the same answer."""
        if job.key in holders(self._session):
            return None
        key = self._session.placement.key
        tasks = tasks_that_must_start(self._session, job)
        return job.queue.name, job.namespace, job.layout, tuple(key(task) for task in tasks)

    # -- whom ---------------------------------------------------------------------------------------------------

    def _may_be_served(self, job: Job, min_pending: float) -> bool:
        return self._refusal(job, min_pending) is None

    def _why_not(self, key: JobKey) -> str:
        job = self._view.job(key)
        if job is None:
            return "it has ended, or its PodGroup or its queue does not exist"
        return self._refusal(job, 0.0) or "no moves make enough room"

    def _refusal(self, job: Job, min_pending: float) -> str | None:
        session = self._session
        rules = session.state(Starvation).rules
        if rules is None or not rules.sets_aside:
            return "the reserve action is not configured, so no node can be set aside"
        if not job.pending_count or session.job_ready(job) or job.counts[Status.PIPELINED]:
            return "it does not wait for room"
        if job.phase == "Pending" and session.has_action("enqueue"):
            return "it is not admitted"
        if any(migration.job == str(job.key) for migration in self._view.migrations):
            return "pods are being moved for it already"
        if min_pending and session.now - waiting_since(session, job) < min_pending:
            return "it has not waited long enough"
        if not is_eligible(session, job) or session.job_valid(job) is not None:
            return "it cannot be scheduled"
        if above_deserved(session, job):
            return f"queue {job.queue.name} has more than it deserves"
        if session.state(NamespaceParts).above_part(job):
            return f"namespace {job.namespace} has more than its part of queue {job.queue.name}"
        if session.state(NamespaceHolds).refuse(job, needed(job), None) is not None:
            return f"another job of namespace {job.namespace} goes first"
        if session.allocatable(job.queue, needed(job), job=job) is not None:
            return f"queue {job.queue.name} may not have that much"
        if job.key not in holders(session) and len(holders(session)) >= rules.max_holders:
            return "too many jobs hold reserved nodes"
        return session.why_no_nodes(job)

    # -- a plan -------------------------------------------------------------------------------------------------

    def _plan_for(self, job: Job) -> bool:
        run = self._run
        mark = self._began = run.mark
        places = self._places = []
        self._closing = set()
        tasks = tasks_that_must_start(self._session, job)
        self._wanted = rows_of_domains(self._session, job, tasks)
        if not place_in_domains(self._session, job, tasks, self):
            return False
        moves, new = run.moves_since(mark), self._newly_reserved(places)
        if not moves or not self._within_limit(job, new) or self._others_go_first(job, places):
            run.undo(mark)
            return False
        sources = sorted({move.source for move in moves})
        named = f"node {sources[0]}" if len(sources) == 1 else f"nodes {', '.join(sources)}"
        plan = run.accept(
            mark, plugin=self._plugin, subject=job.key, goal=f"makes room for {display_name(job)} on {named}",
            cooldown=self._cooldown, job=job.key, places=places,
        )  # fmt: skip
        if plan is None:
            return False
        self._served.add(job.key)
        self._set_aside |= new
        run.closed_rows |= self._closing
        return True

    def place(self, tasks: Sequence[Task]) -> bool:
        """A node for each, in the domain that is looked at; else nothing is changed."""
        before = self.so_far()
        for task in tasks:
            node = self._node_with_room(task)
            if node is None:
                node = self._make_room(task, self._began)
            if node is None or len(self._run.moves_since(self._began)) > self._max_moves:
                self.go_back(before)
                return False
            self._view.place(task, node)
            self._places.append(Place(task.key, node.name))
            if self._closes_nodes:
                self._closing.add(node.row)
        return True

    def so_far(self) -> PlannedSoFar:
        return self._run.mark, len(self._places), frozenset(self._closing)

    def go_back(self, mark: PlannedSoFar) -> None:
        self._run.undo(mark[0])
        del self._places[mark[1] :]
        self._closing = set(mark[2])

    def _others_go_first(self, job: Job, places: list[Place]) -> bool:
        """Whether the scheduler would give the nodes up at once, because a namespace that has less waits for them."""
        rows = np.zeros(len(self._view.nodes), dtype=np.bool_)
        rows[[self._view.nodes.by_name[place.node].row for place in places]] = True
        return self._session.state(NamespaceParts).above_part_on(job, rows)

    def _newly_reserved(self, places: list[Place]) -> set[str]:
        """Nodes that count against the limit and do not yet."""
        session = self._session
        held = {session.nodes.nodes[row].name for row in reserved_rows(session)}
        return {place.node for place in places if session.nodes.by_name[place.node].lock is None} - held

    def _within_limit(self, job: Job, new: set[str]) -> bool:
        rules = self._session.state(Starvation).rules
        assert rules is not None
        return counted_rows(self._session) + len(new | self._set_aside) <= rules.most_nodes(self._session, job.queue)

    def _node_with_room(self, task: Task) -> Node | None:
        """A node that has room already, as the scheduler would choose it."""
        session = self._session
        if task.status is Status.RESERVED and task.node is not None:
            fitting = session.placement.fitting(task)
            row = task.node.row
            return task.node if fitting.takes(row, session.placement.room_now_on(row)) else None
        fitting = session.placement.fitting(task)
        room = session.placement.room_now(task.job)
        open_ = fitting.mask & fitting.has_room(room) & self._view.nodes.schedulable
        open_[sorted(self._run.source_rows | self._run.closed_rows)] = False
        if self._closes_nodes:
            open_[sorted(self._rows_of_newcomers())] = False
        if not open_.any():
            return None
        rows = np.flatnonzero(open_)
        return self._view.nodes.nodes[int(rows[np.argmax(fitting.score[rows])])]

    @property
    def _closes_nodes(self) -> bool:
        """Whether a node that is set aside takes nobody else. Then it cannot be the target of a move as well."""
        rules = self._session.state(Starvation).rules
        return rules is not None and rules.scope == "node"

    def _rows_of_newcomers(self) -> set[int]:
        """Nodes that pods move to, in this run or since an earlier one."""
        under_way = (self._view.nodes.by_name.get(migration.target) for migration in self._view.migrations)
        return {node.row for node in under_way if node is not None} | {each.target.row for each in self._run.taken}

    def _make_room(self, task: Task, mark: tuple[int, int]) -> Node | None:
        """Move pods away from the best node for this task."""
        used_as_target = {move.target for move in self._run.moves_since(mark)}
        candidates: list[tuple[Cost, int, list[Task]]] = []
        for row in self._rows_to_clear(task):
            node = self._view.nodes.nodes[row]
            if node.name in used_as_target or not self._run.may_be_source(row):
                continue
            sets = self._leaving_sets(task, node)
            candidates += [(self._cost(leaving), row, leaving) for leaving in sets]
        candidates.sort(key=lambda candidate: (candidate[0], candidate[1]))
        for _, row, leaving in candidates:
            if self._clear(task, row, leaving):
                return self._view.nodes.nodes[row]
        return None

    def _rows_to_clear(self, task: Task) -> list[int]:
        """Nodes that could run the task if some of their pods left; on a node that is set aside for it, only there."""
        view = self._view
        if task.status is Status.RESERVED and task.node is not None:
            return [task.node.row] if view.sources[task.node.row] else []
        fitting = self._session.placement.fitting(task)
        enough = (view.nodes.allocatable - view.nodes.held >= task.request).all(axis=1)
        open_ = fitting.mask & enough & view.sources & view.nodes.schedulable
        open_[sorted(self._run.closed_rows)] = False
        return np.flatnonzero(open_).tolist()

    def _leaving_sets(self, task: Task, node: Node) -> list[list[Task]]:
        """Small sets of movable pods that make enough room, the best first."""
        room = self._session.placement.room_now(task.job)[node.row]
        short = np.maximum(task.request - room, 0) * (task.request > 0)
        movable = [
            each
            for each in self._view.tasks_on(node)
            if self._helps(each, short) and self._evictable(each.namespace) and self._run.refusal(each) is None
        ]
        movable.sort(key=lambda each: self._cost([each]))
        for size in range(1, min(len(movable), self._max_moves) + 1):
            if not _may_suffice(movable, short, size):
                continue
            enough = [list(each) for each in islice(combinations(movable, size), MOST_SETS) if _suffices(each, short)]
            if not enough:  # too many to look at all of them: the largest pods do suffice
                largest = sorted(movable, key=lambda each: (-int((each.request * (short > 0)).sum()), each.key))[:size]
                enough = [largest] if _suffices(tuple(largest), short) else []
            if enough:
                return sorted(enough, key=self._cost)[:MOST_TRIES]
        return []

    def _helps(self, task: Task, short: Vector) -> bool:
        return bool(((task.request > 0) & (short > 0)).any())

    def _cost(self, leaving: list[Task]) -> Cost:
        """Fewest pods first; then the work that is lost, priorities, the amounts to be placed again, and names."""
        lost = sum(self._lost_work(task) for task in leaving)
        stays = sum(self._run.prefers_to_stay(task) for task in leaving)
        size = sum(int(task.request.sum()) for task in leaving)
        return (
            len(leaving) + 1000 * stays, lost, sum(task.priority for task in leaving), size,
            " ".join(task.key for task in leaving),
        )  # fmt: skip

    def _lost_work(self, task: Task) -> float:
        """Seconds of work, times what the pod uses most of; a service loses none."""
        if not task.ends:
            return 0.0
        total = self._session.total
        share = max(
            (int(task.request[c]) / int(total[c]) for c in np.flatnonzero(task.request[: len(total)]) if total[c]),
            default=0.0,
        )
        return share * max(0.0, self._view.now - task.created)

    def _clear(self, task: Task, row: int, leaving: list[Task]) -> bool:
        """Move these pods to other nodes, the largest first; False, and nothing changed, if one finds no place."""
        run = self._run
        mark = run.mark
        for each in sorted(leaving, key=lambda each: (-int(each.request.sum()), each.key)):
            if run.refusal(each) is not None or not self._seat(each, row):
                run.undo(mark)
                return False
        if self._session.placement.fitting(task).takes(row, self._session.placement.room_now(task.job)[row]):
            return True
        run.undo(mark)
        return False

    def _seat(self, task: Task, source: int) -> bool:
        """A node that has just enough room, so that large holes stay large."""
        view = self._view
        open_ = run_targets(self._run) & view.rows_for(task)
        open_[[source, *sorted(self._closing)]] = False
        columns = np.flatnonzero(task.request)
        offered = np.maximum(view.nodes.allocatable[:, columns], 1)
        left = ((view.nodes.idle[:, columns] - task.request[columns]) / offered).sum(axis=1)
        left[self._wanted] += len(columns) + 1  # after all others
        while open_.any():
            rows = np.flatnonzero(open_)
            best = int(rows[np.argmin(left[rows])])
            if self._run.try_move(task, view.nodes.nodes[best], by=self._plugin):
                return True
            open_[best] = False
        return False


def run_targets(run: Run) -> np.ndarray:
    """Nodes that may take pods; not those from which pods leave in the plan that is being made."""
    mask = run.open_targets
    for taken in run.taken:
        mask[taken.source.row] = False
    return mask


def _may_suffice(tasks: list[Task], short: Vector, size: int) -> bool:
    """Whether the largest of these pods together free enough, resource by resource."""
    return all(
        sum(sorted((int(task.request[column]) for task in tasks), reverse=True)[:size]) >= int(short[column])
        for column in np.flatnonzero(short)
    )


def _suffices(tasks: tuple[Task, ...], short: Vector) -> bool:
    return bool((sum((task.request for task in tasks), start=np.zeros_like(short)) >= short).all())
