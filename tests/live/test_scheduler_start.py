"""What the scheduler does before its first cycle, and what it does not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from builders import cluster, group, node, pod
from live.fake_api import FakeApi, Fate, until
from live.scheduler_harness import InThread, component, running
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.placement import BIG_CLUSTER
from stromboli.scheduling.placement.kernel_choice import choose_kernels, loading_kernels, need_compiled
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.warm_up import load_kernels

PATIENCE = 20.0  # seconds; only a scheduler that does one after the other makes a test wait so long


def scheduler() -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    return Scheduler(registry.default(), registry)


def test_objects_are_listed_while_it_warms_up() -> None:
    listed = threading.Event()
    warmed: list[bool] = []

    def fate(verb: str, key: str) -> Fate:
        if (verb, key) == ("list", "pods"):
            listed.set()
        return Fate()

    async def story() -> None:
        api = FakeApi(fate=fate)
        api.put(node("n1", cpu=4))
        api.put(group("ns/g"))
        api.put(pod("ns/g-0", cpu=1, group="g"))
        process = component(InThread, api, scheduler(), warm_up=lambda: warmed.append(listed.wait(PATIENCE)))
        async with running(process):
            await until(lambda: len(api.binds) == 1)

    asyncio.run(story())
    assert warmed == [True]


def test_a_warm_up_that_fails_ends_the_process_and_says_why() -> None:
    def fail() -> None:
        raise RuntimeError("no kernels")

    async def story() -> None:
        process = component(InThread, FakeApi(), scheduler(), warm_up=fail)
        with pytest.raises(RuntimeError, match="no kernels"):
            await process.run(asyncio.Event())

    asyncio.run(story())


def test_a_small_cluster_is_served_before_the_kernels_are_loaded() -> None:
    bound, loaded = threading.Event(), threading.Event()

    def load_kernels() -> None:
        assert bound.wait(PATIENCE)
        loaded.set()

    async def story() -> None:
        api = FakeApi()
        api.put(node("n1", cpu=4))
        api.put(group("ns/g"))
        api.put(pod("ns/g-0", cpu=1, group="g"))
        process = component(InThread, api, scheduler(), load_kernels=load_kernels)
        async with running(process):
            await until(lambda: len(api.binds) == 1)
            bound.set()
            await until(loaded.is_set)

    asyncio.run(story())


def test_a_large_cluster_waits_for_the_kernels() -> None:
    loaded: list[int] = []

    async def story() -> None:
        api = FakeApi()
        for number in range(BIG_CLUSTER):
            api.put(node(f"n{number}", cpu=4))
        api.put(group("ns/g"))
        api.put(pod("ns/g-0", cpu=1, group="g"))
        process = component(InThread, api, scheduler(), load_kernels=lambda: loaded.append(len(api.binds)))
        async with running(process):
            await until(lambda: len(api.binds) == 1)
            await asyncio.sleep(0.1)

    asyncio.run(story())
    assert loaded == [0]


def test_kernels_that_cannot_be_loaded_end_the_process() -> None:
    def fail() -> None:
        raise RuntimeError("no kernels")

    async def story() -> None:
        process = component(InThread, FakeApi(), scheduler(), load_kernels=fail)
        with pytest.raises(RuntimeError, match="no kernels"):
            await process.run(asyncio.Event())

    asyncio.run(story())


@pytest.mark.parametrize(
    ("nodes", "pods", "needed"), [(10, 1000, False), (100, 1999, False), (100, 2000, True), (BIG_CLUSTER, 0, True)]
)
def test_the_first_cycle_waits_for_kernels_that_save_more_than_they_cost(nodes: int, pods: int, needed: bool) -> None:
    assert need_compiled(nodes, pods) is needed


def test_a_cycle_does_not_wait_for_kernels_that_another_thread_loads() -> None:
    assert choose_kernels(BIG_CLUSTER).NAME == "numba"
    with loading_kernels():
        assert choose_kernels(1).NAME == "numba"
        with ThreadPoolExecutor(1) as other:
            assert other.submit(lambda: choose_kernels(1).NAME).result() == "numpy"
            assert other.submit(lambda: choose_kernels(BIG_CLUSTER).NAME).result() == "numba"
    assert choose_kernels(1).NAME == "numba"


def test_kernels_are_loaded_beside_a_scheduler_that_runs() -> None:
    ours = scheduler()
    known = cluster(node("n1", cpu=4), group("ns/g"), pod("ns/g-0", cpu=1, group="g"))
    session = ours.open(known.snapshot(), now=0.0)
    load_kernels(ours)
    ours.act(session)
    assert [decision.node for decision in session.cycle.decisions if isinstance(decision, Bind)] == ["n1"]


def test_nothing_is_imported_that_a_scheduler_does_not_need() -> None:
    """Each of these takes time from the start. The kernels are loaded later, or while objects are listed."""
    program = "import sys, stromboli.kube.scheduler, stromboli.kube.runtime; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    for package in ("numba", "stromboli.controllers", "stromboli.insight", "stromboli.simulation", "matplotlib"):
        assert not [name for name in imported if name == package or name.startswith(f"{package}.")], package
