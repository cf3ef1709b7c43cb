"""Why jobs wait, recorded by the code that decides.

Actions take notes while they work: a queue refused, no node had room, two of four pods were placed. At the end of the
cycle the notes of a job become one dominant reason and one sentence. Nothing is computed a second time.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.cluster import Job, JobKey
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.decisions import Explanation

from . import reasons
from .histogram import Histogram
from .reasons import Code


@dataclass(slots=True)
class JobNote:
    refusals: list[Refusal] = field(default_factory=list)  # by queues, admission, validity
    histogram: Histogram | None = None  # of the first task that fits on no node
    found: int = 0  # tasks that were placed in the last attempt
    released_on: list[str] = field(default_factory=list)  # nodes with terminating pods that the job waits for
    said: dict[str, str] = field(default_factory=dict)  # sentences of features, by code


class Notes:
    """The notes of a session, by job."""

    def __init__(self) -> None:
        self._notes: dict[JobKey, JobNote] = {}

    def of(self, job: Job) -> JobNote:
        note = self._notes.get(job.key)
        if note is None:
            note = self._notes[job.key] = JobNote()
        return note

    def attempt(self, job: Job) -> JobNote:
        """A new note: the results of earlier attempts in this cycle are dropped, refusals are kept."""
        before = self.of(job)
        note = self._notes[job.key] = JobNote(refusals=list(before.refusals))
        return note

    def refuse(self, job: Job, refusal: Refusal) -> None:
        note = self.of(job)
        if refusal not in note.refusals:
            note.refusals.append(refusal)

    def refused(self, job: Job) -> bool:
        note = self._notes.get(job.key)
        return note is not None and bool(note.refusals)

    def found_no_node(self, job: Job) -> bool:
        """Nothing refused the job; there was only not enough room for it on nodes."""
        note = self._notes.get(job.key)
        if note is None or note.histogram is None or note.released_on:
            return False
        return not note.refusals and _node_level(note.histogram).code == Code.INSUFFICIENT_NODE

    def recall(self, job: Job, note: JobNote) -> None:
        """Restore the note from before an attempt that does not count."""
        self._notes[job.key] = note

    def pardon(self, job: Job) -> None:
        """Drop the refusals: the job was admitted after all."""
        if (note := self._notes.get(job.key)) is not None:
            note.refusals.clear()

    def explain(self, job: Job, ahead: Refusal | None = None) -> Explanation:
        """The dominant reason (decided in a fixed order) and its sentence. `ahead`: a namespace that goes first."""
        note = self._notes.get(job.key)
        if note is None:
            return Explanation("", reasons.not_considered())
        for code in _REFUSALS_FIRST:
            for refusal in note.refusals:
                if refusal.code == code:
                    return Explanation(code, reasons.refused(refusal))
        if note.released_on:
            return Explanation(Code.WAITING_FOR_RELEASE, reasons.waiting_for_release(note.released_on))
        for code in _SAID_FIRST:
            if code in note.said:
                return Explanation(code, note.said[code])
        if ahead is not None:
            sentence = f"{reasons.refused(ahead)} {_node_level(note.histogram).message}" if note.histogram else ""
            return Explanation(ahead.code, sentence)
        why = _node_level(note.histogram) if note.histogram is not None else None
        needed = job.min_available - job.ready_count
        if note.found and needed > note.found:
            sentence = reasons.gang_short(note.found, needed, len(job.tasks), why.message if why else "")
            return Explanation(Code.GANG_SHORT, sentence)
        if why is not None:
            return why
        for refusal in note.refusals:
            return Explanation(refusal.code, reasons.refused(refusal))
        return Explanation("", reasons.not_considered())


_REFUSALS_FIRST = (
    Code.QUEUE_CLOSED,
    Code.NOT_ENOUGH_PODS,
    Code.QUEUE_OVER_QUOTA,
    Code.QUEUE_OVER_DESERVED,
)

_SAID_FIRST = (Code.BIND_REFUSED, Code.CONDITIONALLY_READY, Code.STARVING_RESERVED)


def _node_level(histogram: Histogram) -> Explanation:
    by_code: dict[str, int] = {}
    for (code, _), number in histogram.counts.items():
        by_code[code] = by_code.get(code, 0) + number
    sentence = reasons.no_node(histogram.nodes, [(text, n) for (_, text), n in histogram.counts.items()])
    if not by_code:
        return Explanation(Code.INSUFFICIENT_NODE, sentence)
    dominant = min(by_code, key=lambda code: (-by_code[code], _rank(code), code))
    return Explanation(dominant, sentence)


def _rank(code: str) -> int:
    order = reasons.DOMINANT_AT_A_TIE
    return order.index(code) if code in order else len(order)
