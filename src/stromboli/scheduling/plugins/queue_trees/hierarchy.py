"""Fair shares over a tree of queues: departments share the cluster, and teams what their department has.

Two annotations of a queue state its place. All queues form a tree with the jobs as its leaves:

    volcano.sh/hierarchy:          root/eng/prod
    volcano.sh/hierarchy-weights:  100/50/20          one for each step; 1 if missing, invalid or below 1

A plain sum over a department is not fair. If eng/dev uses CPUs and eng/prod uses memory, half of both is a fair half of
the cluster. But if dev already has its half of the CPUs when prod starts, a plain sum says that the department has its
share, and prod waits for nothing. So the unsaturated children of a branch are scaled down to the smallest share among
them before they are added up. A child that cannot use more is *saturated*: it counts with all it has, and the others
are not scaled down to it. Children that have nothing do not count.

    a job is saturated      if it has all it requests of some resource, or requests one of which nothing is left
    a branch is saturated   if all of its children are
    its amounts             those of saturated children as they are, those of the others times smallest / own share
    its share               the largest of its amounts, as parts of the cluster

The next queue is found from the root down: unsaturated branches first, then by share / weight. Orders are keys here, so
a queue's key is the tuple of (saturated, share / weight) of all steps of its path. If two branches are even, the next
steps are compared; a path that ends there goes before longer ones.

Reclaim simulates the move: the claimant with its pod, the victim without. Just below the last common branch, the
claimant's branch must then still have the smaller share / weight, both scaled and in plain sums. Plain sums are needed
because a scaled share falls when a job gets its first pod: two queues could reclaim from each other forever. Even
shares are allowed if the victim's plain share falls: a gang may have exactly the half that is its due. The move cannot
be reversed, because that would make the shares uneven the other way. Saturation does not matter here: a claimant that
has all it needs after the move is not refused for that.

No annotation can break the tree. Without a path, or with one that does not start at root, a queue is a child of root
with weight 1. If others have the same path or one below it, it is a child with weight 1 of the branch it names. If
queues state different weights for a branch, the oldest queue's counts. Resources of Reservations count for their queue
unscaled, and so do promises while jobs are admitted. All numbers are exact; `branches` keeps them up to date.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction

import numpy as np

from stromboli.cluster import PODS, WAITING, Job, JobKey, Queue, QueueName, Task, Vector
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import AdmissionPromises

from .branches import Branch, Leaf, Step, own_step, parting, place_of


class Hierarchy:
    """The tree of one session. Handlers of the session report placements and evictions."""

    def __init__(self, session: Session, one: int) -> None:
        """`one`: the whole cluster, a multiple of all its totals."""
        self._session = session
        self._promises = session.state(AdmissionPromises)
        self._columns = [column for _, column in session.axis.by_name() if column != PODS]
        # A resource that no node offers: one unit counts as all of it.
        self._per_unit = [one // total if total > 0 else one for total in session.divisible[self._columns].tolist()]
        nodes = session.nodes
        room = np.maximum(nodes.future_idle[:, self._columns], 0) * (nodes.ready & nodes.schedulable)[:, None]
        self._room: list[list[int]] = room.tolist()  # by row: what is left after all promises
        self._left: list[int] = room.sum(axis=0).tolist()
        self._exhausted = self._exhausted_at(self._left)  # the resources of which nothing is left, as bits
        self._rows = session.ledger.views.rows()
        self._rows.renew()
        self._promised: list[int] | None = None  # to all jobs, at the last look; None: no job is being admitted
        self._age = 0  # grows when all computed shares may be out of date
        self._moved: dict[JobKey, Job] = {}  # jobs whose pods were placed or evicted since the last look
        self._leaves: dict[JobKey, Leaf] = {}
        self._falls = 0
        self._tops: list[Branch] = []  # the children of root
        self._branch: dict[QueueName, Branch] = {}
        self._build(sorted(session.queues.values(), key=lambda queue: (queue.created, queue.name)))

    # -- the tree -----------------------------------------------------------------------------------------------

    def _build(self, queues: Iterable[Queue]) -> None:
        places = [(queue, *place_of(queue)) for queue in queues]
        users = Counter(steps[:length] for _, steps, _ in places for length in range(1, len(steps) + 1))
        known: dict[tuple[str, ...], Branch] = {}
        for queue, steps, weights in places:
            if users[steps] > 1:
                steps, weights = (*steps, own_step(queue)), (*weights, Fraction(1))
            path: tuple[Branch, ...] = ()
            for length, weight in enumerate(weights, start=1):
                branch = known.get(steps[:length])
                if branch is None:
                    branch = Branch(len(self._columns), weight, path, queue if length == len(steps) else None)
                    known[steps[:length]] = branch
                    if path:
                        path[-1].children.append(branch)
                    else:
                        self._tops.append(branch)
                path = branch.path
            self._branch[queue.name] = path[-1]
            for job in queue.jobs.values():
                asked = _asked(job)
                if asked is not None:
                    self._add_leaf(job, asked)

    def _add_leaf(self, job: Job, asked: Vector) -> Leaf:
        leaf = self._leaves[job.key] = Leaf(self._branch[job.queue.name], self._shares(asked))
        leaf.has(self._shares(job.allocated))
        return leaf

    def _shares(self, amounts: Vector) -> list[int]:
        held = amounts.tolist()
        return [held[column] * unit for column, unit in zip(self._columns, self._per_unit, strict=True)]

    # -- changes ------------------------------------------------------------------------------------------------

    def placed(self, task: Task) -> None:
        if task.job is not None:
            self._moved[task.job.key] = task.job

    def gone(self, task: Task) -> None:
        job = task.job
        if job is None or job.queue.name not in self._branch:
            return
        if job.key not in self._leaves:
            # It wanted nothing more until this pod was evicted; the pod's successor will want the room back.
            self._add_leaf(job, job.allocated + task.request)
        self._moved[job.key] = job

    def _catch_up(self) -> None:
        ledger = self._session.ledger
        if rows := self._rows.news():
            for row in dict.fromkeys(rows):
                self._look_at(row)
            self._exhausted = self._exhausted_at(self._left)
            for key, job in self._moved.items():
                leaf = self._leaves.get(key)
                if leaf is not None:
                    leaf.has(self._shares(job.allocated))
            self._moved.clear()
            if ledger.holdings:
                self._age += 1  # pods that use Reservations change what queues have besides their jobs
        promised = self._promises.promised_everywhere().tolist() if self._promises.admitting else None
        if promised != self._promised:
            self._promised = promised
            self._age += 1

    def _look_at(self, row: int) -> None:
        node = self._session.nodes.nodes[row]
        if not (node.ready and node.schedulable):
            return
        future = self._session.nodes.future_idle_of(row).tolist()
        room = [max(future[column], 0) for column in self._columns]
        now_and_before = zip(self._left, room, self._room[row], strict=True)
        self._left = [left + now - before for left, now, before in now_and_before]
        self._room[row] = room

    def _exhausted_at(self, left: list[int]) -> int:
        return sum(1 << column for column, amount in enumerate(left) if amount <= 0)

    # -- order --------------------------------------------------------------------------------------------------

    def key(self, queue: Queue) -> tuple[Step, ...]:
        self._catch_up()
        path = self._branch[queue.name].path
        self._update(path[0])
        return tuple([branch.standing for branch in path])

    def falls(self) -> int:
        """Grows whenever the key of a branch may have become smaller because another got something: a scaled share
        falls when a job gets its first pod, or when the mix of resources of a child changes."""
        self._catch_up()
        for branch in self._tops:
            self._update(branch)
        return self._falls

    def _update(self, branch: Branch) -> None:
        at = (self._age, self._exhausted)
        if branch.updated_at == at:
            return
        branch.updated_at = at
        for child in branch.children:
            if child.updated_at != at:
                branch.take_out(child)
                self._update(child)
                branch.put_in(child)
        if branch.queue is not None:
            branch.settled = [*self._plain(branch)]
        before = branch.standing
        branch.update(self._exhausted)
        self._falls += branch.standing < before

    def _plain(self, branch: Branch) -> list[int]:
        """What a branch has, not scaled."""
        if branch.queue is None:
            return [sum(amounts) for amounts in zip(*map(self._plain, branch.children), strict=True)]
        held = self._shares(self._promises.held_by(branch.queue))
        if branch.simulated is None:
            return held
        return [has + more for has, more in zip(held, branch.simulated, strict=True)]

    # -- reclaim ------------------------------------------------------------------------------------------------

    def may_lose(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        mine, theirs = evictor.job, candidate.job
        if mine is None or theirs is None or mine.queue is theirs.queue:
            return Verdict.NOTHING
        self._catch_up()
        claimant, victim = parting(self._branch[mine.queue.name], self._branch[theirs.queue.name])
        had_before = max(self._plain(victim))
        with self._simulated_move(mine, evictor.request, theirs, theirs.allocated if whole else candidate.request):
            self._update(claimant.path[0])
            self._update(victim.path[0])
            in_the_tree = claimant.standing[1], victim.standing[1]
            has, had = max(self._plain(claimant)), max(self._plain(victim))
        in_plain_sums = has * victim.weight, had * claimant.weight
        smaller = all(one < other for one, other in (in_the_tree, in_plain_sums))
        even = all(one <= other for one, other in (in_the_tree, in_plain_sums)) and had < had_before
        return Verdict.YES if smaller or even else Verdict.NO

    @contextmanager
    def _simulated_move(self, mine: Job, arriving: Vector, theirs: Job, leaving: Vector) -> Iterator[None]:
        """The tree as it would be after a move."""
        before = self._exhausted
        arrives, leaves = arriving[self._columns].tolist(), leaving[self._columns].tolist()
        room = zip(self._left, arrives, leaves, strict=True)
        self._exhausted = self._exhausted_at([left - taken + given for left, taken, given in room])
        self._simulate(mine, arriving)
        self._simulate(theirs, -leaving)
        try:
            yield
        finally:
            self._exhausted = before
            self._simulate(mine, None)
            self._simulate(theirs, None)

    def _simulate(self, job: Job, change: Vector | None) -> None:
        # Jobs that have all they request get a leaf only here: without one they count unscaled, too.
        leaf = self._leaves.get(job.key) or self._add_leaf(job, job.allocated)
        leaf.branch.simulated = None if change is None else self._shares(change)
        leaf.has(self._shares(job.allocated if change is None else job.allocated + change))


def _asked(job: Job) -> Vector | None:
    """What a job has and requests, including pods that are created only after its admission; None if it requests
    nothing more. Pods that cannot be placed now, because the queue is closed or their PodGroup is missing, do not
    count."""
    if job.object is None or not job.queue.open:
        return None
    wanted = np.zeros_like(job.allocated)
    if job.pending_count:
        for task in job.tasks.values():
            if task.status in WAITING and not task.gated:
                wanted += task.request
    if job.min_resources is not None and job.valid_count < job.min_available:
        wanted += np.maximum(job.min_resources - job.allocated - wanted, 0)
    wanted[PODS] = 0
    return job.allocated + wanted if wanted.any() else None
