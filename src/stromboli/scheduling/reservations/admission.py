"""Admission of jobs that Reservations are held for.

What a Reservation holds counts as used, in its queue and in the cluster. For a job whose pods will use it, it is room.
The pods of a Job are created only after its admission, so the Job controller writes into the PodGroup what labels they
will have (`names.POD_LABELS`); the group's own owner is the Job.
"""

from __future__ import annotations

import msgspec

from stromboli.api import ObjectMeta, Pod, names
from stromboli.cluster import PODS, Job, Vector
from stromboli.scheduling.session import Session

from .matches import Matches

_decode = msgspec.json.Decoder(list[dict[str, str]]).decode


def admission_credit(session: Session, job: Job) -> Vector | None:
    """What is held for the pods of a job; None if nothing is."""
    matches = session.state(Matches)
    if not matches or job.min_resources is None:
        return None
    if job.tasks:
        sets = {id(one): one for one in map(matches.of, job.tasks.values())}
        found = {usable.name for one in sets.values() for usable in one.usable}
    else:
        found = {usable.name for pod in _expected_pods(job) for usable in matches.for_pod(pod, job.queue.name)}
    if not found:
        return None
    holdings = session.ledger.holdings
    credit = sum((holdings[name].remainder for name in found if name in holdings), start=session.axis.zeros())
    credit[PODS] = 0
    return credit


def _expected_pods(job: Job) -> list[Pod]:
    """One for each set of labels that the pods of a job will have."""
    if job.object is None:
        return []
    group = job.object.metadata
    try:
        labels = _decode(group.annotations.get(names.POD_LABELS, "[]"))
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
