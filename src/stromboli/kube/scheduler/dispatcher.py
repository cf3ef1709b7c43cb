"""Turns the decisions of a cycle into writes: binds and evictions go to the binder at once, statuses to the status
writer, which takes its time, reservations to their own writer, and what only people read to the event recorder.

A decision whose object our code fails on is charged to that object, and all others are carried out: see
`take_errors`.

Some binds wait for a write. A pod is listed by the Reservation that it uses, and by no other, before it is bound. And
nobody is bound to a node where a Reservation gives way until that is written: otherwise the next leader would count on
the same room for the pods of the Reservation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from stromboli.api import (
    KObject,
    ObjectReference,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    group_name_of,
    is_marked_lent,
    key,
    names,
)
from stromboli.api.reservations import AVAILABLE, user_reference
from stromboli.cluster import (
    BindFailed,
    Cluster,
    ClusterEvent,
    EvictFailed,
    JobKey,
    ReservationWriteFailed,
    TaskKey,
    UngateFailed,
)
from stromboli.containment import ContainedError, ObjectRef, contained_error
from stromboli.kube.runtime import EventRecorder, Log
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
)
from stromboli.scheduling.explanation import reserved_node_reasons

from .binder import Binder, BindRequest, EvictRequest, Request
from .gate_writer import GateWriter
from .reservation_writer import ReservationWriter
from .status_writer import StatusWriter
from .volume_writer import VolumeWriter

_log = Log("dispatcher")

_NOT_WRITTEN: Final = "it could not be written which Reservation the pod uses, or which one gives way on its node"
_DRAIN_TIMEOUT: Final = 10.0  # seconds, before a stop, for what is in flight


@dataclass(frozen=True, slots=True)
class TargetedDecision:
    """A decision and the object that it is about, as it was when the decision was taken. Another object may have the
    name by the time the decision is carried out, but never the uid."""

    decision: Decision
    target: KObject | None


def resolve_targets(decisions: Iterable[Decision], cluster: Cluster) -> list[TargetedDecision]:
    """Call before the next event is applied to the cluster."""
    return [TargetedDecision(decision, _target(decision, cluster)) for decision in decisions]


def _target(decision: Decision, cluster: Cluster) -> KObject | None:
    match decision:
        case Bind() | Evict() | Ungate() | PatchPod():
            return _pod(cluster, decision.task)
        case PatchGroup():
            return _group(cluster, decision.job)
        case PatchQueue():
            queue = cluster.queues.get(decision.queue)
            return None if queue is None else queue.object
        case Unreserve() | PatchReservation() | DropUsers():
            known = cluster.reservations.get(decision.reservation)
            return known or _withdrawn(cluster, "Reservation", decision.reservation)
        case SelectNode() | UnselectNode():
            return cluster.volumes.claims.get(decision.claim)
        case ClaimVolume() | UnclaimVolume():
            return cluster.volumes.volumes.get(decision.volume)
        case Notice(kind="Pod"):
            return _pod(cluster, TaskKey(decision.key))
        case Notice(kind="PodGroup"):
            return _group(cluster, JobKey(decision.key))
        case Notice(kind="Reservation"):
            return cluster.reservations.get(decision.key) or _withdrawn(cluster, "Reservation", decision.key)
        case Notice(kind="Queue"):
            return _withdrawn(cluster, "Queue", decision.key)
        case Notice(kind="ResourceQuota"):
            return cluster.quotas.get(decision.key)
        case _:
            return None


def _pod(cluster: Cluster, task_key: TaskKey) -> Pod | None:
    task = cluster.tasks.get(task_key)
    return None if task is None else task.pod


def _group(cluster: Cluster, job_key: JobKey) -> PodGroup | None:
    job = cluster.jobs.get(job_key)
    if job_key in cluster.upstream.groups:  # also those that are no job of their own
        return cluster.upstream.groups[job_key]
    if job is not None and job.object is not None:
        return job.object
    withdrawn = _withdrawn(cluster, "PodGroup", job_key)
    return withdrawn if isinstance(withdrawn, PodGroup) else None


def _withdrawn(cluster: Cluster, kind: str, name: str) -> KObject | None:
    """An object that is put aside: what is said about it is written all the same."""
    found = cluster.put_aside.get(ObjectRef(kind, name))
    return None if found is None else found.object


def _annotations(bind: Bind, pod: KObject) -> dict[str, str]:
    """What a pod gets with its bind, for people: the Reservation that it uses. Who uses which is in the status of
    Reservations. An annotation of an earlier life is emptied."""
    if bind.reservation or names.RESERVATION_ALLOCATED in pod.metadata.annotations:
        return {names.RESERVATION_ALLOCATED: bind.reservation}
    return {}


def _bind_request(bind: Bind, pod: KObject) -> BindRequest:
    changes = isinstance(pod, Pod) and is_marked_lent(pod) != bind.backfill
    return BindRequest(bind.task, pod.metadata.uid, bind.node, bind.backfill, changes, _annotations(bind, pod))


def _keep(writes: dict[str, list[asyncio.Task[bool]]], key: str, write: asyncio.Task[bool]) -> None:
    """Until it is done."""

    def done(_: object) -> None:
        writes[key].remove(write)
        if not writes[key]:
            del writes[key]

    writes.setdefault(key, []).append(write)
    write.add_done_callback(done)


def _failure(decision: Decision) -> ClusterEvent | None:
    """What tells the ledger that a decision is not carried out."""
    match decision:
        case Bind() | SelectNode() | ClaimVolume():
            return BindFailed(decision.task)
        case Evict():
            return EvictFailed(decision.task)
        case Ungate():
            return UngateFailed(decision.task)
        case Unreserve() | PatchReservation() | DropUsers():
            return ReservationWriteFailed(decision.reservation)
        case _:
            return None


def _charged(target: KObject) -> ObjectRef:
    """Who is put aside: the job of a pod."""
    if isinstance(target, Pod) and (group := group_name_of(target)):
        return ObjectRef("PodGroup", f"{target.metadata.namespace}/{group}")
    return ObjectRef(target.kind, key(target))


@dataclass(slots=True)
class _Requests:
    """What is sent when all decisions have been looked at."""

    to_bind: list[Request] = field(default_factory=list)
    uses: dict[tuple[str, str], list[ObjectReference]] = field(default_factory=dict)
    """By Reservation and node: those who use it there."""
    drops: list[DropUsers] = field(default_factory=list)


class Dispatcher:
    def __init__(
        self,
        *,
        binder: Binder,
        status_writer: StatusWriter,
        reservations: ReservationWriter,
        volumes: VolumeWriter,
        gates: GateWriter,
        recorder: EventRecorder,
        report: Callable[[ClusterEvent], None],
    ) -> None:
        """`report` gets what could not be carried out, for the scheduler."""
        self._binder = binder
        self._status_writer = status_writer
        self._reservations = reservations
        self._volumes = volumes
        self._gates = gates
        self._recorder = recorder
        self._report = report
        self._errors: list[ContainedError] = []
        self._waiting: set[asyncio.Task[None]] = set()  # binds that something else is written before
        # What is being written: by uid, lists that lose a pod; by node, Reservations that give way there.
        self._removals: dict[str, list[asyncio.Task[bool]]] = {}
        self._giving_way: dict[str, list[asyncio.Task[bool]]] = {}

    def dispatch(self, decisions: Iterable[TargetedDecision]) -> None:
        """Start all writes, in the order decided, without waiting for any."""
        found = _Requests()
        for entry in decisions:
            try:
                self._dispatch(entry.decision, entry.target, found)
            except Exception as error:
                self._fail(entry, error)
        requests = found.to_bind
        before = self._write_users(found.drops, found.uses)
        self._add_writes_under_way(requests, before)
        self._binder.submit([request for request in requests if request.uid not in before])
        self._submit_later([request for request in requests if request.uid in before], before)

    def take_errors(self) -> list[ContainedError]:
        """What went wrong since the last call, by object; these decisions were not carried out."""
        errors, self._errors = self._errors, []
        return errors

    def _fail(self, entry: TargetedDecision, error: Exception) -> None:
        if entry.target is None:
            raise error
        self._errors.append(contained_error(error, _charged(entry.target)))
        failure = _failure(entry.decision)
        if failure is not None:
            self._report(failure)

    def _dispatch(self, decision: Decision, target: KObject | None, found: _Requests) -> None:
        match decision:
            case Bind() as bind if target is not None:
                self._status_writer.cancel_pod(bind.task)
                if bind.reservation:
                    place = (bind.reservation, bind.node)
                    found.uses.setdefault(place, []).append(user_reference(target.metadata))
                found.to_bind.append(_bind_request(bind, target))
            case Evict() as evict if target is not None:
                found.to_bind.append(
                    EvictRequest(evict.task, target.metadata.uid, evict.node, evict.reason, evict.message)
                )
            case Reserve() as reserve:
                self._reservations.create(reserve.reservation)
                self._record_for_owner(reserve.reservation, "Reserved", reserved_node_reasons.reserved(reserve.node))
            case Unreserve() as unreserve if isinstance(target, Reservation):
                self._reservations.delete(target)
                sentence = reserved_node_reasons.unreserved(unreserve.node, unreserve.reason)
                self._record_for_owner(target, "Unreserved", sentence)
            case PatchReservation() as patch if isinstance(target, Reservation):
                self._write_reservation(patch, target)
            case DropUsers() as drop:
                found.drops.append(drop)
            case SelectNode() | UnselectNode() | ClaimVolume() | UnclaimVolume() as change if target is not None:
                self._volumes.write(change, target)
            case Ungate() as ungate if isinstance(target, Pod):
                self._gates.write(ungate, target)
            case PatchPod() as patch if isinstance(target, Pod):
                self._status_writer.write_pod(patch, target)
            case PatchGroup() as patch if isinstance(target, PodGroup):
                self._status_writer.write_group(patch, target)
            case PatchQueue() as patch if isinstance(target, Queue):
                self._status_writer.write_queue(patch, target)
            case Notice() as notice if target is not None:
                self._record(target, notice.reason, notice.message, warning=notice.warning)
            case _:
                pass  # the object was deleted in the meantime

    def _write_reservation(self, patch: PatchReservation, target: Reservation) -> None:
        if (patch.phase, patch.node) == (target.status.phase, target.status.node_name):
            self._status_writer.write_reservation(patch, target)
        else:
            gives_way = target.status.phase == AVAILABLE != patch.phase
            written = self._reservations.write(patch, target, after=self._giving_way.get(patch.node, ()))
            if gives_way:
                _keep(self._giving_way, target.status.node_name, written)
            said = patch.conditions[-1]
            self._record(target, patch.phase, said.message or patch.conditions[0].message)

    def _write_users(
        self, drops: list[DropUsers], uses: dict[tuple[str, str], list[ObjectReference]]
    ) -> dict[str, list[asyncio.Task[bool]]]:
        """By the UID of a pod: what is written before its bind."""
        before: dict[str, list[asyncio.Task[bool]]] = {}
        for drop in drops:
            written = self._reservations.drop_users(drop)
            for user in drop.pods:
                _keep(self._removals, user.uid, written)
        for (reservation, node), users in uses.items():
            name, _, uid = reservation.partition("/")
            written = self._reservations.list_users(name, uid, node, users)
            for user in users:
                before.setdefault(user.uid, []).append(written)
        return before

    def _add_writes_under_way(self, requests: Iterable[Request], before: dict[str, list[asyncio.Task[bool]]]) -> None:
        """What earlier cycles have sent that concerns these pods, or their nodes."""
        for request in requests:
            if isinstance(request, BindRequest):
                first = [*self._removals.get(request.uid, ()), *self._giving_way.get(request.node, ())]
                if first:
                    before[request.uid] = [*before.get(request.uid, ()), *first]

    def _submit_later(self, requests: list[Request], before: dict[str, list[asyncio.Task[bool]]]) -> None:
        """Send these when what comes before them is written. What is written at once is sent at once."""
        together: dict[tuple[asyncio.Task[bool], ...], list[Request]] = {}
        for request in requests:
            together.setdefault(tuple(before[request.uid]), []).append(request)
        for writes, waiting in together.items():
            task = asyncio.create_task(self._binder.submit_after(writes, waiting, _NOT_WRITTEN))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def drain(self) -> None:
        """Before an orderly stop: finish what is in flight, and report what could not be sent in time as failed."""
        try:
            async with asyncio.timeout(_DRAIN_TIMEOUT):
                await self._binder.wait_idle()
                await self._reservations.wait_idle()
                await self._volumes.wait_idle()
                await self._gates.wait_idle()
                await self._status_writer.flush()
                await self._recorder.flush()
        except TimeoutError:
            _log.warning("some writes did not finish in time", binds=self._binder.outstanding)
            self._binder.cancel_queued("the scheduler stops")

    async def cancel(self) -> None:
        """Do not wait for what is still in flight."""
        for task in list(self._waiting):
            task.cancel()
        await self._reservations.cancel()
        await self._volumes.cancel()
        await self._gates.cancel()

    def _record_for_owner(self, reservation: Reservation, reason: str, message: str) -> None:
        """Record an event about the pod that a reservation is for. The pod itself may be gone."""
        for owner in reservation.spec.owners:
            pod = owner.object
            if pod is not None and pod.kind == "Pod":
                self._recorder.record(Pod, f"{pod.namespace}/{pod.name}", pod.uid, reason, message)

    def _record(self, target: KObject, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.record(type(target), key(target), target.metadata.uid, reason, message, warning=warning)
