"""Priorities: who goes first, and who gives way inside a queue.

The priority of a job is its PriorityClass and orders jobs; the priority of a pod orders the pods of one job. With
preemption, a job may take room from jobs of lower priority in its own queue, and a pod from lower pods of its own job.

Equal priority is no opinion: another plugin may still see a reason to let one yield to the other. Between queues
priority has no say at all, since otherwise a queue could be emptied by whoever claims to be important in another one.
"""

from __future__ import annotations

from stromboli.cluster import Job, Task
from stromboli.scheduling.callbacks import Verdict
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session


class Priority(Plugin):
    name = "priority"

    def open(self, session: Session) -> None:
        session.add_task_order(lambda task: -task.priority)
        session.add_job_order(lambda job: -job.priority)
        session.add_job_starving(_wants_more)
        session.add_preemptable(_lower_yields, protects=False)


def _wants_more(job: Job) -> bool:
    """Some pod of it waits that could be placed. Gangs have a narrower notion, and both have to hold."""
    return job.pending_count > job.gated


def _lower_yields(evictor: Task, candidate: Task, whole: bool) -> Verdict:
    if evictor.job is None or candidate.job is None:
        return Verdict.NOTHING
    if evictor.job is candidate.job:
        difference = evictor.priority - candidate.priority
    else:
        difference = evictor.job.priority - candidate.job.priority
    if difference > 0:
        return Verdict.YES
    return Verdict.NO if difference < 0 else Verdict.NOTHING
