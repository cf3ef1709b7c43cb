"""Controllers, descheduler and page go on with all other objects after an error on one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from builders import START, established, group, node, pod, queue
from live.test_controllers_component import Scene, play
from stromboli.api import Job, KObject, Pod, PodGroup, key
from stromboli.cluster.events import Applied
from stromboli.controllers import ControllerManager
from stromboli.descheduling import Policy
from stromboli.insight.job_view import name_of
from stromboli.kube.client import TokenBucket
from stromboli.kube.descheduler import DeschedulerComponent, DeschedulerMetrics
from stromboli.kube.page_server import PageComponent, PageOptions, live_document
from stromboli.kube.runtime import ConfigurationFile, ErrorReporter, LoopLag, ProcessMetrics, SoleReplica
from stromboli.kube.runtime.object_containment import ObjectContainment
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

CONTROLLERS = [
    type(one)
    for one in ControllerManager(run_builtin_controllers=False, run_job_plugins=True, validate=True)._controllers
]
"""Those that run on a cluster."""


def raising_for(original: Callable[..., Any], kind: type[KObject], name: str, broken: list[bool]) -> Callable[..., Any]:
    """What a controller does, and an error as soon as it sees this object."""

    def reconcile(self: Any, objects: Any, now: float) -> Any:
        bad = objects.get(kind, name)
        if bad is not None and broken:
            raise KeyError(f"an error while {key(bad)} is handled")
        return original(self, objects, now)

    return reconcile


# Each controller in turn cannot handle the Job `bad`. The Job `good` gets its pods all the same, and `bad` gets its own
# when the error is gone.
@pytest.mark.parametrize("controller", CONTROLLERS, ids=lambda one: one.__name__)
def test_one_job_does_not_stop_the_controllers(controller: type, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = [True]
    monkeypatch.setattr(controller, "reconcile", raising_for(controller.reconcile, Job, "ns/bad", broken))

    async def story(scene: Scene) -> None:
        bad = scene.submit("bad")
        good = scene.submit("good", replicas=2)
        await scene.let_in(good)
        await scene.until(lambda: scene.pods() == ["good-t-0", "good-t-1"])
        await scene.until(lambda: "InternalError" in scene.events())
        broken.clear()
        await scene.let_in(bad)
        await scene.until(lambda: "bad-t-0" in scene.pods())

    play(story)


def fail_on(one: KObject) -> None:
    raise KeyError(one.metadata.name)


def test_an_error_about_a_queue_hides_what_is_in_it_and_nothing_else() -> None:
    containment = ObjectContainment(ErrorReporter("test", None), lambda: 1.0)
    odd = queue("odd")
    with pytest.raises(KeyError) as caught:
        fail_on(odd)
    assert str(containment.charge(caught.value)) == "Queue odd"
    inside, outside = group("ns/in", queue="odd"), group("ns/out", queue="other")
    assert [containment.hides(one) for one in (odd, inside, outside, queue("other"))] == [True, True, False, False]


def test_hidden_objects_are_seen_again_after_growing_times() -> None:
    now = [0.0]
    containment = ObjectContainment(ErrorReporter("test", None), lambda: now[0])
    bad = group("ns/bad")
    hidden = []
    for second in range(16):
        now[0] = float(second)
        containment.refresh()
        hidden.append(containment.hides(bad))
        if not hidden[-1]:
            with pytest.raises(KeyError) as caught:
                fail_on(bad)
            containment.charge(caught.value)
    # For 1 second, then for 2, 4 and 8.
    assert [second for second, was in enumerate(hidden) if not was] == [0, 1, 3, 7, 15]


def process_metrics() -> ProcessMetrics:
    return ProcessMetrics(CollectorRegistry(), LoopLag())


def configuration() -> ConfigurationFile[Scheduler]:
    registry = Registry()
    return ConfigurationFile(None, lambda text, where: None, built_in=lambda: Scheduler(registry.default(), registry))  # type: ignore[arg-type,return-value]


def some_objects() -> list[KObject]:
    described = [
        node("n1", cpu=4), queue("default"), group("ns/bad"), pod("ns/bad-0", group="bad", cpu=1, node="n1"),
        group("ns/good"), pod("ns/good-0", group="good", cpu=1, node="n1"),
    ]  # fmt: skip
    return [established(obj, position) for position, obj in enumerate(described)]


def test_one_job_does_not_stop_the_descheduler() -> None:
    async def main() -> None:
        component = DeschedulerComponent(
            SimpleNamespace(random=Random(1)),  # type: ignore[arg-type]
            policy=ConfigurationFile(None, lambda text, where: Policy(), built_in=Policy),
            scheduler=configuration(),
            leadership=SoleReplica(),
            scheduler_name="volcano",
            bucket=lambda: TokenBucket(1000, 1000),
            metrics=DeschedulerMetrics(process_metrics()),
            clock=lambda: START + 100,
        )
        by_kind: dict[type, dict[str, KObject]] = {}
        for obj in some_objects():
            by_kind.setdefault(type(obj), {})[key(obj)] = obj
        component._reflectors = {kind: SimpleNamespace(objects=found) for kind, found in by_kind.items()}  # type: ignore[misc]

        def work(objects: Any) -> list[str]:
            for one in objects.list(PodGroup):
                if one.metadata.name == "bad":
                    raise IndexError(one.metadata.name)
            return [pod.metadata.name for pod in objects.list(Pod)]

        found, objects = await component._contained(work)
        assert found == ["good-0"]
        assert objects.get(Pod, "ns/bad-0") is None

    asyncio.run(main())


def test_one_job_does_not_stop_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    def odd_name(job: Any) -> str:
        if job.key == "ns/bad":
            raise ValueError("a name that cannot be shown")
        return name_of(job)

    monkeypatch.setattr(live_document, "name_of", odd_name)

    async def main() -> None:
        page = PageComponent(
            SimpleNamespace(random=Random(1)), PageOptions("token"), title="test",  # type: ignore[arg-type]
            scheduler_name="volcano", configuration=configuration(), clock=lambda: START + 100,
        )  # fmt: skip
        objects = some_objects()
        page._objects = SimpleNamespace(  # type: ignore[assignment]
            drain=lambda: ([Applied(obj) for obj in objects], []), jobs=list, everything=lambda: objects
        )
        seen = await page._refreshed()
        assert [job.key for job in seen.jobs] == ["ns/good"]
        assert dict(seen.facts)["Used of cpu"] == "25%"

    asyncio.run(main())
