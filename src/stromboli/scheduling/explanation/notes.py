"""Why jobs wait, recorded by the code that decides.

Actions take notes while they work: a queue refused, a pod found no node. A note has no numbers of its own. What an
action saw was a trial: half a gang was placed, other gangs had tentative places. The numbers that users read are those
of the cluster at the end of the cycle and of the whole gang; `conclusion` computes them then.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.cluster import UNOFFERED_NAME, Job, JobKey, Task
from stromboli.scheduling.callbacks import Refusal

from .reasons import Code


@dataclass(slots=True)
class JobNote:
    refusals: list[Refusal] = field(default_factory=list)  # by queues, admission, validity
    blocked: Task | None = None  # the first task that found no node in the last attempt
    said: dict[str, str] = field(default_factory=dict)  # sentences of features, by code
    never: str = ""  # a sentence, if the job cannot start as it is; users read it first

    def refused_by(self, code: str) -> bool:
        return any(refusal.code == code for refusal in self.refusals)

    def copy(self) -> JobNote:
        return JobNote(list(self.refusals), self.blocked, dict(self.said), self.never)


class Notes:
    """The notes of a session, by job."""

    def __init__(self) -> None:
        self._notes: dict[JobKey, JobNote] = {}

    def of(self, job: Job) -> JobNote:
        note = self._notes.get(job.key)
        if note is None:
            note = self._notes[job.key] = JobNote()
        return note

    def known(self, job: Job) -> JobNote | None:
        """The note of a job; None if no action took one."""
        return self._notes.get(job.key)

    def attempt(self, job: Job) -> JobNote:
        """A new note: the results of earlier attempts in this cycle are dropped, refusals are kept."""
        before = self.of(job)
        note = self._notes[job.key] = JobNote(refusals=list(before.refusals))
        return note

    def refuse(self, job: Job, refusal: Refusal) -> None:
        note = self.of(job)
        if refusal.resource == UNOFFERED_NAME and (first := job.first_unoffered) is not None:
            # Whatever limit was looked at, there is none of it; and the numbers were those of all such resources.
            refusal = Refusal(Code.INSUFFICIENT_NODE, resource=first[0], need=first[1])
        if refusal not in note.refusals:
            note.refusals.append(refusal)

    def refused(self, job: Job) -> bool:
        note = self._notes.get(job.key)
        return note is not None and bool(note.refusals)

    def recall(self, job: Job, note: JobNote) -> None:
        """Restore the note from before an attempt that does not count."""
        self._notes[job.key] = note

    def pardon(self, job: Job) -> None:
        """Drop the refusals: the job was admitted after all."""
        if (note := self._notes.get(job.key)) is not None:
            note.refusals.clear()
