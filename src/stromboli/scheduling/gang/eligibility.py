"""Whether a job may be placed in this cycle at all."""

from __future__ import annotations

from stromboli.cluster import Job
from stromboli.cluster.topology import sub_groups
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.session import Session


def is_eligible(session: Session, job: Job) -> bool:
    """Whether a job may be placed at all in this cycle; if not, it is noted why."""
    if job.pending_count == 0 or _may_none_start(session, job):
        return False
    if not job.queue.open:
        session.notes.refuse(job, Refusal(Code.QUEUE_CLOSED, subject=job.queue.name))
        return False
    if job.phase == "Pending" and session.has_action("enqueue"):
        return False
    refusal = session.job_valid(job)
    if refusal is not None:
        session.notes.refuse(job, refusal)
        return False
    return True


def _may_none_start(session: Session, job: Job) -> bool:
    """Whether something is wrong with the sub-group of each pod that waits. That is their reason."""
    return bool(sub_groups(job).refused) and not session.has_pending_tasks(job)
