"""From decisions to writes: what is sent, what is wished, what is told, and what becomes of reservations."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from builders import START, cluster, group, node, pod, queue
from live.pretend_api import Fate, PretendApi, lost_after, lost_before, refused, until, with_pretended_time
from stromboli.api import Condition, KObject, Pod, PodGroup, PodGroupCondition, Reservation, key
from stromboli.api.waiting_reservations import waiting_pod_of, waiting_reservation
from stromboli.cluster import Applied, Cluster, ClusterEvent, Deleted, JobKey, QueueName, Status, TaskKey
from stromboli.kube.client.rate_limit import TokenBucket
from stromboli.kube.client.resources import Resource
from stromboli.kube.scheduler.binder import BindOrder, EvictOrder, Order
from stromboli.kube.scheduler.dispatcher import Carrier, address
from stromboli.kube.scheduler.status_writer import Wish
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


class FakeBinding:
    def __init__(self) -> None:
        self.sent: list[Order] = []
        self.recalled: list[str] = []
        self.stuck = False
        self.outstanding = 0

    def send(self, orders: list[Order]) -> None:
        self.sent += orders

    async def idle(self) -> None:
        if self.stuck:
            await asyncio.Event().wait()

    def recall(self, why: str) -> None:
        self.recalled.append(why)


LONG_AGO = "2029-12-31T00:00:00Z"


class FakePosting:
    def __init__(self) -> None:
        self.wanted: list[tuple[Wish, float]] = []
        self.withdrawn: list[tuple[str, str]] = []
        self.flushed = False

    def want(self, wish: Wish, *, delay: float = 0.0) -> None:
        self.wanted.append((wish, delay))

    def withdraw(self, resource: Resource[Any], key: str) -> None:
        self.withdrawn.append((resource.plural, key))

    async def flush(self) -> None:
        self.flushed = True


class FakeRecorder:
    def __init__(self) -> None:
        self.told: list[tuple[str, str, str, str]] = []
        self.flushed = False

    def tell(
        self, kind: type[KObject], key: str, uid: str, reason: str, message: str, *, warning: bool = False
    ) -> None:
        self.told.append((key, uid, reason, message))

    async def flush(self) -> None:
        self.flushed = True


class Fence:
    held = True


class Desk:
    def __init__(self, api: PretendApi, known: Cluster) -> None:
        self.api = api
        self.cluster = known
        self.fence = Fence()
        self.binding = FakeBinding()
        self.posting = FakePosting()
        self.recorder = FakeRecorder()
        self.noted: list[KObject] = []
        self.carrier = Carrier(
            api,  # type: ignore[arg-type]
            fence=self.fence,
            binding=self.binding,  # type: ignore[arg-type]
            posting=self.posting,  # type: ignore[arg-type]
            recorder=self.recorder,  # type: ignore[arg-type]
            reservations=TokenBucket(1e6, 1000),
            report=self.report,
            note=self.note,
            clock=lambda: START + 60,
        )
        self.reported: list[ClusterEvent] = []

    def report(self, event: ClusterEvent) -> None:
        self.reported.append(event)
        self.cluster.apply(event)

    def note(self, obj: KObject) -> None:
        self.noted.append(obj)
        self.cluster.apply(Applied(obj))

    def carry_out(self, *decisions: Decision) -> None:
        self.carrier.carry_out(address(Cycle(decisions=list(decisions)), self.cluster))

    def pod(self, task: str = "ns/a") -> Pod:
        return self.cluster.tasks[TaskKey(task)].pod


Story = Callable[[Desk], Awaitable[None]]


def tell(story: Story, **facts: Any) -> None:
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
        desk = Desk(PretendApi(**facts), known)
        await story(desk)
        await desk.api.settle()
        await desk.carrier.abandon()
        known.validate()

    with_pretended_time(run())


A, JOB = TaskKey("ns/a"), JobKey("ns/g")

# -- orders ----------------------------------------------------------------------------------------------------------


def test_binds_and_evictions_are_sent_for_the_pod_that_was_decided_on() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(
            Bind(A, "n1", JOB),
            Bind(TaskKey("ns/b"), "n2", JOB, backfill=True),
            Evict(TaskKey("ns/r"), "n1", "Preempted", "for ns/a"),
        )
        assert desk.binding.sent == [
            BindOrder(A, desk.pod().metadata.uid, "n1"),
            BindOrder(TaskKey("ns/b"), desk.pod("ns/b").metadata.uid, "n2", True),
            EvictOrder(TaskKey("ns/r"), desk.pod("ns/r").metadata.uid, "n1", "Preempted", "for ns/a"),
        ]

    tell(story)


def test_a_pod_that_came_in_its_place_since_is_not_meant() -> None:
    async def story(desk: Desk) -> None:
        old = desk.pod().metadata.uid
        addressed = address(Cycle(decisions=[Bind(A, "n1", JOB)]), desk.cluster)
        successor = pod("ns/a", cpu=2, group="g")
        successor.metadata.uid = "another"
        desk.cluster.apply(Applied(successor))
        desk.carrier.carry_out(addressed)
        assert [order.uid for order in desk.binding.sent] == [old]

    tell(story)


def test_decisions_about_what_is_gone_are_dropped() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(
            Bind(TaskKey("ns/gone"), "n1", JOB),
            Evict(TaskKey("ns/gone"), "n1", "Preempted", ""),
            PatchPod(TaskKey("ns/gone"), "X", "x"),
            PatchGroup(JobKey("ns/gone"), "Pending", (), 0, 0, 0),
            PatchQueue(QueueName("gone"), {}),
            Unreserve(A, "n1", "gone", ""),
            Notice("Pod", "ns/gone", "X", "x"),
        )
        assert (desk.binding.sent, desk.posting.wanted, desk.recorder.told, desk.reported) == ([], [], [], [])

    tell(story)


# -- statuses --------------------------------------------------------------------------------------------------------


def test_a_bind_takes_the_reason_to_wait_back() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(Bind(A, "n1", JOB))
        assert desk.posting.withdrawn == [("pods", "ns/a")]

    tell(story)


def test_a_waiting_pod_says_unschedulable_and_why_to_whoever_looks_for_it() -> None:
    async def story(desk: Desk) -> None:
        desk.pod().metadata.resource_version = "77"
        desk.carry_out(PatchPod(A, Code.NOT_ENOUGH_PODS, "2 more pods need room."))
        [(wish, delay)] = desk.posting.wanted
        assert delay == 1.0
        assert (wish.slot, wish.uid, wish.version) == (("pods", "ns/a"), desk.pod().metadata.uid, "77")
        assert wish.strategic
        assert wish.status == {
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
        assert desk.recorder.told == []
        assert wish.written is not None
        wish.written()
        assert desk.recorder.told == [
            ("ns/a", wish.uid, "FailedScheduling", f"{Code.NOT_ENOUGH_PODS}: 2 more pods need room.")
        ]

    tell(story)


def test_it_waits_since_it_began_to_wait() -> None:
    async def story(desk: Desk) -> None:
        since = "2029-12-31T00:00:00Z"
        desk.pod().status.conditions = [Condition("PodScheduled", "False", "X", "x", since)]
        desk.carry_out(PatchPod(A, Code.SCHEDULING_GATED, "It has gates."))
        [(wish, _)] = desk.posting.wanted
        [condition] = wish.status["conditions"]
        assert condition["lastTransitionTime"] == since
        assert condition["reason"] == "SchedulingGated"

    tell(story)


def test_a_reason_that_is_only_reworded_is_in_no_hurry() -> None:
    """With ten thousand pods waiting, every end of a pod changes the numbers in all of their reasons."""

    async def story(desk: Desk) -> None:
        desk.pod().status.conditions = [
            Condition(type="PodScheduled", status="False", message="3 of 4 nodes …", last_transition_time=LONG_AGO)
        ]
        desk.carry_out(PatchPod(A, "X", "2 of 4 nodes …"))
        known = desk.cluster.jobs[JOB].object
        assert isinstance(known, PodGroup)
        known.status.conditions = [PodGroupCondition(type="Unschedulable", status="True", message="3 of 4 nodes …")]
        now = PodGroupCondition(type="Unschedulable", status="True", message="2 of 4 nodes …")
        told = known.status
        desk.carry_out(PatchGroup(JOB, told.phase, (now,), told.running, told.succeeded, told.failed))
        desk.carry_out(PatchGroup(JOB, told.phase, (now,), told.running + 1, told.succeeded, told.failed))
        assert [delay for _, delay in desk.posting.wanted] == [5.0, 5.0, 1.0]

    tell(story)


def test_a_nomination_is_written_at_once_and_taken_back_by_name() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(PatchPod(A, "X", "x", nominated="n1"))
        desk.pod().status.nominated_node_name = "n1"
        desk.carry_out(PatchPod(A, "X", "x", nominated=""))
        assert [(wish.status["nominatedNodeName"], delay) for wish, delay in desk.posting.wanted] == [
            ("n1", 0.0),
            (None, 0.0),
        ]

    tell(story)


def test_a_group_that_is_let_in_is_told_so_at_once() -> None:
    async def story(desk: Desk) -> None:
        known = desk.cluster.jobs[JOB].object
        assert known is not None
        known.status.phase = "Pending"
        desk.carry_out(PatchGroup(JOB, "Inqueue", (), 0, 0, 0))
        [(wish, delay)] = desk.posting.wanted
        assert (wish.slot, wish.status, delay) == (("podgroups", "ns/g"), {"phase": "Inqueue"}, 0.0)

    tell(story)


def test_a_groups_condition_is_told_to_people_when_it_says_something_new() -> None:
    async def story(desk: Desk) -> None:
        known = desk.cluster.jobs[JOB].object
        assert isinstance(known, PodGroup)
        why = PodGroupCondition(type="Unschedulable", status="True", message="No room.")
        desk.carry_out(PatchGroup(JOB, "Running", (why,), 1, 2, 3))
        known.status.conditions = [why]
        desk.carry_out(PatchGroup(JOB, "Running", (why,), 2, 2, 3))
        for wish, delay in desk.posting.wanted:
            assert delay == 1.0
            assert wish.status["conditions"][0]["message"] == "No room."
            assert wish.written is not None
            wish.written()
        assert desk.posting.wanted[0][0].status["running"] == 1
        assert [(who, message) for who, _, _, message in desk.recorder.told] == [("ns/g", "No room.")]

    tell(story)


def test_what_a_queue_has_no_more_is_taken_out_of_its_status() -> None:
    async def story(desk: Desk) -> None:
        known = desk.cluster.queues[QueueName("q")].object
        assert known is not None
        known.status.allocated = {"cpu": "2", "nvidia.com/gpu": "1"}
        desk.carry_out(PatchQueue(QueueName("q"), {"cpu": 1500}))
        [(wish, _)] = desk.posting.wanted
        assert wish.status == {"allocated": {"cpu": "1500m", "nvidia.com/gpu": None}}

    tell(story)


def test_a_notice_reaches_whom_it_is_about() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(
            Notice("Pod", "ns/a", "Conditional", "On lent room."), Notice("PodGroup", "ns/g", "Limit", "Too many.")
        )
        assert [(who, reason) for who, _, reason, _ in desk.recorder.told] == [
            ("ns/a", "Conditional"),
            ("ns/g", "Limit"),
        ]

    tell(story)


# -- reservations ----------------------------------------------------------------------------------------------------


def reserve(desk: Desk, where: str = "n1") -> Reserve:
    known = desk.cluster.jobs[JOB].object
    assert known is not None
    return Reserve(A, where, waiting_reservation(desk.pod(), known, where))


def unreserve(desk: Desk) -> Unreserve:
    return Unreserve(A, "n1", reserve(desk).reservation.metadata.name, "it has a node")


def set_aside(desk: Desk) -> bool:
    return desk.cluster.tasks[A].true_status is Status.RESERVED


def test_room_is_set_aside_from_the_moment_it_was_decided() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        assert set_aside(desk)
        assert desk.api.all(Reservation) == []
        await until(lambda: desk.noted)
        [stored] = desk.api.all(Reservation)
        assert waiting_pod_of(stored) == "ns/a"
        assert (stored.status.phase, stored.status.node_name) == ("Waiting", "n1")
        assert stored.metadata.owner_references == []
        assert set_aside(desk)

    tell(story)


@pytest.mark.parametrize("verb", ["create", "patch"])
@pytest.mark.parametrize("fate", [lost_after(), lost_before(), refused(500, "InternalError")])
def test_after_a_lost_answer_the_ledger_believes_what_is_there(verb: str, fate: Fate) -> None:
    fates = iter([fate])

    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        await until(lambda: desk.api.count("get"))
        await desk.carrier.finish()
        assert set_aside(desk) == bool(desk.api.all(Reservation))

    tell(story, fate=lambda asked, key: next(fates, Fate()) if asked == verb else Fate())


def test_a_reservation_that_the_server_refuses_is_taken_back() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        await desk.carrier.finish()
        assert not set_aside(desk)

    tell(story, fate=lambda verb, key: refused(403, "Forbidden") if verb == "create" else Fate())


def test_a_reservation_of_the_same_name_is_moved_to_where_it_is_wanted() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk, "n1"))
        await desk.carrier.finish()
        desk.carry_out(reserve(desk, "n2"))
        await desk.carrier.finish()
        [stored] = desk.api.all(Reservation)
        assert stored.status.node_name == "n2"
        assert desk.cluster.tasks[A].true_node is desk.cluster.nodes["n2"]

    tell(story)


def test_what_is_given_up_is_deleted() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        await desk.carrier.finish()
        desk.carry_out(unreserve(desk))
        assert not set_aside(desk)
        await desk.carrier.finish()
        assert desk.api.all(Reservation) == []
        assert isinstance(desk.reported[-1], Deleted)

    tell(story)


@pytest.mark.parametrize("fate", [lost_after(), lost_before(), refused(403, "Forbidden")])
def test_a_deletion_that_failed_is_known_as_one(fate: Fate) -> None:
    fates = iter([fate])

    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        await desk.carrier.finish()
        desk.carry_out(unreserve(desk))
        await desk.carrier.finish()
        assert set_aside(desk) == bool(desk.api.all(Reservation))

    tell(story, fate=lambda verb, key: next(fates, Fate()) if verb == "delete" else Fate())


def test_what_is_moved_is_deleted_before_it_is_made_again() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk, "n1"))
        await desk.carrier.finish()
        desk.carry_out(unreserve(desk), reserve(desk, "n2"))
        await desk.carrier.finish()
        [stored] = desk.api.all(Reservation)
        assert stored.spec.node_name == stored.status.node_name == "n2"
        assert [verb for verb, _ in desk.api.asked] == ["create", "patch", "delete", "create", "patch"]
        assert desk.cluster.tasks[A].true_node is desk.cluster.nodes["n2"]

    tell(story, fate=lambda verb, key: Fate(acts=0.5 if verb == "delete" else 0.001))


def test_what_is_given_up_while_it_is_created_is_gone_in_the_end() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        await until(lambda: desk.api.count("create"))
        desk.carry_out(unreserve(desk))
        await desk.carrier.finish()
        assert desk.api.all(Reservation) == []

    tell(story, fate=lambda verb, key: Fate(acts=0.5) if verb == "create" else Fate())


def test_nothing_is_reserved_or_given_up_behind_a_fallen_fence() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        await desk.carrier.finish()
        desk.fence.held = False
        desk.carry_out(unreserve(desk))
        await desk.carrier.finish()
        assert len(desk.api.all(Reservation)) == 1
        assert set_aside(desk)
        desk.api.remove(Reservation, key(desk.api.all(Reservation)[0]))
        desk.carry_out(reserve(desk))
        await desk.carrier.finish()
        assert desk.api.all(Reservation) == []
        assert not set_aside(desk)

    tell(story)


# -- the end ---------------------------------------------------------------------------------------------------------


def test_at_the_end_everything_is_written_that_can_be() -> None:
    async def story(desk: Desk) -> None:
        desk.carry_out(reserve(desk))
        await desk.carrier.finish()
        assert len(desk.api.all(Reservation)) == 1
        assert desk.posting.flushed
        assert desk.recorder.flushed
        assert desk.binding.recalled == []

    tell(story)


@pytest.mark.parametrize("stuck", [True, False])
def test_the_end_comes_in_time_although_the_server_is_down(stuck: bool) -> None:
    async def story(desk: Desk) -> None:
        desk.api.down = True
        desk.binding.stuck = stuck
        desk.carry_out(reserve(desk))
        began = asyncio.get_running_loop().time()
        await desk.carrier.finish()
        assert asyncio.get_running_loop().time() - began < 10.1
        assert desk.binding.recalled == ["the scheduler stops"]
        await desk.carrier.abandon()
        assert len(asyncio.all_tasks()) == 1

    tell(story)
