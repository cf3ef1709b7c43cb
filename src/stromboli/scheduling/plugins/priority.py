"""Priorities: who goes first, and who is preempted inside a queue.

Jobs are ordered by the priority of their PriorityClass, the pods of one job by their own. A Reservation that waits for
a node goes after the jobs of its priority. With preemption, a job may
evict jobs of lower priority in its queue, and a pod may evict pods of lower priority in its job.

For equal priorities there is no opinion, so another plugin may decide. Preempt considers one queue only: otherwise a
job of high priority could empty another queue.
"""

from __future__ import annotations

from stromboli.cluster import Job, Task
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

# Looked up once: it takes long to find members of an enumeration.
_NO = Verdict.NO
_NOTHING = Verdict.NOTHING
_YES = Verdict.YES


class Priority(Plugin):
    name = "priority"

    def open(self, session: Session) -> None:
        session.add_task_order(lambda task: -task.priority)
        session.add_job_order(lambda job: (-job.priority, bool(job.stands_for)))  # at a tie pods go first
        session.add_job_starving(_has_waiting_pods)
        session.add_preemptable(_lower_yields, protects=False, by_shares=True)


def _has_waiting_pods(job: Job) -> bool:
    """Whether it has a pod that waits and is not gated. The gang plugin is stricter, and both must agree."""
    return job.pending_count > job.gated


def _lower_yields(evictor: Task, candidate: Task, whole: bool) -> Verdict:
    if evictor.job is None or candidate.job is None:
        return _NOTHING
    if evictor.job is candidate.job:
        difference = evictor.priority - candidate.priority
    else:
        difference = evictor.job.priority - candidate.job.priority
    if difference > 0:
        return _YES
    return _NO if difference < 0 else _NOTHING
