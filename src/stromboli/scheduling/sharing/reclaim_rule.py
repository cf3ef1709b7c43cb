"""From whom a queue may reclaim, and why that ends: one rule for `proportion`, `capacity` and trees of queues.

Only contended resources count: those that the claimant's pod requests, of which its queue has less than it deserves and
the victim's queue more. What nobody lacks, such as CPU and memory beside scarce GPUs, counts neither for nor against.
In each contended resource the claimant's queue stays within what it deserves, with all pods that the gang still needs
to start. The victim gives back at least one contended resource. A resource for which the victim's queue states nothing
is one of which it deserves nothing; but if the victim uses others for which the queue does state an amount, and is
within all of them, it stays. Guarantees are never reclaimed.

What a queue holds by right is the best packing of its pods and gangs within its deserved amount (`rightful_use`). The
rest stands on lent room, and may be reclaimed even if its queue then has less than it deserves. One condition remains:

    what all queues hold by right, as a sum of shares of the cluster, is larger after the plan than before it

This is why reclaim ends. Call the sum P. Every plan of evictions makes P larger. Placing pods on idle resources never
makes it smaller, because a packing may leave the new pods out. If no pods, queues and nodes come or go, the evicted
pods wait again and deserved amounts stay the same, so there is only a finite number of values of P. No queue can
reverse a move: the claimant's pods are in its packing, and to evict them would make P smaller.

There is one exception. A job that its owner restarts when it loses a pod has no pods for a moment, and then its queue
deserves less. So it is evicted only if its queue loses no more by right than those pods of the claimant gain that
have no place yet, within what their queue deserves. Its pods above the minimum count one by one in this.

Comparing what queues lack in amounts does not work. If lacks had to become smaller, a pod of 8 GPUs in a queue that
deserves 6 would never return the 2 GPUs it borrowed: without it, its queue lacks more than the claimant does. And if
they did not count at all, two queues that have borrowed CPU and memory from each other would evict each other forever,
because a pod uses more than the resource that is claimed.

In a tree, `levels` ancestors of each queue take part. A queue may then claim for an ancestor that has less than it
deserves, from queues outside it, and the victim's ancestors on these levels must have borrowed, too. There is one P for
each level. A claim of a queue's ancestor on some level makes P of that level larger, and P of no lower level smaller.
P of higher levels may become smaller, so what grows with every plan is the list of all P, compared from the lowest
level up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from stromboli.cluster import Job, JobKey, Queue, Status, Task
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.framework import Framework

from .job_amounts import tentatively_gone
from .rightful_use import Entitled, RightfulUse
from .work_units import TaskGroup, total_request

P = TypeVar("P", bound=Entitled)

# Looked up once: it takes long to find members of an enumeration.
_NO = Verdict.NO
_NOTHING = Verdict.NOTHING
_YES = Verdict.YES
_PENDING = Status.PENDING
_RESERVED = Status.RESERVED


class _Move(NamedTuple, Generic[P]):
    """Tasks of a job that could leave together. Amounts are by column."""

    job: Job
    tasks: Sequence[Task] | None  # one, or a sub-group; None: the whole gang
    leaves: list[int]  # what its queue would lose from now on
    gives: list[int]  # with what of its gang has been evicted already
    lines: list[P]  # the places that lose it: its queue and ancestors, without those that the claimant has, too
    held: list[list[int]]  # what these places have now


class ReclaimRule(Generic[P]):
    def __init__(
        self,
        session: Framework,
        columns: Sequence[int],
        *,
        line: Callable[[Queue], Sequence[P]],
        held: Callable[[P], list[int]],
        pending: Callable[[Job], list[Task]],
        zero_is_unstated: bool,
        levels: int = 0,
    ) -> None:
        """`line`: a queue and its ancestors, nearest first. `held`: what a place has now. `pending`: the waiting tasks
        of a job, in the order in which they are placed. `zero_is_unstated`: see RightfulUse."""
        self._columns = columns
        self._line = line
        self._held = held
        self._pending = pending
        self._levels = levels
        self._use = RightfulUse(session, zero_is_unstated=zero_is_unstated)
        self._session = session
        self._books = session.books
        # What was found out since the last change of the ledger.
        self._verdicts: dict[tuple[str, str, bool, bool, bool, bytes, bytes], Verdict] = {}
        self._arrivals: dict[tuple[JobKey, str], TaskGroup] = {}
        self._gains: dict[tuple[JobKey, str, str, bool], int] = {}
        self._rows = session.ledger.views.rows()

    def verdict(self, evictor: Task, candidate: Task, whole: bool) -> Verdict:
        mine, theirs = evictor.job, candidate.job
        if mine is None or theirs is None or mine.queue is theirs.queue:
            return _NOTHING
        if self._rows.changed():
            self._verdicts.clear()
            self._arrivals.clear()
            self._gains.clear()
        # Most pods are units of their own: those of one size in one queue are judged alike.
        alone = not whole and theirs.min_available <= 1 and not theirs.goes_whole
        returns = self._books.returns_to_own_rows(candidate)
        who = theirs.queue.name if alone else theirs.key
        goes = self._session.amount_going(candidate, whole=True).tobytes() if whole else b""
        key = (evictor.key, who, alone, whole, returns, candidate.request.tobytes(), goes)
        known = self._verdicts.get(key)
        if known is None:
            known = self._verdicts[key] = self._judge(evictor, candidate, whole, mine, theirs, returns=returns)
        return known

    def _judge(self, evictor: Task, candidate: Task, whole: bool, mine: Job, theirs: Job, *, returns: bool) -> Verdict:
        """`returns`: what is idle on nodes of the victim's own counts as its queue's, because it could go there."""
        line, above = self._line(mine.queue), self._line(theirs.queue)
        tasks = self._session.going_with(candidate, whole=whole)
        leaves: list[int] = self._session.amount_going(candidate, whole=whole).tolist()
        gives: list[int] = (theirs.allocated + tentatively_gone(theirs)).tolist() if tasks is None else leaves
        shared = {place.name for place in line}
        lines = [place for place in above if place.name not in shared]
        held = [self._held(place) if returns else self._occupied(place) for place in lines]
        move = _Move(theirs, tasks, leaves, gives, lines, held)
        if not lines or self._takes_guaranteed(move):
            return _NO
        stays = {place.name for place in above}
        for level, place in enumerate(line[: self._levels + 1]):
            if place.name in stays:
                break
            if self._may_claim(level, place, evictor, mine, move):
                return _YES
        return _NO

    def _occupied(self, place: P) -> list[int]:
        unused = [sum(amounts) for amounts in zip(*(queue.unused.tolist() for queue in place.members), strict=True)]
        return [has - idle for has, idle in zip(self._held(place), unused, strict=True)]

    def _takes_guaranteed(self, move: _Move[P]) -> bool:
        for place, held in zip(move.lines, move.held, strict=True):
            guarantee = place.guarantee
            for column in self._columns:
                if move.gives[column] > 0 and held[column] - move.leaves[column] < guarantee[column]:
                    return True
        return False

    def _may_claim(self, level: int, place: P, evictor: Task, job: Job, move: _Move[P]) -> bool:
        """Whether a place of the claimant may claim what the move gives."""
        need, held, deserved = evictor.request.tolist(), self._held(place), place.deserved
        limits = self._use.limits(place)
        lacking = [c for c in self._columns if need[c] > 0 and limits[c] is not None and held[c] < deserved[c]]
        steps = range(min(self._levels + 1, len(move.lines)))
        if not all(self._has_borrowed(step, move, lacking) for step in steps):
            return False
        contended = [column for column in lacking if self._has_more(0, move, column)]
        if not any(move.gives[column] > 0 for column in contended):
            return False
        arrives = self._arriving(evictor, job).request
        if any(held[column] + arrives[column] > deserved[column] for column in contended):
            return False
        restarts = move.job.goes_whole
        gain = self._gain(place, evictor, job, restarts=restarts)
        return gain > 0 and self._is_worth(level, gain + restarts, move)

    def _gain(self, place: P, evictor: Task, job: Job, *, restarts: bool) -> int:
        key = (job.key, evictor.key, place.name, restarts)
        known = self._gains.get(key)
        if known is None:
            arriving = self._all_within(place, job, evictor) if restarts else self._arriving(evictor, job)
            known = self._gains[key] = self._use.gain(place, job, arriving, self._held(place), from_now=restarts)
        return known

    def _all_within(self, place: P, job: Job, evictor: Task) -> TaskGroup:
        """All waiting tasks with which a place stays within what it deserves."""
        held, limits = self._held(place), self._use.limits(place)
        coming = [evictor, *self._others(job, evictor, self._missing(job))]
        known = {task.key for task in coming}
        after = [has + more for has, more in zip(held, total_request(job, coming), strict=True)]
        for task in self._pending(job):
            if task.key not in known:
                then = [has + more for has, more in zip(after, task.request.tolist(), strict=True)]
                if all(limit is None or amount <= limit for amount, limit in zip(then, limits, strict=True)):
                    after = then
                    coming.append(task)
        return self._use.work.group(job, coming)

    def _has_more(self, step: int, move: _Move[P], column: int) -> bool:
        """Whether the place so many steps up had more than it deserves before the move. It deserves nothing of what it
        does not state."""
        place = move.lines[step]
        had = move.held[step][column] - move.leaves[column] + move.gives[column]
        return self._use.limits(place)[column] is None or had > place.deserved[column]

    def _has_borrowed(self, step: int, move: _Move[P], lacking: Sequence[int]) -> bool:
        """Whether that place has more than it deserves of what it would lose. Resources that the claimant lacks decide;
        without an amount for any of these, all others for which the place states one."""
        limits = self._use.limits(move.lines[step])
        stated = [c for c in self._columns if move.gives[c] > 0 and limits[c] is not None]
        judged = [column for column in stated if column in lacking] or stated
        return not judged or any(self._has_more(step, move, column) for column in judged)

    def _arriving(self, evictor: Task, job: Job) -> TaskGroup:
        """The tasks that start with the evictor or not at all: itself, and what its gang needs beside those that
        already have a place."""
        key = (job.key, evictor.key)
        known = self._arrivals.get(key)
        if known is None:
            missing = self._missing(job)
            waiting = job.counts[_PENDING] - job.gated - (evictor.status is _PENDING)
            if not job.counts[_RESERVED]:
                known = self._use.work.alike_group(job, 1 + max(min(missing, waiting), 0))
            if known is None:
                known = self._use.work.group(job, [evictor, *self._others(job, evictor, missing)])
            self._arrivals[key] = known
        return known

    def _missing(self, job: Job) -> int:
        return job.min_available - job.ready_count - job.waiting_count - 1

    def _others(self, job: Job, evictor: Task, missing: int) -> list[Task]:
        """The first tasks of its job that wait beside the evictor."""
        if missing <= 0:
            return []
        waiting = [task for task in job.tasks.values() if task.status is Status.PENDING and not task.gated]
        if len({task.shape.id for task in waiting}) > 1 or job.roles_matter or job.counts[Status.RESERVED]:
            waiting = self._pending(job)  # which of them matters, so they must be in order
        return [task for task in waiting if task is not evictor][:missing]

    def _is_worth(self, level: int, gain: int, move: _Move[P]) -> bool:
        """Whether the sum of what places hold by right grows on this level, and falls on no lower one."""
        for lower in range(level + 1):
            losing = {place.name: place for place in self._losing(lower)}
            victim = move.lines[lower] if lower < len(move.lines) else None
            if victim is not None:
                losing.pop(victim.name, None)
            if lower == level:
                leaves = 0 if victim is None else self._use.most_lost(victim, move.leaves)
                if leaves + sum(self._use.most_lost(place) for place in losing.values()) < gain:
                    continue  # no need to pack
            lost = sum(self._use.loss_so_far(place) for place in losing.values())
            if victim is not None:
                lost += self._use.loss(victim, move.job, move.tasks)
            if lost >= gain if lower == level else lost > 0:
                return False
        return True

    def _losing(self, level: int) -> list[P]:
        """Places on a level that have lost something in the statement that is being made."""
        lines = [self._line(queue) for queue in sorted(self._use.work.losers(), key=lambda queue: queue.name)]
        return [line[level] for line in lines if level < len(line)]
