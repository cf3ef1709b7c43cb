"""The dominant reason of a waiting job, and its sentence.

What an action noted says which checks to repeat. Each is repeated with the whole gang and the state at the end of the
cycle; a refusal that no longer holds is not a reason. docs/why-pending.md lists the order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from stromboli.cluster import Job, Status, Task, Vector
from stromboli.scheduling.attempt import JobKinds
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.decisions import Explanation
from stromboli.scheduling.explanation import Code, JobNote, gang_reasons, reasons
from stromboli.scheduling.gang import missing_pods
from stromboli.scheduling.session import Session

from .close_fit import CloseFit, asks_for_domains, close_fit, unclear, without_domains
from .final_books import FinalBooks
from .gang_fit import gang_fit
from .held_binds import HeldBinds
from .never import never_in_cluster, never_on_nodes, never_within_quota
from .node_survey import NodeSurvey, NodeSurveys

_SAID_FIRST = (
    Code.BIND_REFUSED, Code.PREDICATE_VOLUME_BINDING, Code.PREDICATE_VOLUME_IN_USE, Code.WAITING_FOR_VOLUMES,
    Code.CONDITIONALLY_READY, Code.NOT_REACHED,
)  # fmt: skip
_REFUSED_FIRST = (Code.QUEUE_CLOSED, Code.NO_PRIORITY_CLASS, *reasons.OF_CLAIMS)
_TOO_FEW = (Code.NOT_ENOUGH_PODS, Code.NOT_ENOUGH_SUB_GROUPS)
_SUMS = frozenset({Code.QUEUE_OVER_QUOTA, Code.INSUFFICIENT_NODE})


@dataclass(frozen=True, slots=True)
class Finding:
    explanation: Explanation
    never: str = ""  # why the job can never start, if so
    nodes: NodeSurvey | None = None  # if nodes are the reason

    @property
    def is_room(self) -> bool:
        """Nothing is in the way but that there is not enough room on nodes."""
        return self.nodes is not None and self.nodes.dominant == Code.INSUFFICIENT_NODE

    def explain(self, ahead: Refusal | None) -> Explanation:
        """`ahead`: a namespace that goes first."""
        why = self.explanation
        if ahead is not None and self.nodes is not None:
            why = Explanation(ahead.code, f"{reasons.refused(ahead)} {self.nodes.sentence()}")
        return Explanation(why.code, f"{self.never} {why.message}") if self.never else why


class Explainer:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._books = FinalBooks(session)
        self._held = session.state(HeldBinds)
        self._surveys = NodeSurveys(session, self._books)
        self._admits = session.has_action("enqueue")
        self._known: dict[Hashable, Finding] = {}
        self._kept_out: dict[Hashable, Explanation] = {}

    def find(self, job: Job) -> Finding:
        note = self._session.notes.known(job) or JobNote()
        found = self._first(job, note)
        return Finding(found) if found is not None else self._at_queue_or_nodes(job, note)

    def blockers(self, job: Job) -> list[Explanation]:
        """Everything that keeps a job from starting, each reason by itself, in the order in which it is looked at. A
        sentence names one reason; whoever removes that one wants to know what comes next."""
        note = self._session.notes.known(job) or JobNote()
        found = [self._said(refusal) for refusal in note.refusals]
        found += [Explanation(code, sentence) for code, sentence in note.said.items()]
        told = self._session.points.group_conditions.of(job)
        found += [Explanation(code, said) for _, code, said, *_ in told if code in reasons.CODES]
        if job.phase == "Pending" and self._admits and note.refusals:
            found.insert(0, self._admission(job, note))
        if job.gated and Code.SCHEDULING_GATED not in note.said:
            found.append(Explanation(Code.SCHEDULING_GATED, gang_reasons.gated()))
        tasks = self._session.pending_tasks(job)
        if tasks:
            found += self._blockers_of_tasks(job, tasks)
        return found

    def _said(self, refusal: Refusal) -> Explanation:
        guaranteed = refusal.code == Code.QUEUE_OVER_QUOTA and self._session.is_limited_by_guarantees(refusal)
        return Explanation(refusal.code, reasons.refused(refusal, guaranteed=guaranteed))

    def _blockers_of_tasks(self, job: Job, tasks: list[Task]) -> list[Explanation]:
        missing = missing_pods(job)
        found = []
        refusal = self._refusal(job, tasks[:missing])
        if refusal is not None:
            found.append(self._said(refusal))
        close = self._close(job, tasks, missing)
        fit, survey = self.fit(job) if close is None else (close.fit, close.survey)
        if close is not None:
            found.append(close.explanation)
        elif fit < min(missing, len(tasks)) and missing > 1 and fit:
            found.append(Explanation(Code.GANG_SHORT, gang_reasons.gang_short(fit, missing, len(job.tasks), "")))
        if fit < min(missing, len(tasks)):  # if all fit that there are, the others are what it lacks
            for (code, phrase), number in survey.ranked:
                found.append(Explanation(code, reasons.some_nodes(number, survey.nodes, phrase, survey.domain)))
        return found

    def _close(self, job: Job, tasks: list[Task], missing: int) -> CloseFit | None:
        return close_fit(self._session, self._surveys, job, tasks, missing) if asks_for_domains(job) else None

    def fit(self, job: Job) -> tuple[int, NodeSurvey]:
        """How many of these fit now, and the nodes, for the first one that does not. The job must have pods that
        wait. Of a group that must be close together, in the domain that comes closest."""
        tasks, missing = self._session.pending_tasks(job), missing_pods(job)
        close = self._close(job, tasks, missing)
        if close is not None:
            return close.fit, close.survey
        return gang_fit(self._session, self._surveys, job, tasks, missing)

    def _first(self, job: Job, note: JobNote) -> Explanation | None:
        """What is looked at before the queue's limits and the nodes."""
        session = self._session
        for refusal in note.refusals:
            if refusal.code in _REFUSED_FIRST:
                return self._said(refusal)
            if refusal.code in _TOO_FEW:
                return self._said(session.job_valid(job) or refusal)
        if (held := self._held.explain_job(job)) is not None:
            return held
        if job.waiting_count and job.is_pipelined:
            return _waits_for_others_to_leave(job)
        for code in _SAID_FIRST:
            if code in note.said:
                return Explanation(code, note.said[code])
        if (nowhere := without_domains(session, job)) is not None:
            return nowhere
        if job.phase == "Pending" and self._admits:
            return self._admission(job, note)
        return None

    def _admission(self, job: Job, note: JobNote) -> Explanation:
        if not note.refusals:
            return Explanation(Code.NOT_TRIED, reasons.not_considered())
        if job.min_resources is None or note.refusals[0].code not in _SUMS:
            return self._why_kept_out(job, note)
        # Only sums decided, so the answer is the same for all jobs that request the same and have the same kept.
        kept = self._session.admission_credit(job, (job.queue.name,))
        like = (
            job.queue.name, job.priority, job.min_available, job.min_resources.tobytes(), job.unoffered,
            kept if isinstance(kept, int) else kept.tobytes(),
        )  # fmt: skip
        found = self._kept_out.get(like)
        if found is None:
            found = self._kept_out[like] = self._why_kept_out(job, note)
        return found

    def _why_kept_out(self, job: Job, note: JobNote) -> Explanation:
        refusal = self._session.job_enqueueable(job)
        if refusal is None:
            return Explanation(note.refusals[0].code, reasons.can_be_admitted())
        never = ""
        if job.min_resources is not None:
            never = never_within_quota(self._session, job, job.min_resources)
            never = never or never_in_cluster(self._session, job, job.min_resources)
        return Explanation(refusal.code, never) if never else self._said(self._books.corrected(refusal, job))

    def _at_queue_or_nodes(self, job: Job, note: JobNote) -> Finding:
        like = self._like(job, note)
        found = None if like is None else self._known.get(like)
        if found is not None:
            return found
        tasks = self._session.pending_tasks(job)
        if len(tasks) < missing_pods(job) and (refused := unclear(job)):
            return Finding(next(iter(refused.values())))
        if not tasks:
            said = note.said.get(Code.SCHEDULING_GATED, gang_reasons.gated())
            gated = job.gated and Explanation(Code.SCHEDULING_GATED, said)
            return Finding(gated or Explanation(Code.NOT_TRIED, reasons.not_considered()))
        found = self._of_tasks(job, note, tasks)
        if like is not None:
            self._known[like] = found
        return found

    def _like(self, job: Job, note: JobNote) -> Hashable:
        """Jobs for which this is equal get the same answers; None if there may be no other such job. Thousands of equal
        jobs may wait in a queue."""
        session = self._session
        if note.said or note.never or note.refused_by(Code.QUEUE_FIRST_IN_LINE):
            return None
        kinds = session.state(JobKinds)
        kind = kinds.of(job)
        if kind is None or not kinds.are_tasks_alike(job):
            return None
        if session.alike_in_queue(job):
            return kind
        # What features keep for others depends on the job.
        tasks = session.pending_tasks(job)
        request = tasks[0].request * max(1, min(job.min_available, len(tasks)))
        if session.points.job_allocatable.first(job, request, None) is not None:
            return None
        return kind

    def _of_tasks(self, job: Job, note: JobNote, tasks: list[Task]) -> Finding:
        session = self._session
        # What a job has tentatively does not count as started.
        missing = job.min_available - (job.ready_count - job.counts[Status.ALLOCATED])
        gang = missing > 0
        missing = max(1, missing)
        needed = tasks[:missing]
        whole = _total_request(session, needed) + (self._books.own(job) if gang else session.axis.zeros())
        never = never_within_quota(session, job, whole)
        if never:
            return Finding(Explanation(Code.QUEUE_OVER_QUOTA, never))
        never = never_on_nodes(session, job, tasks, missing) or note.never
        refusal = self._refusal(job, needed)
        if refusal is not None:
            return Finding(self._said(refusal), never)
        if Code.STARVING_RESERVED in note.said:
            return Finding(Explanation(Code.STARVING_RESERVED, note.said[Code.STARVING_RESERVED]), never)
        for refusal in note.refusals:
            if refusal.code == Code.QUEUE_FIRST_IN_LINE:
                return Finding(self._said(refusal), never)
        return self._nodes(job, tasks, missing, never, gang=gang)

    def _refusal(self, job: Job, needed: Sequence[Task]) -> Refusal | None:
        """What the queue, or a plugin, says to all pods that must start together."""
        session = self._session
        request = _total_request(session, needed)
        refusal = session.allocatable(job.queue, request, job=job)
        if refusal is not None and (kept := session.kept_room(job, of_queue=True)):
            # What is kept for its pods counts in its queue already.
            credit = np.minimum(sum(amount for _, amount in kept), request)
            refusal = session.allocatable(job.queue, request, job=job, credit=credit)
        if refusal is not None:
            return self._books.corrected(refusal, job)
        return session.pre_filter(needed[0]) or session.may_start(job.queue, request)

    def _nodes(self, job: Job, tasks: list[Task], missing: int, never: str, *, gang: bool) -> Finding:
        if (close := self._close(job, tasks, missing)) is not None:
            return Finding(close.explanation, never or close.never, close.survey)
        found, survey = gang_fit(self._session, self._surveys, job, tasks, missing)
        if found >= missing:
            return Finding(Explanation(Code.NOT_TRIED, reasons.not_tried_again(survey.sentence())))
        if gang and found:
            why = survey.sentence(gang=True)
            if len(tasks) < missing and found == len(tasks):
                why = gang_reasons.some_gated(job.gated)
            sentence = gang_reasons.gang_short(found, missing, len(job.tasks), why)
            return Finding(Explanation(Code.GANG_SHORT, sentence), never, survey)
        return Finding(Explanation(survey.dominant, survey.sentence()), never, survey)


def _waits_for_others_to_leave(job: Job) -> Explanation:
    nodes = [t.node.name for t in job.tasks.values() if t.status is Status.PIPELINED and t.node is not None]
    return Explanation(Code.WAITING_FOR_RELEASE, reasons.waiting_for_release(nodes, job.stands_for))


def _total_request(session: Session, tasks: Sequence[Task]) -> Vector:
    """There may be a thousand tasks, of few shapes."""
    shapes = {task.shape.id: task.shape for task in tasks}
    numbers = Counter([task.shape.id for task in tasks])
    return sum((shapes[id_].request * number for id_, number in numbers.items()), start=session.axis.zeros())
