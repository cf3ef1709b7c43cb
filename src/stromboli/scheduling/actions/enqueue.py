"""enqueue: let jobs in.

A job waits outside (phase Pending) until its queue and the cluster as a whole can promise it what it needs; then it is
Inqueue, its controller may create its pods, and the other actions see it. Admission looks at sums, not at nodes: it
keeps a flood of jobs from being tried in vain, it does not promise a place. While jobs are let in, what others were
promised counts in the order as if they had it, so that queues and namespaces are let in by turns as well. If there is
room for all of them, the order does not matter, and nobody is asked about each.

A job that has starved is let in although the cluster is full: nodes are set aside for pods, so it has to have some. But
not more such jobs at a time than nodes are set aside for, and only if nothing but room is in the way. Jobs of lower
priority do not count: they yield their nodes to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from stromboli.cluster import UNLIMITED, Job, QueueName, Vector
from stromboli.scheduling.attempt import FailedAttempts
from stromboli.scheduling.callbacks import Refusal, Vote
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.plugin import Action
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import AdmissionPromises
from stromboli.scheduling.starvation import Starvation, has_starved, is_known_not_to_start
from stromboli.scheduling.walk import Walk


class Enqueue(Action):
    name: ClassVar[str] = "enqueue"

    def execute(self, session: Session) -> None:
        outside = [job for job in session.active if job.phase == "Pending"]
        promises = session.state(AdmissionPromises)
        promises.admitting = True
        try:
            self._let_in(session, outside)
        finally:
            promises.admitting = False

    def _let_in(self, session: Session, outside: list[Job]) -> None:
        candidates = []
        for one in outside:
            if not one.queue.open:
                session.notes.refuse(one, Refusal(Code.QUEUE_CLOSED, subject=one.queue.name))
            elif one.missing_class:
                # The server would refuse its pods, and what it were promised would be kept for nobody.
                session.notes.refuse(one, Refusal(Code.NO_PRIORITY_CLASS, subject=one.missing_class))
            else:
                candidates.append(one)
        if _can_all_be_admitted(session, candidates):
            for one in candidates:
                session.ledger.set_phase(one, "Inqueue")
            session.state(AdmissionPromises).admit_all()
            return
        failures = session.state(FailedAttempts)
        failures.once_for_all(self.name, candidates, lambda: self._let_in_by_turns(session, candidates))

    def _let_in_by_turns(self, session: Session, candidates: list[Job]) -> bool:
        """Whether there was time to ask about all of them."""
        walk = Walk(session, candidates)
        while (job := walk.next()) is not None:
            if job.min_resources is not None:
                refusal = session.job_enqueueable(job)
                if refusal is not None and not self._is_to_be_helped(session, job):
                    session.notes.refuse(job, refusal)
                    continue
            session.state(AdmissionPromises).admit(job)
            session.job_enqueued(job)
            session.ledger.set_phase(job, "Inqueue")
        return not walk.is_cut

    def _is_to_be_helped(self, session: Session, job: Job) -> bool:
        rules = session.state(Starvation).rules
        if rules is None or not rules.sets_aside or not has_starved(session, job, rules):
            return False
        if job.min_resources is None or bool((job.min_resources > session.total).any()):
            return False  # whatever is set aside, it will not be enough
        if not _only_room_keeps_out(session, job):
            return False
        inside = [other for other in session.jobs if other.phase == "Inqueue" and other.min_resources is not None]
        helped = sum(
            not other.is_ready and has_starved(session, other, rules) and not is_known_not_to_start(other)
            for other in inside
            if other.priority >= job.priority
        )
        return helped < rules.max_holders


def _can_all_be_admitted(session: Session, jobs: Iterable[Job]) -> bool:
    """Whether there is room for the sum of what these jobs have to be promised."""
    stated: dict[QueueName, list[Vector]] = {}
    for job in jobs:
        if job.min_resources is not None:
            stated.setdefault(job.queue.name, []).append(job.min_resources)
    minimums: dict[QueueName, list[int]] = {}
    for name, amounts in stated.items():
        by_job = np.concatenate(amounts).reshape(len(amounts), -1)
        if int(by_job.max()) > UNLIMITED // len(by_job):
            return False  # their sum might wrap around
        minimums[name] = by_job.sum(axis=0).tolist()
    return not minimums or session.all_enqueueable(minimums)


def _only_room_keeps_out(session: Session, job: Job) -> bool:
    """Whether all who would not admit a job say that the cluster is full, or that other jobs of its queue have used up
    what the queue may have."""
    answers = [vote(job) for vote in session.points.job_enqueueable.calls]
    refusals = [answer for answer in answers if isinstance(answer, Refusal)]
    return Vote.REJECT not in answers and all(_may_drain(refusal) for refusal in refusals)


def _may_drain(refusal: Refusal) -> bool:
    if refusal.code == Code.QUEUE_OVER_QUOTA:
        return refusal.need <= refusal.total
    return refusal.code == Code.INSUFFICIENT_NODE
