"""Migration reservations: a place that is kept for the successor of a pod that is moved.

There is one Reservation per move. It is pinned to the target node, used once, and open to pods of the same controller;
where a successor has the name of the pod that leaves, only to that one. `spec.replaces` names the pod that leaves,
`status.evictionTime` says that it is evicted, and annotations hold the rest, so the Reservation tells everything about
the move. A descheduler that is killed at any moment finds on its next start how far each move is.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from . import names
from .kinds.batch import PodGroup, Reservation, ReservationController, ReservationOwner, ReservationSpec
from .kinds.metadata import ObjectMeta, ObjectReference, OwnerReference
from .kinds.pods import Pod, PodTemplateSpec
from .pod_annotations import is_backfill
from .timestamps import format_timestamp, parse_timestamp

MIGRATION_TTL = 1800.0
"""Seconds that the place is kept: from its creation, and, once the pod is evicted, from the eviction."""

_VOLCANO_JOBS = "batch.volcano.sh/"
_COPIED = (*names.GROUP_NAMES, names.QUEUE_NAME, names.TASK_SPEC, names.TASK_PRIORITY)


@dataclass(frozen=True, slots=True)
class Migration:
    """A move, as its Reservation tells it."""

    reservation: Reservation
    pod: str  # "namespace/name" of the pod that leaves
    uid: str
    source: str
    plan: str  # all moves of a plan are made, or none
    moves: int  # how many moves the plan has
    job: str = ""  # the group ("namespace/name") that the plan makes room for
    cooldown: float = 0.0  # seconds that both nodes and the group rest afterwards
    evicting_since: float | None = None  # when the eviction was decided; from then on the place is kept

    @property
    def target(self) -> str:
        return self.reservation.spec.node_name or self.reservation.status.node_name

    @property
    def group(self) -> str:
        """The key of the group of the pod; "" if it has none."""
        template = self.reservation.spec.template
        annotations = {} if template is None else template.metadata.annotations
        name = next((annotations[known] for known in names.GROUP_NAMES if annotations.get(known)), "")
        return f"{self.pod.partition('/')[0]}/{name}" if name else ""


def migration_name(pod: Pod) -> str:
    return f"migration-{pod.metadata.uid}"


def migration_reservation(
    pod: Pod, group: PodGroup | None, target: str, *, plan: str, moves: int, job: str, cooldown: float
) -> Reservation:
    """The object that keeps a place on `target` for the successor of a pod."""
    meta = pod.metadata
    annotations = {
        names.MIGRATION_SOURCE: pod.spec.node_name,
        names.MIGRATION_PLAN: plan,
        names.MIGRATION_MOVES: str(moves),
        names.MIGRATION_COOLDOWN: f"{cooldown:g}",
    }
    if job:
        annotations[names.MIGRATION_FOR] = job
    if is_backfill(pod):
        annotations[names.BACKFILL] = "true"
    copied = {name: meta.annotations[name] for name in _COPIED if name in meta.annotations}
    queue = meta.annotations.get(names.QUEUE_NAME, names.DEFAULT_QUEUE) if group is None else group.spec.queue
    return Reservation(
        metadata=ObjectMeta(name=migration_name(pod), annotations=annotations),
        spec=ReservationSpec(
            template=PodTemplateSpec(
                metadata=ObjectMeta(namespace=meta.namespace, labels=dict(meta.labels), annotations=copied),
                spec=replace(pod.spec, node_name=""),
            ),
            owners=[_owner_of(pod)],
            ttl=f"{MIGRATION_TTL:g}s",
            allocate_once=True,
            queue=queue or names.DEFAULT_QUEUE,
            node_name=target,
            replaces=ObjectReference(
                api_version="v1", kind="Pod", namespace=meta.namespace, name=meta.name, uid=meta.uid
            ),
        ),
    )


def migration_of(reservation: Reservation) -> Migration | None:
    """The move that a Reservation is for; None for any other Reservation."""
    replaced, notes = reservation.spec.replaces, reservation.metadata.annotations
    if replaced is None or names.MIGRATION_PLAN not in notes:
        return None
    since = reservation.status.eviction_time
    return Migration(
        reservation,
        pod=f"{replaced.namespace}/{replaced.name}",
        uid=replaced.uid,
        source=notes.get(names.MIGRATION_SOURCE, ""),
        plan=notes[names.MIGRATION_PLAN],
        moves=_whole(notes.get(names.MIGRATION_MOVES, "1")),
        job=notes.get(names.MIGRATION_FOR, ""),
        cooldown=_number(notes.get(names.MIGRATION_COOLDOWN, "0")),
        evicting_since=None if not since else parse_timestamp(since),
    )


def is_lent(reservation: Reservation) -> bool:
    """Whether the pod that leaves runs on lent resources; then its successor does, too."""
    return reservation.metadata.annotations.get(names.BACKFILL) == "true"


def with_eviction(reservation: Reservation, now: float) -> Reservation:
    """The Reservation once its pod is about to be evicted: its time to live counts from now on."""
    return replace(reservation, status=replace(reservation.status, eviction_time=format_timestamp(now)))


def controlling_owner(pod: Pod) -> OwnerReference | None:
    """The owner that replaces the pod when it is gone. A set adopts pods that name it without the mark."""
    references = pod.metadata.owner_references
    for reference in references:
        if reference.controller:
            return reference
    return next((reference for reference in references if reference.kind in ("ReplicaSet", "StatefulSet")), None)


def _owner_of(pod: Pod) -> ReservationOwner:
    """The successor: a pod of the same controller; where those have fixed names, the one of the same name. Otherwise
    one pod of a Job could take the place of another, which may request more, or need that node."""
    meta, controller = pod.metadata, controlling_owner(pod)
    if controller is None:
        return ReservationOwner(controller=ReservationController(kind="None", name="none", namespace=meta.namespace))
    same_name = ObjectReference(kind="Pod", namespace=meta.namespace, name=meta.name)
    return ReservationOwner(
        object=same_name if keeps_names(controller) else None,
        controller=ReservationController(
            api_version=controller.api_version, kind=controller.kind, name=controller.name, uid=controller.uid,
            namespace=meta.namespace,
        ),
    )  # fmt: skip


def keeps_names(controller: OwnerReference) -> bool:
    """Whether the successor of one of its pods has the same name."""
    if controller.kind == "StatefulSet":
        return True
    return controller.kind == "Job" and controller.api_version.startswith(_VOLCANO_JOBS)


def _whole(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() else 1


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return 0.0
