"""From what a cycle decided to what is written.

Binds and evictions go out first and by themselves (binding.py). Everything that is only read by people and controllers
is a wish (posting.py): a pod's reason to wait is written when it has held for a while, because most of them are over
before anybody could read them, and a group's phase at once only where somebody waits for it.

Reservations are objects, and the scheduler's ledger believes in them from the moment it decides: so their coming and
going is reported to it at once, and taken back if the server refuses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from stromboli.api import KObject, Pod, PodGroup, Queue, Reservation, key
from stromboli.api.quantity import format_amount
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Applied, Cluster, ClusterEvent, Deleted, JobKey, TaskKey
from stromboli.kube.client.client import Client
from stromboli.kube.client.errors import Failure, is_already_there, is_not_found
from stromboli.kube.client.lost_response import ask
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.resources import POD_GROUPS, PODS, QUEUES, RESERVATIONS
from stromboli.kube.runtime.event_recorder import Recorder
from stromboli.kube.runtime.logs import Log
from stromboli.scheduling.decisions import (
    Bind,
    Cycle,
    Decision,
    Evict,
    Notice,
    PatchGroup,
    PatchPod,
    PatchQueue,
    Reserve,
    Unreserve,
)
from stromboli.scheduling.explanation.reasons import Code

from .binder import Binding, BindOrder, EvictOrder, Fence, Order
from .status_writer import Posting, Wish

_log = Log("carrying")

SOON: Final = 1.0  # seconds until a wish is written that nobody waits for
REWORDED: Final = 5.0  # until a reason to wait is written that differs from the one there in its words and numbers
_PATIENCE: Final = 10.0  # seconds, before a stop, for what is under way


@dataclass(frozen=True, slots=True)
class Addressed:
    """A decision, and the object it is about as it stood when it was taken. A name may belong to another one by the
    time it is carried out; a uid never does."""

    decision: Decision
    about: KObject | None


def address(cycle: Cycle, cluster: Cluster) -> list[Addressed]:
    """To be called before the next event is applied."""
    return [Addressed(decision, _about(decision, cluster)) for decision in cycle.decisions]


def _about(decision: Decision, cluster: Cluster) -> KObject | None:
    match decision:
        case Bind() | Evict() | PatchPod():
            return _pod(cluster, decision.task)
        case PatchGroup():
            return _group(cluster, decision.job)
        case PatchQueue():
            queue = cluster.queues.get(decision.queue)
            return None if queue is None else queue.object
        case Unreserve():
            return cluster.reservations.get(decision.reservation)
        case Notice(kind="Pod"):
            return _pod(cluster, TaskKey(decision.key))
        case Notice(kind="PodGroup"):
            return _group(cluster, JobKey(decision.key))
        case _:
            return None


def _pod(cluster: Cluster, task_key: TaskKey) -> Pod | None:
    task = cluster.tasks.get(task_key)
    return None if task is None else task.pod


def _group(cluster: Cluster, job_key: JobKey) -> PodGroup | None:
    job = cluster.jobs.get(job_key)
    return None if job is None else job.object


class Carrier:
    def __init__(
        self,
        client: Client,
        *,
        fence: Fence,
        binding: Binding,
        posting: Posting,
        recorder: Recorder,
        reservations: TokenBucket,
        report: Callable[[ClusterEvent], None],
        note: Callable[[KObject], None],
        clock: Callable[[], float],
    ) -> None:
        """`report` takes news for the scheduler, `note` an object as the server has it after a write; `clock` tells
        the time as objects have it."""
        self._client = client
        self._fence = fence
        self._binding = binding
        self._posting = posting
        self._recorder = recorder
        self._reservations = reservations
        self._report = report
        self._note = note
        self._clock = clock
        self._under_way: set[asyncio.Task[None]] = set()
        self._last: dict[str, asyncio.Task[None]] = {}  # of them, for each reservation

    def carry_out(self, decisions: list[Addressed]) -> None:
        """Set everything in motion, in the order decided; nothing here waits."""
        orders: list[Order] = []
        for entry in decisions:
            about = entry.about
            match entry.decision:
                case Bind() as bind if about is not None:
                    self._posting.withdraw(PODS, bind.task)
                    orders.append(BindOrder(bind.task, about.metadata.uid, bind.node, bind.backfill))
                case Evict() as evict if about is not None:
                    orders.append(
                        EvictOrder(evict.task, about.metadata.uid, evict.node, evict.reason, evict.message)
                    )
                case Reserve() as reserve:
                    self._reserve(reserve)
                case Unreserve() if isinstance(about, Reservation):
                    self._unreserve(about)
                case PatchPod() as patch if isinstance(about, Pod):
                    self._explain(patch, about)
                case PatchGroup() as patch if isinstance(about, PodGroup):
                    self._describe(patch, about)
                case PatchQueue() as patch if isinstance(about, Queue):
                    self._account(patch, about)
                case Notice() as notice if about is not None:
                    self._tell(about, notice.reason, notice.message, warning=notice.warning)
                case _:
                    pass  # whom it was about has gone meanwhile
        self._binding.send(orders)

    async def finish(self) -> None:
        """Before an orderly stop: what is under way is done, what was not sent in time is given back."""
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._binding.idle()
                while self._under_way:
                    await asyncio.gather(*self._under_way)
                await self._posting.flush()
                await self._recorder.flush()
        except TimeoutError:
            _log.warning("some writes were not done in time", binds=self._binding.outstanding)
            self._binding.recall("the scheduler stops")

    async def abandon(self) -> None:
        """What is still under way is not waited for."""
        tasks = list(self._under_way)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- statuses -----------------------------------------------------------------------------------------------

    def _explain(self, patch: PatchPod, pod: Pod) -> None:
        """Autoscalers look for the reason Unschedulable and nothing else, so the code does not stand there."""
        code = Code.SCHEDULING_GATED if patch.reason == Code.SCHEDULING_GATED else "Unschedulable"
        before = next((c for c in pod.status.conditions if c.type == "PodScheduled"), None)
        since = before.last_transition_time if before is not None and before.status == "False" else None
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": code,
            "message": patch.message,
            "lastTransitionTime": since or format_timestamp(int(self._clock())),
        }
        status: dict[str, Any] = {"conditions": [condition]}
        if patch.nominated != pod.status.nominated_node_name:
            status["nominatedNodeName"] = patch.nominated or None

        def written() -> None:
            self._tell(pod, "FailedScheduling", f"{patch.reason}: {patch.message}", warning=True)

        # A nomination is what keeps the room that was made for the pod: it has to outlive us.
        urgent = "nominatedNodeName" in status
        delay = 0.0 if urgent else SOON if since is None else REWORDED
        # Only while it is as it was: a reason to wait on a pod that has its node by now would stay there for good.
        meta = pod.metadata
        wish = Wish(
            PODS, patch.task, meta.uid, status, meta.resource_version, strategic=True, urgent=urgent, written=written
        )  # fmt: skip
        self._posting.want(wish, delay=delay)

    def _describe(self, patch: PatchGroup, group: PodGroup) -> None:
        before = group.status
        if patch.phase == "Inqueue" and before.phase != "Inqueue":
            # A Job's pods are made once its group is let in: somebody waits for that, and for nothing else.
            wish = Wish(POD_GROUPS, patch.job, group.metadata.uid, {"phase": patch.phase}, urgent=True)
            self._posting.want(wish)
            return
        status: dict[str, Any] = {
            "phase": patch.phase,
            "conditions": msgspec.to_builtins(patch.conditions),
            "running": patch.running,
            "succeeded": patch.succeeded,
            "failed": patch.failed,
        }
        unschedulable = next((c for c in patch.conditions if c.type == "Unschedulable"), None)
        known = {c.message for c in before.conditions if c.type == "Unschedulable"}

        def written() -> None:
            if unschedulable is not None and unschedulable.message not in known:
                self._tell(group, "Unschedulable", unschedulable.message, warning=True)

        counts = (patch.phase, patch.running, patch.succeeded, patch.failed)
        told = (before.phase, before.running, before.succeeded, before.failed)
        reworded = counts == told and unschedulable is not None and bool(known)
        wish = Wish(POD_GROUPS, patch.job, group.metadata.uid, status, written=written)
        self._posting.want(wish, delay=REWORDED if reworded else SOON)

    def _account(self, patch: PatchQueue, queue: Queue) -> None:
        # A merge patch only takes away what it names as null.
        allocated: dict[str, str | None] = dict.fromkeys(queue.status.allocated)
        for resource, amount in sorted(patch.allocated.items()):
            allocated[resource] = str(format_amount(resource, amount))
        wish = Wish(QUEUES, patch.queue, queue.metadata.uid, {"allocated": allocated})
        self._posting.want(wish, delay=SOON)

    def _tell(self, about: KObject, reason: str, message: str, *, warning: bool = False) -> None:
        self._recorder.tell(type(about), key(about), about.metadata.uid, reason, message, warning=warning)

    # -- reservations -------------------------------------------------------------------------------------------

    def _reserve(self, decision: Reserve) -> None:
        # A cluster-wide object cannot be owned by one in a namespace: garbage collectors take such an owner for lost.
        # So the reservation names its pod, and the scheduler itself lets go of it when the pod is gone.
        wanted = decision.reservation
        bare = replace(wanted, metadata=replace(wanted.metadata, owner_references=[]))
        self._report(Applied(bare))
        self._start(bare, self._create_reservation)

    def _unreserve(self, known: Reservation) -> None:
        self._report(Deleted(known))
        self._start(known, self._delete_reservation)

    def _start(self, reservation: Reservation, work: Callable[[Reservation], Coroutine[Any, Any, None]]) -> None:
        """In the order decided: one that is given up again must not be created after it was deleted."""
        name = reservation.metadata.name
        earlier = self._last.get(name)

        async def in_turn() -> None:
            if earlier is not None:
                await asyncio.wait([earlier])
            await work(reservation)

        def over(task: asyncio.Task[None]) -> None:
            self._under_way.discard(task)
            if self._last.get(name) is task:
                del self._last[name]

        task = self._last[name] = asyncio.create_task(in_turn())
        self._under_way.add(task)
        task.add_done_callback(over)

    async def _create_reservation(self, wanted: Reservation) -> None:
        name = wanted.metadata.name
        await self._reservations.take()
        if self._fence.held:
            try:
                try:
                    await self._client.create(RESERVATIONS, wanted)
                except Failure as failure:
                    if not is_already_there(failure):
                        raise
                status = {"status": msgspec.to_builtins(wanted.status)}
                written = await self._client.patch(RESERVATIONS, name, status, subresource="status")
                self._note(written)
                return
            except Failure as failure:
                _log.warning("a reservation could not be written", reservation=name, failure=failure.message)
        await self._report_truth(wanted)

    async def _delete_reservation(self, known: Reservation) -> None:
        name = known.metadata.name
        await self._reservations.take()
        if self._fence.held:
            try:
                await self._client.delete(RESERVATIONS, name, uid=known.metadata.uid)
                return
            except Failure as failure:
                if is_not_found(failure):
                    return
                _log.warning("a reservation could not be deleted", reservation=name, failure=failure.message)
        await self._report_truth(known)

    async def _report_truth(self, believed: Reservation) -> None:
        found = await ask(self._client, RESERVATIONS, believed.metadata.name)
        self._report(Deleted(believed) if found is None else Applied(found))
