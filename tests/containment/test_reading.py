"""An odd object, of whatever kind, on which our code fails while it is read, kept, translated, applied or written.

Places are found by running (see `reading_faults`). Each in turn raises an error whenever it gets an odd object: when it
is listed, when it changes and when it is deleted. All others start all the same, the process goes on, and it says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import cache
from types import CodeType
from typing import Any, TypeVar
from unittest import mock

import pytest
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from builders import START, budget, group, hyper_node, namespace, node, pod, pods, priority_class, queue, quota
from containment.reading_faults import Place, found, raising
from live.fake_api import FakeApi, until, with_virtual_time
from live.scheduler_harness import make, running
from stromboli.api import Command, Job, KObject, Pod, PodGroup, PriorityClass, Queue, Reservation, decode, key
from stromboli.kube.client import TokenBucket
from stromboli.kube.controllers import ControllerMetrics, ControllersComponent
from stromboli.kube.runtime import LoopLag, ProcessMetrics, SoleReplica

T = TypeVar("T")
Story = Callable[[], Coroutine[Any, Any, None]]

PARTS = 6


@cache
def reservation() -> Reservation:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}
    owners = [{"object": {"kind": "Pod", "namespace": "ns", "name": "odd-5"}}]
    made = decode({
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "odd"},
        "spec": {"queue": "default", "owners": owners, "template": template},
    })  # fmt: skip
    assert isinstance(made, Reservation)
    return made


@cache
def odd_objects() -> list[KObject]:
    """Of each kind that a scheduler reads; pods that wait, run, are too large, and are in no group."""
    return [
        priority_class("odd", 5), namespace("odd"), quota("ns/odd", weight=2), queue("odd"), node("odd", cpu=2),
        hyper_node("odd", 1, nodes=["n1"]), reservation(), budget("ns/odd", selector={"a": "b"}, allowed=1),
        group("ns/odd"), *[pod(f"ns/odd-{number}", cpu=1, group="odd", node=on) for number, on in enumerate(NODES)],
        pod("ns/odd-large", cpu=10**15, group="odd"), pod("ns/odd-alone", cpu=1),
    ]  # fmt: skip


NODES = ("", "", "odd", "n1")


def change(api: FakeApi, described: list[KObject]) -> None:
    """Change these objects in a way that matters to whoever reads their kind."""
    for one in described:
        obj = api.stored(type(one), key(one))
        assert obj is not None
        obj.metadata.labels["v"] = "2"
        match obj:
            case Queue():
                obj.spec.weight = 2
            case PodGroup():
                obj.spec.min_member = 2
            case PriorityClass():
                obj.value = 6
        api.put(obj)


def put_gang(api: FakeApi, name: str) -> None:
    for obj in (group(f"ns/{name}", min_member=2), *pods(f"ns/{name}", 2, group=name, cpu=1)):
        api.put(obj)


def bound(api: FakeApi, name: str) -> bool:
    return sum(bind[0].startswith(f"ns/{name}-") for bind in api.binds) == 2


async def schedule() -> None:
    api = FakeApi()
    for obj in (node("n1", cpu=20), *odd_objects()):
        api.put(obj)
    put_gang(api, "first")
    process = make(api)
    async with running(process):
        await until(lambda: bound(api, "first"))
        change(api, odd_objects())
        await asyncio.sleep(8)
        put_gang(api, "second")
        await until(lambda: bound(api, "second"))
        for obj in odd_objects():
            api.remove(type(obj), key(obj))
        await asyncio.sleep(3)
        put_gang(api, "third")
        await until(lambda: bound(api, "third"))
        assert process.unhealthy_reason() is None


async def called_at_once(work: Callable[..., T], *arguments: Any) -> T:
    """For `asyncio.to_thread`: time would not stand still while a thread works."""
    return work(*arguments)


class Controllers(ControllersComponent):
    """Passes are made in the loop."""

    async def _in_thread(self, work: Callable[[], T]) -> T:
        await asyncio.sleep(0)
        return work()


@cache
def job(name: str) -> Job:
    tasks = [{"name": "t", "replicas": 1, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}}]
    made = decode({
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name, "namespace": "ns"},
        "spec": {"minAvailable": 1, "schedulerName": "volcano", "tasks": tasks, "plugins": {"svc": []}},
    })  # fmt: skip
    assert isinstance(made, Job)
    return made


@cache
def command() -> Command:
    made = decode({
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "odd-go", "namespace": "ns"},
        "action": "RestartJob", "target": {"kind": "Job", "name": "odd"},
    })  # fmt: skip
    assert isinstance(made, Command)
    return made


async def admitted(api: FakeApi, name: str) -> None:
    """Its group is let in, and its pods are made."""

    def groups() -> list[PodGroup]:
        return [one for one in api.all(PodGroup) if one.metadata.name.startswith(f"{name}-")]

    await until(groups)
    for one in groups():
        api.put(replace(one, status=replace(one.status, phase="Inqueue")))
    await until(lambda: api.stored(Pod, f"ns/{name}-t-0"))


async def control() -> None:
    api, loop = FakeApi(), asyncio.get_running_loop()
    described: list[KObject] = [
        namespace("odd"), priority_class("odd", 5), node("odd", cpu=2), queue("odd"), reservation(), group("ns/odd-g"),
        pod("ns/odd-alone", cpu=1), job("odd"),
    ]  # fmt: skip
    for obj in (namespace("ns"), *described, job("first")):
        api.put(obj)
    process = Controllers(
        api,  # type: ignore[arg-type]
        leadership=SoleReplica(),
        scheduler_name="volcano",
        bucket=lambda: TokenBucket(1e6, 10_000, clock=loop.time),
        metrics=ControllerMetrics(ProcessMetrics(CollectorRegistry(), LoopLag())),
        clock=lambda: START + loop.time(),
        processor_time=lambda: 0.0,
    )
    with mock.patch.object(asyncio, "to_thread", called_at_once):
        async with running(process):  # type: ignore[arg-type]
            await admitted(api, "first")
            change(api, described)
            api.put(command())
            await asyncio.sleep(3)
            api.put(job("second"))
            await admitted(api, "second")
            for one in described:
                if api.stored(type(one), key(one)) is not None:
                    api.remove(type(one), key(one))
            await asyncio.sleep(3)
            api.put(job("third"))
            await admitted(api, "third")
            assert process.unhealthy_reason() is None


STORIES: dict[Story, tuple[str, ...]] = {
    schedule: ("api/", "cluster/", "kube/"),
    control: ("api/", "kube/"),
}


@cache
def places(story: Story) -> tuple[tuple[Place, CodeType], ...]:
    with_virtual_time(story())  # objects that the story makes once are read, too
    seen: dict[Place, CodeType] = {}
    with found(STORIES[story], seen):
        with_virtual_time(story())
    return tuple(sorted(seen.items(), key=lambda one: one[0]))


BORDERS = {
    "kube/client/reflector.py": ("Reflector._take_listed", "Reflector._send"),
    "kube/runtime/object_containment.py": ("ObjectContainment.hides",),
    "kube/controllers/change_writer.py": ("ChangeWriter._write_pods.<locals>.succeeds",),  # a function of a function
    # Without the names of objects none could be put aside.
    "api/kinds/registry.py": ("key",),
    "api/pod_annotations.py": ("group_name_of",),
}
"""Where errors are caught, and what that needs."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_others_start_all_the_same(story: Story, part: int, caplog: pytest.LogCaptureFixture) -> None:
    tried = 0
    for place, code in places(story)[part::PARTS]:
        if place[2] in BORDERS.get(place[0], ()):
            continue
        caplog.clear()
        raised: list[int] = []
        try:
            with raising(place, code, raised):
                with_virtual_time(story())
        except (TimeoutError, asyncio.CancelledError, AssertionError) as error:
            raise AssertionError(f"others did not go on after errors in {place}") from error
        assert raised, f"nothing went wrong in {place}"
        assert any(is_said(record) for record in caplog.records), f"nobody hears of errors in {place}"
        tried += 1
    assert tried > 10


def is_said(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return "InjectedError" in str(getattr(record, "fields", "")) or "InjectedError" in repr(error)
