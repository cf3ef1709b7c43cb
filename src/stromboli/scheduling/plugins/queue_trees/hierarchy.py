"""Fair shares over a tree of queues: departments share the cluster, and teams what their department has.

A queue says where it stands with two annotations, and all queues together make a tree with the jobs as its leaves:

    volcano.sh/hierarchy:          root/eng/prod
    volcano.sh/hierarchy-weights:  100/50/20          one for each step; missing, unreadable or below 1 means 1

One cannot just add up what a department has. If eng/dev lives on CPUs and eng/prod on memory, then half of both is one
fair half of the cluster, but if dev has had its half of the CPUs for a while and prod comes anew, a plain sum says that
the department has its share already, and prod waits for nothing. So a branch counts its hungry children only as far as
the poorest of them has come: each is scaled down to the smallest share among them before they are added up. A child
that cannot use more is *saturated*; it counts with all it has and holds nobody down. Children without anything do not
count at all.

    a job is saturated      if it has all it asks for of some resource, or asks for one of which nothing is left
    a branch is saturated   if all of its children are
    its amounts             those of saturated children as they are, those of the others times poorest / own share
    its share               the largest of its amounts, as parts of the cluster

The next queue is found by walking down from the root: unsaturated branches first, then by share / weight. Orders are
keys here, so a queue's key is the tuple of (saturated, share / weight) of all steps of its path. Where two branches are
even the tuples go on with what is below; a path that ends there goes before those that go on.

With reclaim the move is imagined first: the claimant with its pod, the victim without. Where the two paths part, the
claimant's branch must then still have the strictly smaller share / weight, in the tree and also in plain sums. The
latter because a scaled share falls when a job gets its very first pod: two queues could each find the other one richer
for ever. Saturation does not matter here: that a claimant has all it wants after the move is no reason to refuse it.

No annotation can break the tree. Without a path, or with one that does not start at root, a queue is a child of root of
weight 1; if others have the same path or stand below it, it is a child of weight 1 of the branch it names. Of several
weights for one branch the oldest queue's counts. Room that Reservations keep is the queue's as it is, and so is, while
jobs are let in, what they were promised. Numbers are exact; how they are kept up is told in `branches`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from stromboli.cluster import PODS, WAITING, Job, JobKey, Queue, QueueName, Task, Vector
from stromboli.scheduling.callbacks import Verdict

from .branches import Branch, Leaf, Step, own_step, parting, place_of

if TYPE_CHECKING:
    from stromboli.scheduling.session import Session


class Hierarchy:
    """The tree of one session. It hears of placements and evictions by the session's handlers."""

    def __init__(self, session: Session, one: int) -> None:
        """`one`: all of the cluster, a multiple of all of its totals."""
        self._session = session
        self._columns = [column for _, column in session.axis.by_name() if column != PODS]
        # What nobody offers cannot be had in parts: one unit is as much as all.
        self._per_unit = [one // total if total > 0 else one for total in session.total[self._columns].tolist()]
        nodes = session.nodes
        room = np.maximum(nodes.future_idle[:, self._columns], 0) * (nodes.ready & nodes.schedulable)[:, None]
        self._room: list[list[int]] = room.tolist()  # by row: what can still be given when all promises are kept
        self._left: list[int] = room.sum(axis=0).tolist()
        self._exhausted = self._exhausted_at(self._left)  # the resources of which nothing is left, as bits
        self._read_to = len(session.ledger.log)
        self._promised: list[int] | None = None  # to all, when last looked at; None: nobody is being let in
        self._age = 0  # grows when all that has been reckoned may be out of date
        self._moved: dict[JobKey, Job] = {}  # jobs whose pods were placed or evicted since the last look
        self._leaves: dict[JobKey, Leaf] = {}
        self._falls = 0
        self._tops: list[Branch] = []  # the children of root
        self._branch: dict[QueueName, Branch] = {}
        self._plant(sorted(session.queues.values(), key=lambda queue: (queue.created, queue.name)))

    # -- the tree -----------------------------------------------------------------------------------------------

    def _plant(self, queues: Iterable[Queue]) -> None:
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

    # -- news ---------------------------------------------------------------------------------------------------

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
        if len(ledger.log) != self._read_to:
            for row in dict.fromkeys(ledger.log[self._read_to :]):
                self._look_at(row)
            self._read_to = len(ledger.log)
            self._exhausted = self._exhausted_at(self._left)
            for key, job in self._moved.items():
                leaf = self._leaves.get(key)
                if leaf is not None:
                    leaf.has(self._shares(job.allocated))
            self._moved.clear()
            if ledger.holdings:
                self._age += 1  # pods that take from Reservations change what queues have besides their jobs
        promised = self._session.promises.promised_everywhere().tolist() if self._session.admitting else None
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
        self._reckon(path[0])
        return tuple([branch.standing for branch in path])

    def falls(self) -> int:
        """Grows whenever a branch may have come forward by what was given to another: a scaled share falls when a job
        gets its first pod, or when the mixture of what a child has changes."""
        self._catch_up()
        for branch in self._tops:
            self._reckon(branch)
        return self._falls

    def _reckon(self, branch: Branch) -> None:
        at = (self._age, self._exhausted)
        if branch.reckoned_at == at:
            return
        branch.reckoned_at = at
        for child in branch.children:
            if child.reckoned_at != at:
                branch.take_out(child)
                self._reckon(child)
                branch.put_in(child)
        if branch.queue is not None:
            branch.settled = [*self._plain(branch)]
        before = branch.standing
        branch.reckon(self._exhausted)
        self._falls += branch.standing < before

    def _plain(self, branch: Branch) -> list[int]:
        """What a branch has, all in all."""
        if branch.queue is None:
            return [sum(amounts) for amounts in zip(*map(self._plain, branch.children), strict=True)]
        held = self._shares(self._session.held_by(branch.queue))
        if branch.imagined is None:
            return held
        return [has + more for has, more in zip(held, branch.imagined, strict=True)]

    # -- taking back --------------------------------------------------------------------------------------------

    def may_lose(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        mine, theirs = evictor.job, candidate.job
        if mine is None or theirs is None or mine.queue is theirs.queue:
            return Verdict.NOTHING
        self._catch_up()
        claimant, victim = parting(self._branch[mine.queue.name], self._branch[theirs.queue.name])
        with self._imagined(mine, evictor.request, theirs, theirs.allocated if whole else candidate.request):
            self._reckon(claimant.path[0])
            self._reckon(victim.path[0])
            in_the_tree = claimant.standing[1] < victim.standing[1]
            has, had = max(self._plain(claimant)), max(self._plain(victim))
        in_plain_sums = has * victim.weight < had * claimant.weight
        return Verdict.YES if in_the_tree and in_plain_sums else Verdict.NO

    @contextmanager
    def _imagined(self, mine: Job, arriving: Vector, theirs: Job, leaving: Vector) -> Iterator[None]:
        """The tree as it would be after a move."""
        before = self._exhausted
        arrives, leaves = arriving[self._columns].tolist(), leaving[self._columns].tolist()
        room = zip(self._left, arrives, leaves, strict=True)
        self._exhausted = self._exhausted_at([left - taken + given for left, taken, given in room])
        self._imagine(mine, arriving)
        self._imagine(theirs, -leaving)
        try:
            yield
        finally:
            self._exhausted = before
            self._imagine(mine, None)
            self._imagine(theirs, None)

    def _imagine(self, job: Job, change: Vector | None) -> None:
        # Jobs that have all they want have no leaf until they are looked at: they count as they are anyhow.
        leaf = self._leaves.get(job.key) or self._add_leaf(job, job.allocated)
        leaf.branch.imagined = None if change is None else self._shares(change)
        leaf.has(self._shares(job.allocated if change is None else job.allocated + change))


def _asked(job: Job) -> Vector | None:
    """What a job has and wants, pods counted in that are made only after it is let in; None if it wants nothing more.
    Pods that cannot be placed now, because the queue is closed or their group is missing, want nothing of others."""
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
