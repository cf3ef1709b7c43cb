"""A scheduler component on a fake API server: real cycles, no threads, virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar
from unittest import mock

from prometheus_client import CollectorRegistry

from builders import START
from live.fake_api import FakeApi
from stromboli.api import Node, Pod, PodGroup, Queue, Reservation
from stromboli.cluster import Applied, Cluster, ClusterEvent
from stromboli.kube.client import TokenBucket
from stromboli.kube.runtime import (
    ConfigurationFile,
    InvolvedObject,
    LoopLag,
    ProcessMetrics,
    SoleReplica,
    garbage_collection,
)
from stromboli.kube.scheduler import SchedulerComponent, SchedulerMetrics
from stromboli.kube.scheduler.cycle_runner import Send
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle
from stromboli.scheduling.registry import Registry

C = TypeVar("C", bound=SchedulerComponent)


class Lease:
    """A leadership that is ours or not, as the test says."""

    def __init__(self, is_leader: bool = True) -> None:
        self.is_leader = is_leader

    async def wait_until_leader(self) -> None:
        while not self.is_leader:
            await asyncio.sleep(0.01)


class InThread(SchedulerComponent):
    """Cycles are run in a thread, as on a cluster."""

    @property
    def cluster(self) -> Cluster:
        return self._cycles.cluster


class Process(InThread):
    """Cycles are run in the loop; `thinks` seconds pass in each, half of them before it looks at its news. Nothing is
    sent before `after_cycle` has returned."""

    cycles = 0
    thinks = 0.0
    before_cycle: Callable[[], None] = staticmethod(lambda: None)
    after_cycle: Callable[[], None] = staticmethod(lambda: None)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._really_decide = self._cycles._decide
        self._cycles._decide = self._decide  # type: ignore[method-assign]
        self._cycles._in_thread = self._in_thread  # type: ignore[method-assign]

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        await asyncio.sleep(self.thinks / 2)
        with mock.patch.object(self._cycles, "_processor_time", partial(next, iter([0.0, self.thinks]))):
            result = work()
        await asyncio.sleep(self.thinks / 2)
        return result

    def _decide(self, events: list[ClusterEvent], send: Send) -> Cycle:
        self.before_cycle()
        decided = self._really_decide(events, send)
        self.cycles += 1
        self.after_cycle()
        return decided


def make(api: FakeApi, lease: Lease | SoleReplica | None = None, *, period: float = 1.0) -> Process:
    registry = Registry()
    return component(Process, api, Scheduler(registry.default(), registry), lease, period=period)


def component(
    kind: type[C],
    api: FakeApi,
    scheduler: Scheduler,
    lease: Lease | SoleReplica | None = None,
    *,
    period: float = 1.0,
    warm_up: Callable[[], None] = lambda: None,
    load_kernels: Callable[[], None] = lambda: None,
) -> C:
    loop = asyncio.get_running_loop()
    return kind(
        api,  # type: ignore[arg-type]
        configuration=ConfigurationFile(None, lambda text, where: scheduler, built_in=lambda: scheduler),
        leadership=lease or SoleReplica(),  # type: ignore[arg-type]
        scheduler_name="volcano",
        process_ref=InvolvedObject("coordination.k8s.io/v1", "Lease", "kube-system", "stromboli-scheduler"),
        period=period,
        bucket=lambda: TokenBucket(1e6, 10_000, clock=loop.time),
        metrics=SchedulerMetrics(ProcessMetrics(CollectorRegistry(), LoopLag())),
        warm_up=warm_up,
        load_kernels=load_kernels,
        clock=lambda: START + loop.time(),
    )


@asynccontextmanager
async def running(process: SchedulerComponent) -> AsyncIterator[asyncio.Event]:
    """Runs it until the block ends; in there, setting the event stops it."""
    stop = asyncio.Event()
    task = asyncio.create_task(process.run(stop))
    # What is garbage in a test is not the scheduler's business.
    tidy = mock.patch.multiple(garbage_collection, collect_if_due=lambda: None, freeze_current_objects=lambda: None)
    tidy.start()
    try:
        inside = asyncio.current_task()
        assert inside is not None
        task.add_done_callback(lambda _: None if stop.is_set() else inside.cancel("the process ended by itself"))
        yield stop
        stop.set()
        async with asyncio.timeout(30):
            await task
    finally:
        stop.set()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        tidy.stop()


def assert_ledger_is_what_is_there(process: InThread, api: FakeApi) -> None:
    """What news made of the ledger equals what the objects say to somebody who knows nothing yet."""
    afresh = Cluster(scheduler_name="volcano")
    for kind in (Queue, Node, PodGroup, Pod, Reservation):
        for obj in api.all(kind):
            afresh.apply(Applied(obj))
    known = process.cluster
    known.snapshot()
    known.validate()
    afresh.validate()
    assert {task.key: (task.true_status, task.uid) for task in known.tasks.values()} == {
        task.key: (task.true_status, task.uid) for task in afresh.tasks.values()
    }
    assert (known.ledger.table.idle == afresh.ledger.table.idle).all()
    assert {name: one.allocated.tolist() for name, one in known.queues.items()} == {
        name: one.allocated.tolist() for name, one in afresh.queues.items()
    }
