"""What the scheduler does before its first cycle, and what it does not."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading

import pytest

from builders import group, node, pod
from live.fake_api import FakeApi, Fate, until
from live.scheduler_harness import InThread, component, running
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

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


def test_nothing_is_imported_that_a_scheduler_does_not_need() -> None:
    """Each of these takes time from the start. The kernels are loaded by the warm-up, while objects are listed."""
    program = "import sys, stromboli.kube.scheduler, stromboli.kube.runtime; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    imported = done.stdout.split()
    for package in ("numba", "stromboli.controllers", "stromboli.insight", "stromboli.simulation", "matplotlib"):
        assert not [name for name in imported if name == package or name.startswith(f"{package}.")], package
