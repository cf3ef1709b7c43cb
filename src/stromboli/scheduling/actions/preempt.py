"""preempt: inside a queue, jobs that should go first make room by evicting others.

A starving job is placed as a whole in one statement: tasks that fit without evicting are promised their room, the
others evict. Only if then the whole gang has a place is anything evicted at all. A job that could be placed without
any eviction is left to allocate.

A Reservation whose template names a PriorityClass does so as a pod of that priority would: one for another, also in a
queue that has borrowed. Only what it holds beyond what the evicted pods leave has to be within what the queue deserves:
to evict more than makes room would stop work for nothing, as the evicted pods borrow again at once. If pods that are
leaving anyway make room for it, it waits for those. Its node stands in its status meanwhile, so a restart neither
forgets it nor evicts others.

After that, inside a starving job, tasks of higher priority may take the place of their own siblings.
"""

from __future__ import annotations

from typing import Any, ClassVar

from stromboli.cluster import Job, Queue, Status
from stromboli.scheduling.bind_backoff import worth_trying
from stromboli.scheduling.eviction import (
    ReturnedPromises,
    VictimSearch,
    node_without_evictions,
    place_with_evictions,
    starving_jobs,
    wait_for_leaving,
)
from stromboli.scheduling.explanation import reasons
from stromboli.scheduling.explanation.display_names import task_name
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.reservations import preempting_stand_ins
from stromboli.scheduling.session import Session
from stromboli.scheduling.walk import Walk


class Preempt(Action):
    name: ClassVar[str] = "preempt"

    def execute(self, session: Session) -> None:
        jobs = starving_jobs(session, worth_trying(session, session.waiting))
        walk = Walk(session, [*jobs, *starving_jobs(session, preempting_stand_ins(session))])
        while (job := walk.next()) is not None:
            if job.stands_for:
                if not wait_for_leaving(session, job):
                    self._between_jobs(session, job)
            elif not self._between_jobs(session, job) and job.queue.fifo:
                walk.stop_queue()
        for job in session.turns.while_time(jobs):
            runs = job.counts[Status.RUNNING] or job.counts[Status.BOUND]
            if runs and session.job_starving(job) and session.state(ReturnedPromises).until(job) is None:
                self._inside(session, job)

    def _between_jobs(self, session: Session, job: Job) -> bool:
        def search() -> VictimSearch:
            return VictimSearch(
                session, "preemptable", job, [job.queue], rank=_no_rank,
                reason="Preempted", message=lambda task: reasons.preempted(task_name(task)),
            )  # fmt: skip

        return place_with_evictions(
            session, job, self.name, search=search, may_evict=lambda task: task.may_preempt, only_while_starving=True
        )

    def _inside(self, session: Session, job: Job) -> None:
        search = VictimSearch(
            session, "preemptable", job, [job.queue], inside=True, rank=_no_rank,
            reason="Preempted", message=lambda task: reasons.preempted(task.key),
        )  # fmt: skip
        for task in session.pending_tasks(job):
            if node_without_evictions(session, task) is not None:
                continue  # it fits: allocate and backfill see to it, and a sibling's loss would gain nothing
            statement = session.statement()
            if not task.may_preempt or not search.make_room(statement, task):
                return
            prepared = session.is_prepared(job, statement.promised(job))
            if not prepared or not session.job_pipelined(job):  # One for another: what the gang lacks, it lacks still.
                statement.discard()
                return
            statement.commit()


def _no_rank(queue: Queue) -> Any:
    return ()
