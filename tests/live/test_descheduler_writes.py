"""What the descheduler writes when a move ends, and what becomes of the rest when a write fails."""

from __future__ import annotations

from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from builders import pod
from live.fake_api import FakeApi, Fate, refused, with_virtual_time
from stromboli.api import MigrationState, ObjectMeta, Pod, PodGroup, Reservation
from stromboli.api.migration_reservations import migration_reservation
from stromboli.descheduling.migration import DeleteReservation, RemovePod, UpdateGroup
from stromboli.kube.client import TokenBucket
from stromboli.kube.descheduler import DeschedulerMetrics
from stromboli.kube.descheduler.live_objects import LiveObjects
from stromboli.kube.descheduler.write_executor import WriteExecutor
from stromboli.kube.runtime import EventRecorder, LoopLag, ProcessMetrics, SoleReplica

GROUP = PodGroup(metadata=ObjectMeta(name="g", namespace="default", uid="g-1"))
PLACE = migration_reservation(
    pod("default/p", node="a", group="g"), GROUP, "b", plan="plan", moves=1, job="", cooldown=600
)
SUCCEEDED = replace(GROUP, status=replace(GROUP.status, migration_state=MigrationState(phase="Succeeded")))


class Harness:
    def __init__(self) -> None:
        self.api = FakeApi()
        bucket = TokenBucket(1e6, 1000)
        self.executor = WriteExecutor(
            self.api,  # type: ignore[arg-type]
            fence=SoleReplica(),
            bucket=bucket,
            recorder=EventRecorder(self.api, "descheduler", bucket=bucket, clock=lambda: 0.0),  # type: ignore[arg-type]
            metrics=DeschedulerMetrics(ProcessMetrics(CollectorRegistry(), LoopLag())),
            on_object=lambda obj: None,
            on_deleted=lambda obj: None,
        )

    async def end_of_a_move(self) -> bool:
        """As a pass decides it: the group's new state, and then the place is deleted."""
        self.api.put(GROUP)
        self.api.put(PLACE)
        seen = self.api.stored(PodGroup, "default/g")
        assert seen is not None
        known = LiveObjects({PodGroup: {"default/g": seen}})
        self.api.put(replace(GROUP, spec=replace(GROUP.spec, queue="other")))  # somebody else writes to the group
        after = replace(seen, status=SUCCEEDED.status)
        return await self.executor.write([UpdateGroup(after), DeleteReservation(PLACE)], known)


def test_the_state_of_a_group_is_written_though_others_write_to_the_group() -> None:
    harness = Harness()
    assert with_virtual_time(harness.end_of_a_move())
    group = harness.api.stored(PodGroup, "default/g")
    assert group is not None
    assert group.status.migration_state is not None
    assert (group.status.migration_state.phase, group.spec.queue) == ("Succeeded", "other")
    assert harness.api.all(Reservation) == []


def test_a_place_stays_until_the_state_of_its_group_is_written() -> None:
    """Without the Reservation, nobody could tell afterwards how the move ended."""
    harness = Harness()
    harness.api.fate = lambda verb, key: refused(500, "InternalError") if verb == "patch" else Fate()
    assert not with_virtual_time(harness.end_of_a_move())
    assert len(harness.api.all(Reservation)) == 1


def test_a_group_that_is_gone_keeps_nothing_from_being_deleted() -> None:
    harness = Harness()
    harness.api.fate = lambda verb, key: refused(404, "NotFound") if verb == "patch" else Fate()
    assert not with_virtual_time(harness.end_of_a_move())
    assert harness.api.all(Reservation) == []


# -- pods that go without a place -------------------------------------------------------------------------------------

OLD = pod("default/old", node="a")


async def removed(harness: Harness, uid: str = "") -> tuple[bool, int]:
    """Whether the write succeeded, and how many pods stay. `uid`: that of another pod."""
    if not harness.api.all(Pod):
        harness.api.put(OLD)
    (present,) = harness.api.all(Pod)
    write = RemovePod("default/old", uid or present.metadata.uid, "PodLifeTime", "It is 1h old.")
    done = await harness.executor.write([write], LiveObjects({}))
    return done, sum(each.metadata.deletion_timestamp is None for each in harness.api.all(Pod))


def test_a_pod_is_evicted_without_a_reservation() -> None:
    assert with_virtual_time(removed(Harness())) == (True, 0)


def test_another_pod_of_the_name_stays() -> None:
    assert with_virtual_time(removed(Harness(), "another")) == (True, 1)


def test_an_eviction_that_a_budget_refuses_is_tried_again_later_and_not_at_once() -> None:
    harness = Harness()
    harness.api.fate = lambda verb, key: refused(429, "TooManyRequests") if verb == "evict" else Fate()
    assert with_virtual_time(removed(harness)) == (True, 1)
    assert with_virtual_time(removed(harness)) == (True, 1)
    assert [asked for asked in harness.api.asked if asked[0] == "evict"] == [("evict", "default/old")]
