"""The dispatcher: decisions become requests, status patches, events and reservations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from builders import START, cluster, established, group, node, pod, queue, quota
from live.fake_api import FakeApi, Fate, lost_after, lost_before, refused, until, with_virtual_time
from stromboli.api import (
    Condition,
    KObject,
    ObjectReference,
    Pod,
    PodGroup,
    PodGroupCondition,
    Reservation,
    decode,
    key,
)
from stromboli.api.reservations import user_reference
from stromboli.api.waiting_reservations import waiting_pod_of, waiting_reservation
from stromboli.cluster import (
    Applied,
    Cluster,
    ClusterEvent,
    Deleted,
    JobKey,
    QueueName,
    ReservationWriteFailed,
    Status,
    TaskKey,
)
from stromboli.kube.client import Resource, TokenBucket
from stromboli.kube.runtime import ErrorReporter
from stromboli.kube.scheduler.binder import BindRequest, EvictRequest, Request
from stromboli.kube.scheduler.dispatcher import Dispatcher, resolve_targets
from stromboli.kube.scheduler.gate_writer import GateWriter
from stromboli.kube.scheduler.reservation_writer import ReservationWriter
from stromboli.kube.scheduler.status_patch_queue import StatusPatch
from stromboli.kube.scheduler.status_writer import StatusWriter
from stromboli.kube.scheduler.volume_writer import VolumeWriter
from stromboli.scheduling.decisions import (
    Bind,
    Decision,
    DropUsers,
    Evict,
    Notice,
    PatchGroup,
    PatchPod,
    PatchQueue,
    PatchReservation,
    Reserve,
    Ungate,
    Unreserve,
)
from stromboli.scheduling.explanation.reasons import Code


class FakeBinder:
    def __init__(self) -> None:
        self.sent: list[Request] = []
        self.failed: list[Request] = []
        self.cancelled: list[str] = []
        self.stuck = False
        self.outstanding = 0

    def submit(self, requests: list[Request]) -> None:
        self.sent += requests

    async def submit_after(self, writes: Sequence[Awaitable[bool]], requests: list[Request], why: str) -> None:
        if all(await asyncio.gather(*writes)):
            self.submit(requests)
        else:
            self.failed += requests

    async def wait_idle(self) -> None:
        if self.stuck:
            await asyncio.Event().wait()

    def cancel_queued(self, why: str) -> None:
        self.cancelled.append(why)


LONG_AGO = "2029-12-31T00:00:00Z"


class FakePatchQueue:
    def __init__(self) -> None:
        self.enqueued: list[tuple[StatusPatch, float]] = []
        self.cancelled: list[tuple[str, str]] = []
        self.flushed = False

    def enqueue(self, patch: StatusPatch, *, delay: float = 0.0) -> None:
        self.enqueued.append((patch, delay))

    def cancel(self, resource: Resource[Any], key: str) -> None:
        self.cancelled.append((resource.plural, key))

    async def flush(self) -> None:
        self.flushed = True


class FakeRecorder:
    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str, str]] = []
        self.flushed = False

    def record(
        self, kind: type[KObject], key: str, uid: str, reason: str, message: str, *, warning: bool = False
    ) -> None:
        self.recorded.append((key, uid, reason, message))

    async def flush(self) -> None:
        self.flushed = True


class Fence:
    is_leader = True


class DispatcherHarness:
    def __init__(self, api: FakeApi, known: Cluster) -> None:
        self.api = api
        self.cluster = known
        self.fence = Fence()
        self.binder = FakeBinder()
        self.patches = FakePatchQueue()
        self.recorder = FakeRecorder()
        self.observed: list[KObject] = []
        reservations = ReservationWriter(
            api,  # type: ignore[arg-type]
            fence=self.fence,
            bucket=TokenBucket(1e6, 1000),
            report=self.report,
            on_object=self.observe,
            contain=ErrorReporter("test", None).contain,
            cached=lambda name: self.cluster.reservations.get(name),
        )
        volumes = VolumeWriter(
            api,  # type: ignore[arg-type]
            fence=self.fence,
            bucket=TokenBucket(1e6, 1000),
            report=lambda event, uid: self.report(event),
            on_object=self.observe,
            contain=ErrorReporter("test", None).contain,
            wall_clock=lambda: START,
        )
        gates = GateWriter(
            api,  # type: ignore[arg-type]
            fence=self.fence,
            bucket=TokenBucket(1e6, 1000),
            report=lambda event, uid: self.report(event),
            on_object=self.observe,
            recorder=self.recorder,  # type: ignore[arg-type]
            contain=ErrorReporter("test", None).contain,
        )
        self.dispatcher = Dispatcher(
            binder=self.binder,  # type: ignore[arg-type]
            status_writer=StatusWriter(self.patches, self.recorder, lambda: START + 60),  # type: ignore[arg-type]
            reservations=reservations,
            volumes=volumes,
            gates=gates,
            recorder=self.recorder,  # type: ignore[arg-type]
            report=self.report,
        )
        self.reported: list[ClusterEvent] = []

    def report(self, event: ClusterEvent) -> None:
        self.reported.append(event)
        self.cluster.apply(event)

    def observe(self, obj: KObject) -> None:
        self.observed.append(obj)
        self.cluster.apply(Applied(obj))

    def dispatch(self, *decisions: Decision) -> None:
        self.dispatcher.dispatch(resolve_targets(decisions, self.cluster))

    def pod(self, task: str = "ns/a") -> Pod:
        return self.cluster.tasks[TaskKey(task)].pod


Story = Callable[[DispatcherHarness], Awaitable[None]]


def play(story: Story, **facts: Any) -> None:
    async def run() -> None:
        known = cluster(
            queue("q"),
            node("n1", cpu=4),
            node("n2", cpu=4),
            group("ns/g", queue="q", min_member=2),
            pod("ns/a", cpu=2, group="g"),
            pod("ns/b", cpu=2, group="g"),
            pod("ns/r", cpu=2, group="g", node="n1"),
        )
        known.snapshot()
        harness = DispatcherHarness(FakeApi(**facts), known)
        await story(harness)
        await harness.api.settle()
        await harness.dispatcher.cancel()
        known.validate()

    with_virtual_time(run())


A, JOB = TaskKey("ns/a"), JobKey("ns/g")

# -- orders ----------------------------------------------------------------------------------------------------------


def test_binds_and_evictions_are_sent_for_the_pod_that_was_decided_on() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(
            Bind(A, "n1", JOB),
            Bind(TaskKey("ns/b"), "n2", JOB, backfill=True),
            Evict(TaskKey("ns/r"), "n1", "Preempted", "for ns/a"),
        )
        assert harness.binder.sent == [
            BindRequest(A, harness.pod().metadata.uid, "n1"),
            BindRequest(TaskKey("ns/b"), harness.pod("ns/b").metadata.uid, "n2", True, mark_lent=True),
            EvictRequest(TaskKey("ns/r"), harness.pod("ns/r").metadata.uid, "n1", "Preempted", "for ns/a"),
        ]

    play(story)


def test_a_successor_of_the_same_name_is_not_bound() -> None:
    async def story(harness: DispatcherHarness) -> None:
        old = harness.pod().metadata.uid
        addressed = resolve_targets([Bind(A, "n1", JOB)], harness.cluster)
        successor = pod("ns/a", cpu=2, group="g")
        successor.metadata.uid = "another"
        harness.cluster.apply(Applied(successor))
        harness.dispatcher.dispatch(addressed)
        assert [order.uid for order in harness.binder.sent] == [old]

    play(story)


def test_decisions_about_deleted_objects_are_dropped() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(
            Bind(TaskKey("ns/gone"), "n1", JOB),
            Evict(TaskKey("ns/gone"), "n1", "Preempted", ""),
            PatchPod(TaskKey("ns/gone"), "X", "x"),
            PatchGroup(JobKey("ns/gone"), "Pending", (), 0, 0, 0),
            PatchQueue(QueueName("gone"), {}),
            Unreserve(A, "n1", "gone", ""),
            Notice("Pod", "ns/gone", "X", "x"),
        )
        assert (harness.binder.sent, harness.patches.enqueued) == ([], [])
        assert (harness.recorder.recorded, harness.reported) == ([], [])

    play(story)


# -- statuses --------------------------------------------------------------------------------------------------------


def test_a_bind_cancels_the_pending_condition() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(Bind(A, "n1", JOB))
        assert harness.patches.cancelled == [("pods", "ns/a")]

    play(story)


def test_a_waiting_pod_has_the_reason_unschedulable_and_a_message() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.pod().metadata.resource_version = "77"
        harness.dispatch(PatchPod(A, Code.NOT_ENOUGH_PODS, "2 more pods need room."))
        [(patch, delay)] = harness.patches.enqueued
        assert delay == 1.0
        assert (patch.slot, patch.uid, patch.version) == (("pods", "ns/a"), harness.pod().metadata.uid, "77")
        assert patch.strategic
        assert patch.status == {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "2 more pods need room.",
                    "lastTransitionTime": "2030-01-01T00:01:00Z",
                }
            ]
        }
        # People are told once it is true, not before.
        assert harness.recorder.recorded == []
        assert patch.on_written is not None
        patch.on_written()
        assert harness.recorder.recorded == [
            ("ns/a", patch.uid, "FailedScheduling", f"{Code.NOT_ENOUGH_PODS}: 2 more pods need room.")
        ]

    play(story)


def test_the_transition_time_of_a_waiting_pod_stays() -> None:
    async def story(harness: DispatcherHarness) -> None:
        since = "2029-12-31T00:00:00Z"
        harness.pod().status.conditions = [Condition("PodScheduled", "False", "X", "x", since)]
        harness.dispatch(PatchPod(A, Code.SCHEDULING_GATED, "It has gates."))
        [(patch, _)] = harness.patches.enqueued
        [condition] = patch.status["conditions"]
        assert condition["lastTransitionTime"] == since
        assert condition["reason"] == "SchedulingGated"

    play(story)


def test_a_gate_is_removed_from_the_pod_that_was_meant() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.api.put(harness.pod())
        harness.dispatch(Ungate(A, QueueName("q")), Ungate(TaskKey("ns/gone"), QueueName("q")))
        await harness.dispatcher.drain()
        [(_, key_, patch)] = harness.api.patches
        assert (key_, patch["metadata"]["uid"]) == ("ns/a", harness.pod().metadata.uid)

    play(story)


def test_a_reworded_message_is_written_with_a_longer_delay() -> None:
    """With ten thousand pods waiting, every end of a pod changes the numbers in all of their reasons."""

    async def story(harness: DispatcherHarness) -> None:
        harness.pod().status.conditions = [
            Condition(type="PodScheduled", status="False", message="3 of 4 nodes …", last_transition_time=LONG_AGO)
        ]
        harness.dispatch(PatchPod(A, "X", "2 of 4 nodes …"))
        known = harness.cluster.jobs[JOB].object
        assert isinstance(known, PodGroup)
        known.status.conditions = [PodGroupCondition(type="Unschedulable", status="True", message="3 of 4 nodes …")]
        now = PodGroupCondition(type="Unschedulable", status="True", message="2 of 4 nodes …")
        told = known.status
        harness.dispatch(PatchGroup(JOB, told.phase, (now,), told.running, told.succeeded, told.failed))
        harness.dispatch(PatchGroup(JOB, told.phase, (now,), told.running + 1, told.succeeded, told.failed))
        assert [delay for _, delay in harness.patches.enqueued] == [5.0, 5.0, 1.0]
        waits = held_reservation("Pending")
        harness.cluster.apply(Applied(waits))
        for said in ("3 of 4 nodes …", "2 of 4 nodes …"):
            condition = Condition(type="Scheduled", status="False", reason="X", message=said)
            harness.dispatch(PatchReservation("r", "u1", "Pending", "", {}, (condition,)))
            waits.status.conditions = [condition]
        assert [delay for _, delay in harness.patches.enqueued[3:]] == [1.0, 5.0]

    play(story)


def test_a_nomination_is_written_and_removed_at_once() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(PatchPod(A, "X", "x", nominated="n1"))
        harness.pod().status.nominated_node_name = "n1"
        harness.dispatch(PatchPod(A, "X", "x", nominated=""))
        assert [(patch.status["nominatedNodeName"], delay) for patch, delay in harness.patches.enqueued] == [
            ("n1", 0.0),
            (None, 0.0),
        ]

    play(story)


def test_the_phase_of_an_admitted_group_is_written_at_once() -> None:
    async def story(harness: DispatcherHarness) -> None:
        known = harness.cluster.jobs[JOB].object
        assert known is not None
        known.status.phase = "Pending"
        harness.dispatch(PatchGroup(JOB, "Inqueue", (), 0, 0, 0))
        [(patch, delay)] = harness.patches.enqueued
        assert (patch.slot, patch.status, delay) == (("podgroups", "ns/g"), {"phase": "Inqueue"}, 0.0)

    play(story)


def test_a_new_condition_message_of_a_group_causes_an_event() -> None:
    async def story(harness: DispatcherHarness) -> None:
        known = harness.cluster.jobs[JOB].object
        assert isinstance(known, PodGroup)
        why = PodGroupCondition(type="Unschedulable", status="True", message="No room.")
        harness.dispatch(PatchGroup(JOB, "Running", (why,), 1, 2, 3))
        known.status.conditions = [why]
        harness.dispatch(PatchGroup(JOB, "Running", (why,), 2, 2, 3))
        for patch, delay in harness.patches.enqueued:
            assert delay == 1.0
            assert patch.status["conditions"][0]["message"] == "No room."
            assert patch.on_written is not None
            patch.on_written()
        assert harness.patches.enqueued[0][0].status["running"] == 1
        assert [(who, message) for who, _, _, message in harness.recorder.recorded] == [("ns/g", "No room.")]

    play(story)


def test_resources_that_a_queue_no_longer_has_are_removed_from_its_status() -> None:
    async def story(harness: DispatcherHarness) -> None:
        known = harness.cluster.queues[QueueName("q")].object
        assert known is not None
        known.status.allocated = {"cpu": "2", "nvidia.com/gpu": "1"}
        harness.dispatch(PatchQueue(QueueName("q"), {"cpu": 1500}))
        [(patch, _)] = harness.patches.enqueued
        assert patch.status == {"allocated": {"cpu": "1500m", "nvidia.com/gpu": None}}

    play(story)


def test_a_notice_becomes_an_event_on_its_object() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(
            Notice("Pod", "ns/a", "Conditional", "On lent room."), Notice("PodGroup", "ns/g", "Limit", "Too many.")
        )
        harness.cluster.apply(Applied(held_reservation("Pending")))
        harness.dispatch(Notice("Reservation", "r", "Invalid", "No."), Notice("Reservation", "gone", "Invalid", "No."))
        assert [(who, reason) for who, _, reason, _ in harness.recorder.recorded] == [
            ("ns/a", "Conditional"),
            ("ns/g", "Limit"),
            ("r", "Invalid"),
        ]

    play(story)


# -- reservations ----------------------------------------------------------------------------------------------------


def reserve(harness: DispatcherHarness, where: str = "n1") -> Reserve:
    known = harness.cluster.jobs[JOB].object
    assert known is not None
    return Reserve(A, where, waiting_reservation(harness.pod(), known, where))


def unreserve(harness: DispatcherHarness) -> Unreserve:
    return Unreserve(A, "n1", reserve(harness).reservation.metadata.name, "it has a node")


def set_aside(harness: DispatcherHarness) -> bool:
    return harness.cluster.tasks[A].true_status is Status.RESERVED


def test_the_pod_is_told_what_is_reserved_and_why_no_longer() -> None:
    async def story(harness: DispatcherHarness) -> None:
        uid = harness.pod().metadata.uid
        harness.dispatch(reserve(harness))
        harness.dispatch(unreserve(harness))
        assert harness.recorder.recorded == [
            (
                A, uid, "Reserved",
                "The job has waited too long: node n1 is reserved for this pod until all of the job fits.",
            ),
            (A, uid, "Unreserved", "Node n1 is no longer reserved for this pod: it has a node."),
        ]  # fmt: skip

    play(story)


def test_a_reservation_says_how_much_is_set_aside() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await until(lambda: harness.observed)
        [written] = harness.api.all(Reservation)
        assert written.status.allocatable == {"cpu": "2", "pods": "1"}

    play(story)


def test_a_warning_about_a_quota_reaches_it() -> None:
    async def story(harness: DispatcherHarness) -> None:
        bad = established(quota("ns/q", weight="x"))
        harness.cluster.apply(Applied(bad))
        harness.dispatch(Notice("ResourceQuota", "ns/q", "InvalidWeight", "No.", warning=True))
        assert harness.recorder.recorded == [("ns/q", bad.metadata.uid, "InvalidWeight", "No.")]

    play(story)


def test_a_reservation_counts_from_the_moment_of_the_decision() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        assert set_aside(harness)
        assert harness.api.all(Reservation) == []
        await until(lambda: harness.observed)
        [stored] = harness.api.all(Reservation)
        assert waiting_pod_of(stored) == "ns/a"
        assert (stored.status.phase, stored.status.node_name) == ("Waiting", "n1")
        assert stored.metadata.owner_references == []
        assert set_aside(harness)

    play(story)


@pytest.mark.parametrize("verb", ["create", "patch"])
@pytest.mark.parametrize("fate", [lost_after(), lost_before(), refused(500, "InternalError")])
def test_after_a_lost_response_the_ledger_follows_the_server(verb: str, fate: Fate) -> None:
    fates = iter([fate])

    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await until(lambda: harness.api.count("get"))
        await harness.dispatcher.drain()
        assert set_aside(harness) == bool(harness.api.all(Reservation))

    play(story, fate=lambda asked, key: next(fates, Fate()) if asked == verb else Fate())


def test_a_refused_reservation_is_reported_as_deleted() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await harness.dispatcher.drain()
        assert not set_aside(harness)

    play(story, fate=lambda verb, key: refused(403, "Forbidden") if verb == "create" else Fate())


def test_an_existing_reservation_is_moved_to_the_new_node() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness, "n1"))
        await harness.dispatcher.drain()
        harness.dispatch(reserve(harness, "n2"))
        await harness.dispatcher.drain()
        [stored] = harness.api.all(Reservation)
        assert stored.status.node_name == "n2"
        assert harness.cluster.tasks[A].true_node is harness.cluster.nodes["n2"]

    play(story)


def test_an_unreserved_reservation_is_deleted() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await harness.dispatcher.drain()
        harness.dispatch(unreserve(harness))
        assert not set_aside(harness)
        await harness.dispatcher.drain()
        assert harness.api.all(Reservation) == []
        assert isinstance(harness.reported[-1], Deleted)

    play(story)


@pytest.mark.parametrize("fate", [lost_after(), lost_before(), refused(403, "Forbidden")])
def test_a_failed_deletion_is_reported(fate: Fate) -> None:
    fates = iter([fate])

    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await harness.dispatcher.drain()
        harness.dispatch(unreserve(harness))
        await harness.dispatcher.drain()
        assert set_aside(harness) == bool(harness.api.all(Reservation))

    play(story, fate=lambda verb, key: next(fates, Fate()) if verb == "delete" else Fate())


def test_a_moved_reservation_is_deleted_before_it_is_created_again() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness, "n1"))
        await harness.dispatcher.drain()
        harness.dispatch(unreserve(harness), reserve(harness, "n2"))
        await harness.dispatcher.drain()
        [stored] = harness.api.all(Reservation)
        assert stored.spec.node_name == stored.status.node_name == "n2"
        assert [verb for verb, _ in harness.api.asked] == ["create", "patch", "delete", "create", "patch"]
        assert harness.cluster.tasks[A].true_node is harness.cluster.nodes["n2"]

    play(story, fate=lambda verb, key: Fate(acts=0.5 if verb == "delete" else 0.001))


def test_a_reservation_deleted_during_its_creation_is_deleted_in_the_end() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await until(lambda: harness.api.count("create"))
        harness.dispatch(unreserve(harness))
        await harness.dispatcher.drain()
        assert harness.api.all(Reservation) == []

    play(story, fate=lambda verb, key: Fate(acts=0.5) if verb == "create" else Fate())


def test_reservations_are_not_written_after_the_fence_ended() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await harness.dispatcher.drain()
        harness.fence.is_leader = False
        harness.dispatch(unreserve(harness))
        await harness.dispatcher.drain()
        assert len(harness.api.all(Reservation)) == 1
        assert set_aside(harness)
        harness.api.remove(Reservation, key(harness.api.all(Reservation)[0]))
        harness.dispatch(reserve(harness))
        await harness.dispatcher.drain()
        assert harness.api.all(Reservation) == []
        assert not set_aside(harness)

    play(story)


# -- the end ---------------------------------------------------------------------------------------------------------


def test_draining_writes_everything() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.dispatch(reserve(harness))
        await harness.dispatcher.drain()
        assert len(harness.api.all(Reservation)) == 1
        assert harness.patches.flushed
        assert harness.recorder.flushed
        assert harness.binder.cancelled == []

    play(story)


@pytest.mark.parametrize("stuck", [True, False])
def test_draining_ends_in_time_although_the_server_is_down(stuck: bool) -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.api.down = True
        harness.binder.stuck = stuck
        harness.dispatch(reserve(harness))
        began = asyncio.get_running_loop().time()
        await harness.dispatcher.drain()
        assert asyncio.get_running_loop().time() - began < 10.1
        assert harness.binder.cancelled == ["the scheduler stops"]
        await harness.dispatcher.cancel()
        assert len(asyncio.all_tasks()) == 1

    play(story)


def held_reservation(phase: str, node_name: str = "") -> Reservation:
    document = {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "r", "uid": "u1", "resourceVersion": "1"},
        "spec": {
            "template": {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}},
            "owners": [{"labelSelector": {"matchLabels": {"app": "r"}}}],
        },
        "status": {"phase": phase, "nodeName": node_name},
    }  # fmt: skip
    made = decode(document)
    assert isinstance(made, Reservation)
    return made


def test_the_event_about_a_refused_pod_follows_its_condition() -> None:
    """Not before it is written: as long as it is not, every cycle decides the same."""

    async def story(harness: DispatcherHarness) -> None:
        harness.cluster.apply(Applied(held_reservation("Available", "n2")))
        said = Condition(type="PodRefused", status="True", reason="OtherQueue", message="Pod ns/a cannot use it.")
        for _ in range(2):
            harness.dispatch(PatchReservation("r", "u1", "Available", "n2", {}, (said,), event="PodRefused"))
        assert harness.recorder.recorded == []
        patch, _ = harness.patches.enqueued[-1]
        assert patch.status["conditions"][0]["type"] == "PodRefused"
        assert patch.on_written is not None
        patch.on_written()
        assert harness.recorder.recorded == [("r", "u1", "PodRefused", "Pod ns/a cannot use it.")]

    play(story)


def test_the_node_that_a_reservation_waits_for_is_written_at_once() -> None:
    async def story(harness: DispatcherHarness) -> None:
        harness.api.put(held_reservation("Pending"))
        harness.cluster.apply(Applied(harness.api.all(Reservation)[0]))
        said = Condition(type="Scheduled", status="False", reason="WaitingForRelease", message="Waiting on n1.")
        harness.dispatch(PatchReservation("r", "u1", "Pending", "n1", {}, (said,)))
        await until(lambda: harness.observed)
        [written] = harness.api.all(Reservation)
        assert (written.status.phase, written.status.node_name) == ("Pending", "n1")
        assert harness.patches.enqueued == []

    play(story)


SAID = Condition(type="Ready", status="False", reason="Preempted", message="It gives way to ns/a.")
GIVES_WAY = PatchReservation("r", "u1", "Pending", "", {}, (SAID,))


def hold_on_n1(harness: DispatcherHarness) -> None:
    harness.api.put(held_reservation("Available", "n1"))
    harness.cluster.apply(Applied(harness.api.all(Reservation)[0]))


def test_nobody_is_bound_where_a_reservation_gives_way_before_that_is_written() -> None:
    """A scheduler that is killed in between would leave a node on which the pod and the Reservation have the same
    room."""

    async def story(harness: DispatcherHarness) -> None:
        hold_on_n1(harness)
        harness.dispatch(GIVES_WAY, Bind(TaskKey("ns/b"), "n2", JOB))
        harness.dispatch(Bind(A, "n1", JOB))
        assert [request.task for request in harness.binder.sent] == ["ns/b"], "it goes to another node"
        await until(lambda: len(harness.binder.sent) == 2)
        assert [one.status.phase for one in harness.api.all(Reservation)] == ["Pending"]
        harness.dispatch(Bind(A, "n1", JOB))
        assert len(harness.binder.sent) == 3, "nothing is left to wait for"

    play(story)


def test_nobody_is_bound_where_a_reservation_could_not_give_way() -> None:
    async def story(harness: DispatcherHarness) -> None:
        hold_on_n1(harness)
        harness.dispatch(GIVES_WAY, Bind(A, "n1", JOB))
        await until(lambda: harness.binder.failed)
        assert harness.binder.sent == []

    play(story, fate=lambda verb, key: refused(403, "Forbidden") if verb == "patch" else Fate())


def test_a_reservation_that_holds_nothing_any_more_stops_nobody() -> None:
    """The controllers have ended it meanwhile."""

    async def story(harness: DispatcherHarness) -> None:
        hold_on_n1(harness)
        harness.api.put(held_reservation("Expired", "n1"))
        harness.dispatch(GIVES_WAY, Bind(A, "n1", JOB))
        await until(lambda: harness.binder.sent)
        assert [one.status.phase for one in harness.api.all(Reservation)] == ["Expired"]

    play(story)


@pytest.mark.parametrize("written", [True, False])
def test_a_reservation_gets_the_room_of_another_one_after_that_gave_way(written: bool) -> None:
    async def story(harness: DispatcherHarness) -> None:
        hold_on_n1(harness)
        other = held_reservation("Pending")
        other.metadata.name, other.metadata.uid = "s", "u2"
        harness.api.put(other)
        for one in harness.api.all(Reservation):
            harness.cluster.apply(Applied(one))
        harness.dispatch(GIVES_WAY, PatchReservation("s", "u2", "Available", "n1", {"cpu": 1000}, (SAID,)))
        await until(lambda: len(harness.observed) == 2 or ReservationWriteFailed("s") in harness.reported)
        phases = {one.metadata.name: one.status.phase for one in harness.api.all(Reservation)}
        assert phases == ({"r": "Pending", "s": "Available"} if written else {"r": "Available", "s": "Pending"})

    def fate(verb: str, key: str) -> Fate:
        return refused(403, "Forbidden") if (verb, key) == ("patch", "r") and not written else Fate()

    play(story, fate=fate)


# -- who uses a Reservation --------------------------------------------------------------------------------------------


def listed(harness: DispatcherHarness) -> list[str]:
    [stored] = harness.api.all(Reservation)
    return [owner.name for owner in stored.status.current_owners]


def hold(harness: DispatcherHarness, *lists: str) -> None:
    """A Reservation on node n1 that lists these pods, as the server and the scheduler have it."""
    held = held_reservation("Available", "n1")
    held.status.current_owners = [user_reference(harness.pod(f"ns/{name}").metadata) for name in lists]
    harness.api.put(held)
    for task in harness.cluster.tasks.values():
        harness.api.put(task.pod)
    harness.cluster.apply(Applied(harness.api.all(Reservation)[0]))


USES = Bind(A, "n1", JOB, reservation="r/u1")


def test_a_pod_is_listed_before_it_is_bound() -> None:
    async def story(harness: DispatcherHarness) -> None:
        hold(harness)
        harness.dispatch(USES, Bind(TaskKey("ns/b"), "n2", JOB))
        assert [request.task for request in harness.binder.sent] == ["ns/b"], "it does not wait for others"
        assert listed(harness) == []
        await until(lambda: len(harness.binder.sent) == 2)
        assert listed(harness) == ["a"]
        assert not harness.cluster.tasks[A].uses, "it has no node yet"

    play(story)


def test_a_pod_that_cannot_be_listed_is_not_bound() -> None:
    async def story(harness: DispatcherHarness) -> None:
        hold(harness)
        harness.dispatch(USES)
        await until(lambda: harness.binder.failed)
        assert harness.binder.sent == []

    play(story, fate=lambda verb, key: refused(403, "Forbidden") if verb == "patch" else Fate())


def test_a_pod_is_listed_beside_what_the_controllers_write() -> None:
    """They have written since the scheduler last saw the Reservation."""

    async def story(harness: DispatcherHarness) -> None:
        hold(harness)
        newer = held_reservation("Available", "n1")
        newer.status.allocated = {"cpu": "1"}
        harness.api.put(newer)
        harness.dispatch(USES)
        await until(lambda: harness.binder.sent)
        [stored] = harness.api.all(Reservation)
        assert (stored.status.allocated, listed(harness)) == ({"cpu": "1"}, ["a"])

    play(story)


def test_a_pod_that_does_not_use_it_is_removed_before_it_is_bound() -> None:
    async def story(harness: DispatcherHarness) -> None:
        hold(harness, "a", "b")
        dropped = DropUsers("r", "u1", (user_reference(harness.pod().metadata),), ())
        harness.dispatch(Bind(A, "n1", JOB), dropped)
        assert harness.binder.sent == []
        await until(lambda: harness.binder.sent)
        assert listed(harness) == ["b"]

    play(story)


def test_a_pod_that_is_not_known_is_looked_for() -> None:
    """The list may be newer than what is seen of pods: r exists, and "gone" does not."""

    async def story(harness: DispatcherHarness) -> None:
        hold(harness, "r")
        held = harness.api.all(Reservation)[0]
        gone = ObjectReference(kind="Pod", namespace="ns", name="gone", uid="gone")
        held.status.current_owners.append(gone)
        harness.api.put(held)
        harness.cluster.apply(Applied(harness.api.all(Reservation)[0]))
        harness.dispatch(DropUsers("r", "u1", (), tuple(held.status.current_owners)))
        await until(lambda: listed(harness) == ["r"])

    play(story)


def test_the_use_of_a_reservation_that_is_gone_is_no_use() -> None:
    async def story(harness: DispatcherHarness) -> None:
        hold(harness)
        harness.api.remove(Reservation, "r")
        harness.dispatch(USES)
        await until(lambda: harness.binder.sent)

    play(story)
