"""Runs cycles in a thread, and dispatches what they decide while they still run.

The thread is the only one that touches the cluster state, so a cycle needs no lock. Events that arrive meanwhile wait
in the inbox.

Actions that look for pods to evict may take long, for a job that they cannot help in the end. Binds do not wait for
them: after each action, the binds that it decided leave the thread and are sent. No later action takes a bind back, and
the binds of a gang are decided by one action, so they leave together. All else follows when the cycle is over: an
eviction must not leave before the nomination that keeps the room it makes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stromboli.api import ApiError, Pod, key
from stromboli.cluster import Applied, Cluster, ClusterEvent
from stromboli.kube.runtime import ConfigurationFile, Log, first_of, garbage_collection
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, Decision
from stromboli.scheduling.explanation import orphans

from .binder import Binder
from .dispatcher import Dispatcher, TargetedDecision, resolve_targets
from .inbox import Inbox
from .metrics import SchedulerMetrics
from .true_reasons import invalid_pod, says, with_true_reasons

if TYPE_CHECKING:
    from .recorder import Recorder

_log = Log("scheduler")

CHUNK: Final = 1000  # decisions that are dispatched before other tasks may use the event loop
ORPHAN_CHECK_EVERY: Final = 5.0  # seconds between two searches for pods and groups that no cycle considers

Result = TypeVar("Result")

Send = Callable[[Sequence[TargetedDecision]], None]
"""Hands decisions over to the event loop."""


class CycleRunner:
    def __init__(
        self,
        *,
        scheduler_name: str,
        configuration: ConfigurationFile[Scheduler],
        inbox: Inbox,
        binder: Binder,
        dispatcher: Dispatcher,
        metrics: SchedulerMetrics,
        recorder: Recorder | None,
        clock: Callable[[], float],
    ) -> None:
        self._scheduler_name = scheduler_name
        self._configuration = configuration
        self._inbox = inbox
        self._binder = binder
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._recording = recorder
        self._clock = clock
        self.cluster = Cluster(scheduler_name=scheduler_name)
        self.crashes = 0  # cycles that failed, since the last one that did not
        self._new_ignored_pods: dict[str, tuple[Pod, str]] = {}  # by key, with the reason, until it is written
        self._orphans_checked_at = 0.0
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="cycle")

    async def prepare(self, warm_up: Callable[[], None]) -> None:
        """Call what makes the first cycle faster, in the thread."""
        await self._in_thread(warm_up)

    def close(self) -> None:
        """Wait until the thread has ended."""
        self._thread.shutdown(wait=True)

    # -- in the event loop --------------------------------------------------------------------------------------

    async def run_cycle(self, stop: asyncio.Event) -> float:
        """Apply the events so far, decide, and dispatch the decisions. Returns how many seconds of a processor that
        took; on a busy machine this is less than the time that passed."""
        started = time.perf_counter()
        events = self._inbox.drain()
        try:
            cycle, used = await self._dispatched(lambda send: _with_time_used(lambda: self._decide(events, send)))
        except CycleFailed:
            self.crashes += 1
            _log.exception("a cycle failed; rebuilding the cluster state from the API server")
            self._metrics.cycle_failed()
            await self._rebuild(stop)
            return time.perf_counter() - started
        self.crashes = 0
        self._metrics.cycle_done(time.perf_counter() - started, cycle)
        self._metrics.buffered(len(self._inbox))
        return used

    async def apply_pending(self) -> None:
        """Apply the events without deciding anything."""
        events = self._inbox.drain()
        if events:
            await self._in_thread(lambda: self._catch_up(events))

    async def _dispatched(self, decide: Callable[[Send], Result]) -> Result:
        """Run `decide` in the thread, and dispatch what it sends, in that order, while it runs. What was sent before
        it failed is dispatched as well."""
        loop = asyncio.get_running_loop()
        sent: asyncio.Queue[Sequence[TargetedDecision] | None] = asyncio.Queue()

        def send(decisions: Sequence[TargetedDecision]) -> None:
            loop.call_soon_threadsafe(sent.put_nowait, decisions)

        deciding = asyncio.ensure_future(self._in_thread(lambda: decide(send)))
        deciding.add_done_callback(lambda _: sent.put_nowait(None))  # after all that was sent
        try:
            while (decisions := await sent.get()) is not None:
                self._dispatcher.dispatch(decisions)
                await asyncio.sleep(0)
            try:
                result: Result = await deciding
            except Exception as error:
                raise CycleFailed from error
            return result
        finally:
            deciding.cancel()
            await asyncio.gather(deciding, return_exceptions=True)

    async def _rebuild(self, stop: asyncio.Event) -> None:
        await first_of(stop.wait(), self._binder.wait_observed())  # otherwise binds in flight would be missing
        if stop.is_set():
            return
        self._inbox.drain()
        self.cluster = Cluster(scheduler_name=self._scheduler_name)
        if self._recording is not None:
            self._recording.reset()
        events = self._inbox.all_objects()
        await self._in_thread(lambda: self._catch_up(events))

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- in the thread ------------------------------------------------------------------------------------------

    def _decide(self, events: list[ClusterEvent], send: Send) -> Cycle:
        """Apply the events and run a cycle."""
        self._apply(events)
        now = self._clock()
        scheduler = self._configuration.current
        outbox = _Outbox(self.cluster, send)
        cycle = self._metrics.timed_cycle(scheduler, self.cluster, now, outbox.send_binds)
        if self._recording is not None:
            self._recording.cycle(scheduler.configuration, now, events, cycle.decisions)
        if now - self._orphans_checked_at >= ORPHAN_CHECK_EVERY:
            self._orphans_checked_at = now
            cycle.decisions += with_true_reasons(orphans(self.cluster, now), self.cluster, self._inbox.hidden)
        ignored = list(self._explain_ignored_pods())
        garbage_collection.collect_if_due()
        outbox.send_rest(cycle, ignored)
        return cycle

    def _explain_ignored_pods(self) -> Iterator[TargetedDecision]:
        for pod_key, (pod, why) in self._new_ignored_pods.items():
            decision = invalid_pod(pod_key, why)
            if not says(pod, decision.message):
                yield TargetedDecision(decision, pod)
        self._new_ignored_pods.clear()

    def _apply(self, events: list[ClusterEvent]) -> None:
        for event in events:
            try:
                self.cluster.apply(event)
            except (ApiError, ValueError) as error:
                if not isinstance(event, Applied):
                    raise
                obj = event.object
                if isinstance(obj, Pod) and not obj.spec.node_name and obj.spec.scheduler_name == self._scheduler_name:
                    self._new_ignored_pods[key(obj)] = (obj, str(error))
                _log.warning(
                    "ignoring an object that cannot be applied", kind=obj.kind, object=key(obj), reason=str(error)
                )

    def _catch_up(self, events: list[ClusterEvent]) -> None:
        """Nobody uses the snapshot, but taking it adds new nodes to the columns, and the pods on them to the nodes,
        before the next events about either."""
        self._apply(events)
        self.cluster.snapshot()
        if self._recording is not None:
            self._recording.events(events)


def _with_time_used(work: Callable[[], Result]) -> tuple[Result, float]:
    """The result, and the processor time of this thread."""
    started = time.thread_time()
    return work(), time.thread_time() - started


class CycleFailed(Exception):
    """A cycle ended with an error."""


class _Outbox:
    """What of the decisions of a running cycle has left the thread."""

    def __init__(self, cluster: Cluster, send: Send) -> None:
        self._cluster = cluster
        self._send = send
        self._seen = 0  # decisions so far; all binds among them are sent

    def send_binds(self, cycle: Cycle) -> None:
        new = cycle.decisions[self._seen :]
        self._seen += len(new)
        self._send_in_chunks([decision for decision in new if isinstance(decision, Bind)])

    def send_rest(self, cycle: Cycle, more: Sequence[TargetedDecision]) -> None:
        """In the order decided, without the binds that are sent already, and then some that no cycle decided."""
        decisions = cycle.decisions
        self._send_in_chunks([decision for decision in decisions[: self._seen] if not isinstance(decision, Bind)])
        self._send_in_chunks(decisions[self._seen :])
        if more:
            self._send(more)

    def _send_in_chunks(self, decisions: Sequence[Decision]) -> None:
        for start in range(0, len(decisions), CHUNK):
            self._send(resolve_targets(decisions[start : start + CHUNK], self._cluster))
