"""Which gates are removed in a cycle.

Pods of admitted jobs are looked at in the order of queues, then of jobs, as everywhere: once before the actions, so
that a pod without a gate does not take the room of one that goes before it; and once at the end, when it is known what
those got that go before. Until then they count as if they got all that they request. A gate is removed if the hard
limits of the queue have room for the pod beside all that was promised before. A gang below its minimum gets as many
gates removed as it needs, or none: half a gang would hold room in vain, and nodes would be added that it cannot use.
What exceeds the minimum is looked at pod by pod. In a fifo queue nobody goes past the first that has to wait.

The limit of a queue counts here also where the nodes have less than that: these are the nodes that an autoscaler is to
add.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache

from stromboli.cluster import Job, JobKey, Queue, QueueName, Status, Task, Vector
from stromboli.cluster.queue_index import with_queues_below
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.decisions import Ungate
from stromboli.scheduling.explanation import Code, gang_reasons, reasons
from stromboli.scheduling.session import Session, needed_first

from .promises import GatePromises

_PENDING = Status.PENDING


def remove_gates(session: Session, *, at_end: bool) -> None:
    waiting: dict[JobKey, Job] = {}
    for task in session.ledger.queue_gated.values():
        if task.job is not None and _awaits(task):
            waiting[task.job.key] = task.job
    if not waiting:
        return
    by_queue: dict[QueueName, list[Job]] = {}
    for job in sorted(waiting.values(), key=session.job_key):
        if _may_be_looked_at(session, job):
            by_queue.setdefault(job.queue.name, []).append(job)
    removal = _Removal(session, at_end=at_end)
    for queue in sorted((session.queues[name] for name in by_queue), key=session.queue_key):
        removal.serve(queue, by_queue[queue.name])


def _awaits(task: Task) -> bool:
    return task.awaits_queue and not task.ungated and task.status is _PENDING


def _may_be_looked_at(session: Session, job: Job) -> bool:
    """Admitted, with all pods that it must have, so that nothing but its queue is in the way."""
    if job.object is None or job.put_aside or job.queue.name not in session.queues:
        return False
    if job.phase == "Pending" and session.has_action("enqueue"):
        return False
    return session.job_valid(job) is None


class _Removal:
    def __init__(self, session: Session, *, at_end: bool) -> None:
        self._session = session
        self._at_end = at_end
        self._ahead = session.axis.zeros()  # in the queue that is being served: what jobs request that go before
        self._promises = session.state(GatePromises)
        self._refused: dict[tuple[int, bytes], Refusal] = {}  # in the queue that is being served
        hierarchy = any(option.is_enabled("hierarchy") for option in session.configuration.plugins("capacity"))
        self._parents = {queue.name: queue.parent if hierarchy else "" for queue in session.queues.values()}

    def serve(self, queue: Queue, jobs: Sequence[Job]) -> None:
        """`jobs`: those with gates, in order."""
        self._refused.clear()
        self._ahead = self._session.axis.zeros()
        others = iter([] if self._at_end else self._without_gates(queue, jobs))
        other = next(others, None)
        for job in self._session.turns.each(jobs):
            while other is not None and self._session.job_key(other) < self._session.job_key(job):
                self._ahead = self._ahead + _sum(self._session, self._session.pending_tasks(other))
                other = next(others, None)
            if not self._serve_job(job) and queue.fifo:
                return

    def _without_gates(self, queue: Queue, jobs: Sequence[Job]) -> list[Job]:
        gated = {job.key for job in jobs}
        others = [job for job in queue.jobs.values() if job.pending_count and job.key not in gated]
        return sorted((job for job in others if _may_be_looked_at(self._session, job)), key=self._session.job_key)

    def _serve_job(self, job: Job) -> bool:
        """Whether no gate of its queue is left."""
        tasks = sorted((task for task in job.tasks.values() if _awaits(task)), key=self._session.task_key)
        if job.roles_matter:
            tasks = needed_first(job, tasks)
        free = [task for task in job.tasks.values() if task.status is _PENDING and (not task.gated or task.ungated)]
        missing = max(0, job.min_available - job.ready_count - job.waiting_count - len(free))
        if missing > len(tasks):
            if self._at_end:
                others = gang_reasons.waits_for_other_gates(missing - len(tasks))
                self._session.notes.of(job).said[Code.SCHEDULING_GATED] = others
            return False
        # Those of a gang that have no gate start with the others, so there must be room for these, too.
        beside = [task for task in free if task.key not in self._session.ledger.queue_gated]
        if missing and not self._open(job, tasks[:missing], beside):
            return False
        return all(self._open(job, [task]) for task in tasks[missing:])

    def _open(self, job: Job, tasks: Sequence[Task], beside: Sequence[Task] = ()) -> bool:
        """Whether there is room for all of these together; then they have their gates no more."""
        refusal = self._refusal(job, _sum(self._session, [*tasks, *beside]))
        if refusal is not None:
            self._say(job, refusal)
            return False
        for task in tasks:
            self._remove(task)
        return True

    def _remove(self, task: Task) -> None:
        assert task.job is not None
        self._promises.add(task)
        self._session.cycle.decisions.append(Ungate(task.key, task.job.queue.name))

    def _say(self, job: Job, refusal: Refusal) -> None:
        if self._at_end:
            self._session.notes.of(job).said[Code.SCHEDULING_GATED] = gang_reasons.keeps_queue_gate(
                reasons.refused(refusal, guaranteed=self._session.is_limited_by_guarantees(refusal))
            )

    def _refusal(self, job: Job, request: Vector) -> Refusal | None:
        """What was refused once is refused to all that come later: promises only grow here."""
        own = self._promises.own(job)
        like = (job.priority, request.tobytes())
        if own is None and like in self._refused:
            return self._refused[like]
        credit = -self._ahead if own is None else -self._ahead - own
        refusal = self._session.allocatable(job.queue, request, job=job, credit=credit, lending=True)
        if refusal is not None and own is not None and refusal.resource in self._session.axis.index:
            promised = int(own[self._session.axis.index[refusal.resource]])
            refusal = replace(refusal, have=refusal.have - promised, kept_own=promised)
        refusal = refusal or self._beyond_capability(job, request + self._ahead)
        if refusal is not None and own is None:
            self._refused[like] = refusal
        return refusal

    def _beyond_capability(self, job: Job, request: Vector) -> Refusal | None:
        """By the limits that queues state, whatever the nodes have now."""
        line = self._line(job.queue)
        if all(queue.capability is None for queue in line):
            return None
        promised = cache(self._promised_to)

        def held(queue: Queue) -> Vector:
            return queue.allocated + promised(queue.name, job)

        amounts = with_queues_below(self._session.queues.values(), held) if len(line) > 1 else {}
        for queue in line:
            if queue.capability is None:
                continue
            has = amounts[queue.name] if queue.name in amounts else held(queue)
            for name, column in self._session.axis.shared():
                need, most = int(request[column]), int(queue.capability[column])
                if need > 0 and int(has[column]) + need > most:
                    kept = int(promised(queue.name, job)[column])
                    return Refusal(
                        Code.QUEUE_OVER_QUOTA, resource=name, need=need, have=int(has[column]) - kept, total=most,
                        subject=queue.name, kept=kept,
                    )  # fmt: skip
        return None

    def _promised_to(self, queue: QueueName, job: Job) -> Vector:
        """In a queue: to those that do not give way to this job, and to its own pods."""
        promised = self._promises.kept_from(job).get(queue, self._session.axis.zeros())
        own = self._promises.own(job) if queue == job.queue.name else None
        return promised if own is None else promised + own

    def _line(self, queue: Queue) -> list[Queue]:
        """The queue and those above it."""
        line = [queue]
        while (above := self._session.queues.get(QueueName(self._parents[line[-1].name]))) is not None:
            if above in line:
                break
            line.append(above)
        return line


def _sum(session: Session, tasks: Iterable[Task]) -> Vector:
    return sum((task.request for task in tasks), start=session.axis.zeros())
