"""Admission of jobs that Reservations are held for.

What a Reservation holds counts as used, in its queue and in the cluster. For a job whose pods will use it, it is room.
The pods of a Job are created only after its admission, so the Job controller writes into the PodGroup what labels they
will have (`names.POD_LABELS`); the group's own owner is the Job.
"""

from __future__ import annotations

from collections.abc import Collection

import msgspec
import numpy as np

from stromboli import plain_json
from stromboli.api import ObjectMeta, Pod, names
from stromboli.cluster import PODS, Job, JobKey, Vector
from stromboli.cluster.resources import add_to
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import AdmissionPromises

from .matches import Matches


class HeldForJobs:
    """What Reservations hold for the pods of jobs that were admitted and do not use it yet, and what they still hold
    for others. The former counts twice, as held and as promised to the job, so it is given back to everybody."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._matches = session.state(Matches)
        self._promises = session.state(AdmissionPromises)
        self._jobs: list[Job] = []  # that were admitted, as of the last look
        self._seen = 0  # how many of them have their part
        self._epoch = -1
        self._usable: dict[JobKey, list[str]] = {}
        self._left: dict[str, Vector] = {}  # by Reservation: what is held for nobody of them
        # What is held for them, by the queue that is charged for it and the queue of the job.
        self._taken: dict[tuple[str, str], Vector] = {}

    def credit(self, job: Job, queues: Collection[str] | None) -> Vector | None:
        """What counts as used, in these queues or in all of them, and is there for the job or counts twice."""
        if not self._matches or job.min_resources is None:
            return None
        self._look()
        parts = [
            self._left[name]
            for name in self._usable_by(job)
            if name in self._left and (queues is None or self._charged(name) in queues)
        ]
        parts += [taken for pair, taken in self._taken.items() if queues is None or all(q in queues for q in pair)]
        if not parts:
            return None
        credit = sum(parts, start=self._session.axis.zeros())
        credit[PODS] = 0
        return credit

    def _look(self) -> None:
        """Give those that were admitted since the last look their part."""
        jobs, ledger = self._promises.awaited(), self._session.ledger
        if jobs is not self._jobs or self._epoch != ledger.held_epoch:
            self._jobs, self._seen, self._epoch = jobs, 0, ledger.held_epoch
            self._left = {name: held.remainder.copy() for name, held in ledger.holdings.items()}
            self._taken = {}
        for job in jobs[self._seen :]:
            needs = self._promises.missing(job).copy()
            for name in self._usable_by(job) if needs.any() else ():
                part = np.minimum(self._left.get(name, 0), needs)
                if part.any():
                    self._left[name] -= part
                    needs -= part
                    add_to(self._taken, (self._charged(name), job.queue.name), part)
        self._seen = len(jobs)

    def _charged(self, name: str) -> str:
        """The queue that is charged for a Reservation; "" if none is."""
        queue = self._session.ledger.holdings[name].queue
        return "" if queue is None else queue.name

    def _usable_by(self, job: Job) -> list[str]:
        """The Reservations that pods of a job may use, by name. They are the same all through a session."""
        known = self._usable.get(job.key)
        if known is None:
            known = self._usable[job.key] = self._find(job)
        return known

    def _find(self, job: Job) -> list[str]:
        if job.tasks:
            sets = {id(one): one for one in map(self._matches.of, job.tasks.values())}
            return sorted({usable.name for one in sets.values() for usable in one.usable})
        expected = _expected_pods(job)
        return sorted({usable.name for pod in expected for usable in self._matches.for_pod(pod, job).usable})


def _expected_pods(job: Job) -> list[Pod]:
    """One for each set of labels that the pods of a job will have."""
    if job.object is None:
        return []
    group = job.object.metadata
    try:
        labels = plain_json.decode(group.annotations.get(names.POD_LABELS, "[]"), list[dict[str, str]])
    except msgspec.DecodeError:
        labels = []
    owner = next((reference.name for reference in group.owner_references if reference.kind == "Job"), "")
    identity = {names.JOB_NAME: owner, names.JOB_NAMESPACE: job.namespace, names.JOB_QUEUE: job.queue.name}
    return [
        Pod(
            metadata=ObjectMeta(
                namespace=job.namespace, labels={**one, **identity}, owner_references=group.owner_references
            )
        )
        for one in labels or [{}]
    ]
