"""Who submits a hundred thousand objects waits for them, and others do not."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from builders import cluster, group, pod
from controllers.fake_cluster import FakeCluster, job, task
from stromboli.api import Pod, PodGroup
from stromboli.controllers import ControllerManager, Create, PodLimits
from stromboli.controllers.work_queue import WorkQueue, by_turns
from stromboli.kube.client import PODS, FairQueue, TokenBucket
from stromboli.kube.controllers.change_batches import batches
from stromboli.kube.runtime import ErrorReporter, LimitedLog, Log, SoleReplica
from stromboli.kube.runtime.event_recorder import EventRecorder
from stromboli.kube.scheduler.state_metrics import LastCycle, state_of
from stromboli.kube.scheduler.status_patch_queue import StatusPatch, StatusPatchQueue
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry


def test_namespaces_have_equal_parts_of_a_pass() -> None:
    queue = WorkQueue()
    queue.add_all(f"a/{number:03}" for number in range(100))
    queue.add_all(["b/1", "c/1", "c/2", "c/3", "c/4"])
    # 8 visits for 3 namespaces: 3 each, b leaves two of its, and a and c share the 7.
    assert queue.take(0.0, 8) == ["a/000", "a/001", "a/002", "b/1", "c/1", "c/2", "c/3", "c/4"]
    assert queue.take(0.0, 2) == ["a/003", "a/004"]


def test_inside_a_namespace_who_came_first_is_first() -> None:
    queue = WorkQueue()
    queue.add_all(["a/9", "a/1", "a/5"])
    assert queue.take(0.0, 2) == ["a/1", "a/9"]
    queue.add("a/0")
    assert queue.take(0.0, 1) == ["a/5"]


def test_more_namespaces_than_visits_take_turns() -> None:
    queue = WorkQueue()
    for name in "abcde":
        queue.add_all([f"{name}/1", f"{name}/2"])
    assert [queue.take(0.0, 2) for _ in range(4)] == [["a/1", "b/1"], ["c/1", "d/1"], ["a/2", "e/1"], ["b/2", "c/2"]]


def test_keys_by_turns() -> None:
    assert by_turns(["a/1", "a/2", "a/3", "b/1", "b/2", "queue"]) == ["a/1", "b/1", "queue", "a/2", "b/2", "a/3"]


def limited(visits: int) -> Callable[[], ControllerManager]:
    return lambda: ControllerManager(pod_limits=PodLimits(per_pass=100, per_job=100, visits=visits))


def test_a_pod_gets_its_group_in_the_next_pass_whoever_else_waits_for_one() -> None:
    cluster = FakeCluster(*(pod(f"a/p{n:03}", cpu=1) for n in range(200)), controllers=limited(10))
    cluster.add(pod("z/p", cpu=1))
    changes = cluster.controllers.reconcile(cluster, cluster.now)
    groups = [change.object for change in changes if isinstance(change, Create) and isinstance(change.object, PodGroup)]
    made = [group.metadata.namespace for group in groups]
    assert made.count("z") == 1
    assert len(made) == 10
    assert cluster.controllers.unfinished


def test_a_job_is_visited_in_the_next_pass_however_many_others_there_are() -> None:
    cluster = FakeCluster(*(job(f"a/j{n:03}", task("t", 1)) for n in range(200)), controllers=limited(10))
    cluster.add(job("z/j", task("t", 1)))
    changes = cluster.controllers.reconcile(cluster, cluster.now)
    assert "z" in {change.object.metadata.namespace for change in changes if isinstance(change, Create)}


def test_what_is_written_goes_by_turns() -> None:
    changes = [Create(PodGroup()) for _ in range(6)]
    for change, (namespace, name) in zip(changes, ["a1", "a2", "a3", "b1", "b2", "c1"], strict=True):
        change.object.metadata.namespace, change.object.metadata.name = namespace, name
    assert [batch.subject for batch in batches(changes)] == [
        "PodGroup a/1", "PodGroup b/1", "PodGroup c/1", "PodGroup a/2", "PodGroup b/2", "PodGroup a/3",
    ]  # fmt: skip


def test_a_fair_queue() -> None:
    queue: FairQueue[int] = FairQueue()
    for namespace, item in (("a", 1), ("a", 2), ("a", 3), ("b", 4), ("c", 5)):
        queue.push(namespace, item)
    assert queue.drop() == 1  # of a, who has most
    assert [queue.pop() for _ in range(4)] == [2, 4, 5, 3]
    assert len(queue) == 0


class Server:
    """Notes what is written, in order."""

    def __init__(self) -> None:
        self.written: list[str] = []

    async def patch(self, resource: Any, key: str, body: Any, **options: Any) -> Pod:
        self.written.append(key)
        return Pod()

    async def create(self, resource: Any, document: dict[str, Any], **options: Any) -> None:
        self.written.append(document["metadata"]["namespace"])


def test_statuses_of_a_namespace_do_not_wait_for_those_of_another() -> None:
    async def story() -> list[str]:
        server = Server()
        bucket = TokenBucket(1000.0, 1000, clock=asyncio.get_running_loop().time)
        queue = StatusPatchQueue(
            server,
            fence=SoleReplica(),
            bucket=bucket,
            on_object=lambda obj: None,
            contain=ErrorReporter("test", None).contain,
        )  # type: ignore[arg-type]
        for number in range(500):
            queue.enqueue(StatusPatch(PODS, f"a/p{number:03}", "u", {}))
        queue.enqueue(StatusPatch(PODS, "z/p", "u", {}))
        running = asyncio.create_task(queue.run())
        while "z/p" not in server.written:
            await asyncio.sleep(0)
        running.cancel()
        return server.written

    assert asyncio.run(story()).index("z/p") < 10


def test_events_of_a_namespace_are_neither_delayed_nor_dropped_for_those_of_another() -> None:
    async def story() -> EventRecorder:
        server = Server()
        recorder = EventRecorder(server, "test", bucket=TokenBucket(1000.0, 1000, clock=lambda: 0.0))  # type: ignore[arg-type]
        recorder.record(Pod, "z/p", "u", "Why", "first", warning=True)
        for number in range(12_000):  # more than are kept
            recorder.record(Pod, f"a/p{number}", "u", "Why", "some", warning=True)
        recorder.record(Pod, "z/q", "u", "Why", "last", warning=True)
        await recorder.flush()
        assert server.written[:4] == ["z", "a", "z", "a"]
        return recorder

    assert asyncio.run(story()).dropped == 2002


def test_the_log_has_one_line_for_many_objects_of_a_namespace(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    log = LimitedLog(Log("costs"), lambda: now[0])
    with caplog.at_level("WARNING"):
        for number in range(1000):
            log.warning("cannot read", "crowd", object=f"crowd/p{number}")
        log.warning("cannot read", "team", object="team/p")
        now[0] = 61.0
        log.warning("cannot read", "crowd", object="crowd/last")
    fields = [vars(record)["fields"] for record in caplog.records]
    assert fields == [
        {"object": "crowd/p0"}, {"object": "team/p"}, {"object": "crowd/last", "more_since_the_last_line": 999},
    ]  # fmt: skip


def test_metrics_have_a_series_for_so_many_jobs_only() -> None:
    known = cluster(
        (group(f"crowd/g{number}", min_member=1) for number in range(1200)),
        (pod(f"crowd/p{number}", cpu=1, group=f"g{number}") for number in range(1200)),
    )
    registry = Registry()
    collector = LastCycle()
    collector.state = state_of(known, Scheduler(registry.default(), registry).run(known, 1.0))
    families = {family.name: family for family in collector.collect()}
    assert families["volcano_unschedule_job_count"].samples[0].value == 1200
    assert len(families["volcano_unschedule_task_count"].samples) == 1000
