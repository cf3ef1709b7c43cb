"""The task that is placed for a Reservation.

A Reservation gets its node as a pod made from its template would: by the same filters, in a queue, with a priority. So
a task stands for it, in a job of its own, until it holds its resources. No pod is ever created for it.
"""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec
from stromboli.api import Reservation as ReservationObject
from stromboli.api.reservations import namespace_of, pinned_node
from stromboli.cluster.model import Job, JobKey, Queue, Shape, Task, TaskKey
from stromboli.cluster.object_fields import creation_time
from stromboli.cluster.resources import Vector


def stand_in_pod(reservation: ReservationObject) -> Pod:
    """The pod that would be created from the template, on the node that the Reservation names, if it names one."""
    template = reservation.spec.template
    assert template is not None
    meta = reservation.metadata
    pod_meta = replace(
        template.metadata, name=meta.name, namespace=namespace_of(reservation), uid=meta.uid,
        creation_timestamp=meta.creation_timestamp,
    )  # fmt: skip
    spec = replace(template.spec, node_name="", scheduling_gates=[])
    node = pinned_node(reservation)
    return Pod(metadata=pod_meta, spec=_pinned(spec, node) if node else spec)


def stand_in(
    reservation: ReservationObject, pod: Pod, shape: Shape, queue: Queue, nothing: Vector, nominated: str
) -> Job:
    """A job with one task. Names of pods and groups have a slash, so the key is nobody else's."""
    name = reservation.metadata.name
    key = f"reservation:{name}"
    created = creation_time(reservation)
    job = Job(
        JobKey(key), name, pod.metadata.namespace, queue, nothing, created=created, phase="Inqueue", stands_for=name
    )
    task = Task(
        key=TaskKey(key), name=name, namespace=job.namespace, uid=reservation.metadata.uid, pod=pod, shape=shape,
        job=job, priority=0, role="", index=-1, created=created, preemptable=True, may_preempt=False, gated=False,
        backfill=False, nominated=nominated, stands_for=name,
    )  # fmt: skip
    job.tasks[task.key] = task
    return job


def _pinned(spec: PodSpec, node: str) -> PodSpec:
    """With an affinity to one node, beside those that it has."""
    here = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
    affinity = spec.affinity or Affinity()
    node_affinity = affinity.node_affinity or NodeAffinity()
    required = node_affinity.required_during_scheduling_ignored_during_execution
    terms = [NodeSelectorTerm()] if required is None else required.node_selector_terms
    pinned = NodeSelector(
        node_selector_terms=[replace(term, match_fields=[*term.match_fields, here]) for term in terms]
    )
    wanted = replace(node_affinity, required_during_scheduling_ignored_during_execution=pinned)
    return replace(spec, affinity=replace(affinity, node_affinity=wanted))
