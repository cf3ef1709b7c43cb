"""How a gate is removed on a cluster, and what becomes of a write that fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from builders import pod
from live.fake_api import FakeApi, Fate, with_virtual_time
from stromboli.api import KObject, Pod, names
from stromboli.cluster import QueueName, TaskKey, UngateFailed
from stromboli.containment import Strictness
from stromboli.kube.client import Failure, TokenBucket
from stromboli.kube.runtime import ErrorReporter
from stromboli.kube.scheduler.gate_writer import MOST_REMEMBERED, GateWriter, patch_of
from stromboli.scheduling.decisions import Ungate

POD = TaskKey("ns/p")
UNGATE = Ungate(POD, QueueName("q"))
REFUSED = Fate(acts=None, says=Failure(403, "no", reason="Forbidden"))


class Fence:
    is_leader = True


class Recorder:
    def __init__(self) -> None:
        self.recorded: list[tuple[str, str, str]] = []

    def record(self, kind: type[KObject], key: str, uid: str, reason: str, message: str) -> None:
        self.recorded.append((key, reason, message))


class Api(FakeApi):
    """Nothing but a strategic merge patch leaves the gates of others alone."""

    async def patch(self, *args: Any, strategic: bool = False, **facts: Any) -> Any:
        assert strategic
        return await super().patch(*args, strategic=strategic, **facts)


class Harness:
    def __init__(self, *fates: Fate) -> None:
        """`fates`: of the first patches; the others succeed."""
        self.api, self.fence, self.recorder = Api(), Fence(), Recorder()
        self.api.put(pod("ns/p", gated=True))
        left = list(fates)
        self.api.fate = lambda verb, key: left.pop(0) if verb == "patch" and left else Fate()
        self.failures: list[tuple[float, UngateFailed, str]] = []
        self.written: list[KObject] = []
        self.writer = GateWriter(
            self.api,  # type: ignore[arg-type]
            fence=self.fence,
            bucket=TokenBucket(1e6, 1000),
            report=lambda event, uid: self.failures.append((round(self.time), event, uid)),
            on_object=self.written.append,
            recorder=self.recorder,  # type: ignore[arg-type]
            contain=ErrorReporter("test", None).contain,
        )

    @property
    def time(self) -> float:
        return asyncio.get_running_loop().time()

    @property
    def pod(self) -> Pod:
        found = self.api.stored(Pod, "ns/p")
        assert found is not None
        return found

    async def write(self) -> None:
        self.writer.write(UNGATE, self.pod)
        await self.writer.wait_idle()


def test_only_this_gate_is_removed_from_only_this_pod() -> None:
    gates = [{"name": names.QUEUE_ALLOCATION_GATE, "$patch": "delete"}]
    target = pod("ns/p")
    assert patch_of(target) == {"metadata": {"uid": target.metadata.uid}, "spec": {"schedulingGates": gates}}


def test_a_removal_is_shown_to_the_scheduler_and_told_to_people() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.write()
        assert [one.metadata.name for one in harness.written] == ["p"]
        assert harness.recorder.recorded == [("ns/p", "Ungated", "Queue q has room for the pod.")]
        assert harness.failures == []

    with_virtual_time(story())


def test_failures_are_reported_after_pauses_that_grow() -> None:
    """The scheduler decides again when it hears of one. Writes at 0, 1.5 and 4.5 s: 1, 2 and 4 s later."""

    async def story() -> None:
        harness = Harness(REFUSED, REFUSED, REFUSED)
        began, uid = harness.time, harness.pod.metadata.uid
        expected = []
        for at in (1, 4, 9):
            await harness.write()
            await asyncio.sleep(began + at + 0.5 - harness.time)
            expected.append((round(began + at), UngateFailed(POD), uid))
            assert harness.failures == expected
        assert harness.recorder.recorded == []
        await harness.write()
        assert len(harness.written) == 1
        harness.api.fate = lambda verb, key: REFUSED
        await harness.write()
        await asyncio.sleep(1.5)
        assert len(harness.failures) == 4, "it succeeded meanwhile, so the pauses begin again"

    with_virtual_time(story())


def test_a_pod_that_is_gone_is_no_failure() -> None:
    async def story() -> None:
        harness = Harness()
        target = harness.pod
        harness.api.remove(Pod, "ns/p")
        harness.writer.write(UNGATE, target)
        await asyncio.sleep(100)
        assert harness.failures == []
        assert harness.written == []

    with_virtual_time(story())


def test_nothing_is_written_after_the_fence_ended() -> None:
    async def story() -> None:
        harness = Harness()
        harness.fence.is_leader = False
        await harness.write()
        assert harness.api.count("patch") == 0
        assert [event for _, event, _ in harness.failures] == [UngateFailed(POD)]

    with_virtual_time(story())


def test_an_error_of_ours_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Strictness, "is_strict", False)

    def broken(verb: str, key: str) -> Fate:
        raise ValueError("boom")

    async def story() -> None:
        harness = Harness()
        harness.api.fate = broken
        await harness.write()
        await asyncio.sleep(2)
        assert [event for _, event, _ in harness.failures] == [UngateFailed(POD)]

    with_virtual_time(story())


def test_what_is_in_flight_can_be_given_up() -> None:
    async def story() -> None:
        harness = Harness(REFUSED)
        await harness.write()
        await harness.writer.cancel()
        await asyncio.sleep(100)
        assert harness.failures == []

    with_virtual_time(story())


def test_only_so_many_failures_are_remembered() -> None:
    async def story() -> None:
        harness = Harness(REFUSED)
        harness.writer._failures |= {str(number): 1 for number in range(MOST_REMEMBERED)}
        await harness.write()
        assert harness.writer._failures == {harness.pod.metadata.uid: 1}
        await harness.writer.cancel()

    with_virtual_time(story())
