"""reclaim: a queue that has less than it deserves takes room back from queues that have more.

The job is placed as a whole in one statement, as in preempt; victims come from other queues that allow it. All
pending tasks of a job that was starving when its turn began are tried: a queue takes back its share, not only its
gangs' minimum.
"""

from __future__ import annotations

from typing import Any, ClassVar

from stromboli.cluster import Job, Task
from stromboli.scheduling.eviction.gangs import place_with_evictions, starving_jobs
from stromboli.scheduling.eviction.victims import Hunt
from stromboli.scheduling.explanation import reasons
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.session import Session
from stromboli.scheduling.walk import Walk

from .allocate import considered


class Reclaim(Action):
    name: ClassVar[str] = "reclaim"

    def execute(self, session: Session) -> None:
        if not any(queue.reclaimable and session.evictable(queue) for queue in session.queues.values()):
            return  # nobody runs who could be asked to go
        jobs = starving_jobs(session, lambda job: considered(session, job))
        walk = Walk(session, jobs, drop=session.overused)
        while (job := walk.next()) is not None:
            if not self._reclaim(session, job) and job.queue.fifo:
                walk.stop_queue()

    def _reclaim(self, session: Session, job: Job) -> bool:
        def may_evict(task: Task) -> bool:
            return task.may_preempt and session.preemptive(job.queue, task.request) is None

        return place_with_evictions(
            session, job, hunt=lambda: self._hunt(session, job), may_evict=may_evict, only_while_starving=False
        )

    def _hunt(self, session: Session, job: Job) -> Hunt:
        queues = sorted(session.queues.values(), key=session.queue_key)
        last_first = {queue.name: -position for position, queue in enumerate(queues)}

        def rank(task: Task) -> Any:
            """Queues that would be served last lose first."""
            assert task.job is not None
            owner = task.job.queue
            return (session.victim_queue_key(owner, job.queue), last_first[owner.name])

        lenders = [queue for queue in queues if queue is not job.queue and queue.reclaimable]
        return Hunt(
            session, "reclaimable", lenders, among=lambda task: True, group=tuple(queue.name for queue in lenders),
            rank=rank, reason="Reclaimed", message=lambda task: reasons.reclaimed(task.key, job.queue.name),
        )  # fmt: skip
