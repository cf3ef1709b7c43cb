"""Writes what controllers and the scheduler decide to the objects and the journal."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from stromboli.api import (
    ApiError,
    KObject,
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    key,
    names,
    without_queue_gate,
)
from stromboli.api.reservations import is_user, user_reference, with_users, without_users
from stromboli.api.upstream import UpstreamGroup, with_status
from stromboli.api.volumes.claims import is_bound, is_for, is_free, reference_to
from stromboli.cluster import BindFailed
from stromboli.controllers import Change, Create, Delete, Notify, Update
from stromboli.scheduling.decisions import (
    Bind,
    ClaimVolume,
    Decision,
    DropUsers,
    Evict,
    Notice,
    PatchGroup,
    PatchPod,
    PatchQueue,
    PatchReservation,
    Reserve,
    SelectNode,
    UnclaimVolume,
    Ungate,
    Unreserve,
    UnselectNode,
    VolumeDecision,
)

from .journal import EVENT_TYPES, REFUSED, Journal
from .store import Conflict
from .virtual_time import Microseconds, timestamp, wall_clock
from .world import World


class ObjectWriter:
    def __init__(self, world: World, journal: Journal) -> None:
        self._world = world
        self._journal = journal
        self.last_changed = ""  # the object that a controller changed last

    def apply_change(self, change: Change, at: Microseconds) -> None:
        obj = change.object
        before = self._world.store.version
        match change:
            case Create():
                self._world.create(obj, at)
            case Update():
                self._put(obj, at)
            case Delete():
                self._world.delete(obj, at, change.reason)
            case Notify():
                self._record_event(
                    at, key(obj), change.reason, change.message, warning=change.warning, nodes=change.nodes
                )
        if self._world.store.version != before:
            self.last_changed = f"{obj.kind} {key(obj)}"

    def _put(self, obj: KObject, at: Microseconds) -> None:
        try:
            self._world.change(obj, at)
        except Conflict:
            pass  # another change came first; the component sees the new version in its next pass and decides again
        except ApiError as error:
            self._journal.warn(at, key(obj), REFUSED, str(error))

    def carry_out(self, decision: Decision, at: Microseconds) -> BindFailed | None:
        """What became of it, for the scheduler, if it failed."""
        store = self._world.store
        match decision:
            case Bind():
                pod = store.get(Pod, decision.task)
                if pod is not None:
                    self._bind(pod, decision, at)
            case Evict():
                pod = store.get(Pod, decision.task)
                if pod is not None:
                    self._world.evict(pod, at, decision.reason, decision.message)
            case Reserve():
                self._journal.write(at, "Reserved", decision.task, node=decision.node)
                self._journal.groups.reserved_for(self._journal.pods[decision.task].podGroup)
                self._world.create(decision.reservation, at)
            case Unreserve():
                self._journal.write(at, "Unreserved", decision.task, node=decision.node, message=decision.reason)
                reservation = store.get(Reservation, decision.reservation)
                if reservation is not None:
                    self._world.delete(reservation, at)
            case PatchReservation() | DropUsers():
                reservation = store.get(Reservation, decision.reservation)
                if reservation is not None and reservation.metadata.uid == decision.uid:
                    self._change_reservation(reservation, decision, at)
            case Ungate():
                self._ungate(decision, at)
            case PatchPod():
                pod = store.get(Pod, decision.task)
                if pod is not None and not pod.spec.node_name:
                    self._world.explain(pod, decision, at)
            case PatchGroup():
                self._patch_group(decision, at)
            case PatchQueue():
                queue = store.get(Queue, decision.queue)
                if queue is not None:
                    self._put(decision.applied_to(queue), at)
            case SelectNode() | UnselectNode() | ClaimVolume() | UnclaimVolume():
                return _carry_out_volume(self._world, decision, at)
            case Notice():
                self._record_event(at, decision.key, decision.reason, decision.message, warning=decision.warning)
        return None

    def _ungate(self, decision: Ungate, at: Microseconds) -> None:
        pod = self._world.store.get(Pod, decision.task)
        if pod is not None:
            self._put(without_queue_gate(pod), at)
            message = f"Queue {decision.queue} has room for the pod."
            self._journal.write(at, "Ungated", decision.task, message=message)

    def _patch_group(self, decision: PatchGroup, at: Microseconds) -> None:
        group = self._world.store.get(PodGroup, decision.job)
        if group is None:
            return
        patched = decision.applied_to(group)
        if isinstance(group, UpstreamGroup):  # it has this in other words
            patched = with_status(group, patched.status, timestamp(at))
        self._put(patched, at)

    def _change_reservation(
        self, reservation: Reservation, decision: PatchReservation | DropUsers, at: Microseconds
    ) -> None:
        if isinstance(decision, PatchReservation):
            self._put(decision.applied_to(reservation), at)
            if decision.event:
                self._journal.warn(at, decision.reservation, decision.event, decision.conditions[-1].message)
            return
        store = self._world.store
        gone = {user.uid for user in decision.pods}
        for user in decision.unseen:
            if not is_user(store.get(Pod, f"{user.namespace}/{user.name}"), user):
                gone.add(user.uid)
        self._put(without_users(reservation, gone), at)

    def _bind(self, pod: Pod, bind: Bind, at: Microseconds) -> None:
        if pod.spec.node_name:
            return
        name, _, uid = bind.reservation.partition("/")
        reservation = self._world.store.get(Reservation, name) if name else None
        if reservation is not None and reservation.metadata.uid == uid:  # listed before the bind, as on a cluster
            self._put(with_users(reservation, bind.node, [user_reference(pod.metadata)]), at)
        self._world.bind(pod, bind.node, at, backfill=bind.backfill, uses=bind.reservation)

    def _record_event(
        self, at: Microseconds, subject: str, reason: str, message: str, *, warning: bool, nodes: Sequence[str] = ()
    ) -> None:
        """Record warnings and the event types of the output format; other notifications are dropped. One about several
        nodes is one event for each."""
        if warning:
            self._journal.warn(at, subject, reason, message)
        elif reason in EVENT_TYPES:
            for node in nodes or ("",):
                self._journal.write(at, reason, subject, node=node, message=message)


def _carry_out_volume(world: World, decision: VolumeDecision, at: Microseconds) -> BindFailed | None:
    """What became of it, if it failed."""
    claim = world.store.get(PersistentVolumeClaim, decision.claim)
    match decision:
        case SelectNode():
            if claim is None:
                return BindFailed(decision.task)
            selected = {names.SELECTED_NODE: decision.node, names.SELECTED_AT: decision.at}
            _annotate(world, claim, claim.metadata.annotations | selected, at)
        case UnselectNode() if claim is not None and not is_bound(claim):
            kept = {
                name: value
                for name, value in claim.metadata.annotations.items()
                if name not in (names.SELECTED_NODE, names.SELECTED_AT)
            }
            _annotate(world, claim, kept, at)
        case ClaimVolume():
            volume = world.store.get(PersistentVolume, decision.volume)
            if claim is None or volume is None or not is_free(volume):
                why = f"volume {decision.volume} is not free"
                return BindFailed(decision.task, decision.node, why, wall_clock(at), by_volumes=True)
            world.change(replace(volume, spec=replace(volume.spec, claim_ref=reference_to(claim))), at)
        case UnclaimVolume():
            volume = world.store.get(PersistentVolume, decision.volume)
            if volume is not None and claim is not None and is_for(volume, claim) and not is_bound(claim):
                world.change(replace(volume, spec=replace(volume.spec, claim_ref=None)), at)
        case _:
            pass  # the claim is gone or bound by now
    return None


def _annotate(world: World, claim: PersistentVolumeClaim, annotations: dict[str, str], at: Microseconds) -> None:
    world.change(replace(claim, metadata=replace(claim.metadata, annotations=annotations)), at)
