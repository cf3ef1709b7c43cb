"""What is written about claims and volumes, and what becomes of a write that fails."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from live.fake_api import FakeApi, Fate
from stromboli.api import KObject, ObjectMeta, PersistentVolume, PersistentVolumeClaim, names
from stromboli.cluster import BindFailed, EvictFailed, TaskKey
from stromboli.containment import Strictness
from stromboli.kube.client import Failure, TokenBucket
from stromboli.kube.runtime import ErrorReporter
from stromboli.kube.scheduler.volume_writer import VolumeWriter, request_of
from stromboli.scheduling.decisions import ClaimVolume, SelectNode, UnclaimVolume, UnselectNode, VolumeDecision

POD = TaskKey("ns/p")
CLAIM = PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="ns", uid="c-1", resource_version="7"))
VOLUME = PersistentVolume(metadata=ObjectMeta(name="v", uid="v-1", resource_version="9"))
SELECT = SelectNode("ns/c", "n1", POD, "p-1", "2030-01-01T00:00:00Z")
CLAIM_VOLUME = ClaimVolume("v", "ns/c", "c-1", POD, "p-1", "n1")


def test_a_selected_node_is_written_on_the_claim_that_was_seen() -> None:
    """Its version may have changed meanwhile, but it must be the same claim."""
    resource, key, patch = request_of(SELECT, CLAIM)
    assert (resource.plural, key) == ("persistentvolumeclaims", "ns/c")
    annotations = {names.SELECTED_NODE: "n1", names.SELECTED_AT: "2030-01-01T00:00:00Z"}
    assert patch == {"metadata": {"uid": "c-1", "annotations": annotations}}


def test_a_volume_is_claimed_in_the_version_that_was_seen() -> None:
    """Otherwise two schedulers could give it to two claims."""
    resource, key, patch = request_of(CLAIM_VOLUME, VOLUME)
    assert (resource.plural, key) == ("persistentvolumes", "v")
    assert patch["metadata"]["resourceVersion"] == "9"
    assert patch["spec"]["claimRef"] == {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c", "uid": "c-1"
    }  # fmt: skip


@pytest.mark.parametrize(
    ("decision", "target", "change"),
    [
        (UnselectNode("ns/c"), CLAIM, {names.SELECTED_NODE: None, names.SELECTED_AT: None}),
        (UnclaimVolume("v", "ns/c"), VOLUME, {names.BOUND_BY_CONTROLLER: None}),
    ],
)
def test_what_is_taken_back_must_not_have_changed(
    decision: VolumeDecision, target: KObject, change: dict[str, Any]
) -> None:
    _, _, patch = request_of(decision, target)
    assert patch["metadata"]["resourceVersion"] == target.metadata.resource_version
    assert patch["metadata"]["annotations"] == change


class Fence:
    is_leader = True


class Harness:
    def __init__(self, fate: Fate | None = None) -> None:
        self.api = FakeApi()
        self.api.put(CLAIM)
        self.api.put(VOLUME)
        if fate is not None:
            self.api.fate = lambda verb, key: fate if verb == "patch" else Fate()
        self.fence = Fence()
        self.failures: list[tuple[BindFailed | EvictFailed, str]] = []
        self.written: list[KObject] = []
        self.writer = VolumeWriter(
            self.api,  # type: ignore[arg-type]
            fence=self.fence,
            bucket=TokenBucket(1e6, 1000),
            report=lambda event, uid: self.failures.append((event, uid)),
            on_object=self.written.append,
            contain=ErrorReporter("test", None).contain,
            wall_clock=lambda: 42.0,
        )

    async def write(self, decision: VolumeDecision) -> None:
        kind: type[KObject] = (
            PersistentVolumeClaim if isinstance(decision, SelectNode | UnselectNode) else PersistentVolume
        )
        target = self.api.stored(kind, "ns/c" if kind is PersistentVolumeClaim else "v")
        assert target is not None
        self.writer.write(decision, target)
        await self.writer.wait_idle()


def test_a_write_is_shown_to_the_scheduler_at_once() -> None:
    async def story() -> None:
        harness = Harness()
        await harness.write(SELECT)
        (claim,) = harness.written
        assert claim.metadata.annotations[names.SELECTED_NODE] == "n1"
        assert harness.failures == []

    asyncio.run(story())


def test_a_refused_write_is_a_failed_bind() -> None:
    async def story() -> None:
        harness = Harness(Fate(acts=None, says=Failure(403, "no", reason="Forbidden")))
        await harness.write(SELECT)
        assert harness.failures == [(BindFailed(POD, "n1", "no", 42.0, by_volumes=True), "p-1")]
        await harness.write(UnselectNode("ns/c"))
        assert len(harness.failures) == 1, "nothing waits for this one"

    asyncio.run(story())


def test_nothing_is_written_after_the_fence_ended() -> None:
    async def story() -> None:
        harness = Harness()
        harness.fence.is_leader = False
        await harness.write(CLAIM_VOLUME)
        assert harness.api.count("patch") == 0
        assert harness.failures == [(BindFailed(POD), "p-1")]

    asyncio.run(story())


def test_an_error_of_ours_while_it_is_written_is_a_failed_bind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the pod would wait for the write for ever."""
    monkeypatch.setattr(Strictness, "is_strict", False)

    def broken(verb: str, key: str) -> Fate:
        raise ValueError("boom")

    async def story() -> None:
        harness = Harness()
        harness.api.fate = broken
        await harness.write(SELECT)
        assert harness.failures == [(BindFailed(POD), "p-1")]

    asyncio.run(story())
