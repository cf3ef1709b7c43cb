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
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from stromboli.api import ApiError, Pod, key
from stromboli.api.reservations import AVAILABLE
from stromboli.cluster import Applied, Cluster, ClusterEvent, Deleted
from stromboli.containment import ContainedError, ObjectRef, contained_error
from stromboli.kube.runtime import ConfigurationFile, LimitedLog, Log, first_of, garbage_collection
from stromboli.kube.runtime.object_containment import suspects
from stromboli.scheduling.containment import CycleInputs, NotContained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, Decision, DropUsers, PatchReservation
from stromboli.scheduling.explanation import orphans

from .binder import Binder
from .containment import LiveContainment
from .dispatcher import Dispatcher, TargetedDecision, resolve_targets
from .inbox import Inbox
from .metrics import SchedulerMetrics
from .true_reasons import invalid_pod, says, with_true_reasons

if TYPE_CHECKING:
    from .recorder import Recorder

_log = Log("scheduler")

CHUNK: Final = 1000  # decisions that are dispatched before other tasks may use the event loop
REST_FACTOR: Final = 20.0  # a cycle that would decide the same as the last one waits this many times as long
LONGEST_REST: Final = 60.0  # seconds
ORPHAN_CHECK_EVERY: Final = 5.0  # seconds between two searches for pods and groups that no cycle considers

Result = TypeVar("Result")

RecordError = Callable[[Sequence[ClusterEvent], Scheduler, float, CycleInputs], str]
"""(objects, scheduler, now, inputs): records the cycle, and returns the path of the file."""

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
        processor_time: Callable[[], float] = time.thread_time,
        containment: LiveContainment | None = None,
        record_error: RecordError | None = None,
    ) -> None:
        """`record_error`: for cycles with errors, if not all cycles are recorded."""
        self._scheduler_name = scheduler_name
        self._configuration = configuration
        self._inbox = inbox
        self._binder = binder
        self._dispatcher = dispatcher
        self._metrics = metrics
        self._recording = recorder
        self._clock = clock
        self._processor_time = processor_time
        self._loop_time = asyncio.get_running_loop().time
        self._containment = containment or LiveContainment(metrics.contained_errors("scheduler"))
        self._record_error = record_error
        self._has_broken_state = False  # an event could not be applied, and nobody knows how far it came
        self.cluster = Cluster(scheduler_name=scheduler_name)
        self.crashes = 0  # cycles that failed, since the last one that did not
        self._new_ignored_pods: dict[str, tuple[Pod, str]] = {}  # by key, with the reason, until it is written
        self._orphans_checked_at = 0.0
        self._last_now = 0.0
        self._last_inputs: CycleInputs
        self._last: tuple[int, Scheduler, Cycle] | None = None  # number of changes, scheduler and result of a cycle
        self._rest_until = 0.0
        self._log = LimitedLog(_log, self._loop_time)
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
        started = self._loop_time()
        events = self._inbox.drain()
        try:
            cycle, used = await self._dispatched(lambda send: self._with_time_used(lambda: self._decide(events, send)))
        except CycleFailed as failure:
            self._last = None
            self.crashes += 1
            _log.exception("a cycle failed; rebuilding the cluster state from the API server")
            await self._charge([*failure.errors, *self._dispatcher.take_errors()])
            self._metrics.cycle_failed()
            if not failure.errors:
                self._leave_out_a_suspect(failure)
            await self._rebuild(stop)
            return self._loop_time() - started
        self.crashes = 0
        await self._charge([*cycle.contained, *self._dispatcher.take_errors()])
        self._containment.note_turns(cycle)
        self._metrics.cycle_done(self._loop_time() - started, cycle)
        self._metrics.buffered(len(self._inbox))
        self._rest_until = self._loop_time() + min(REST_FACTOR * used, LONGEST_REST)
        return used

    async def may_rest(self) -> bool:
        """Whether a cycle now would decide what the last one did. It is run for safety, in case a write was lost, but
        not all the time: with a hundred thousand pods that cannot start, whoever comes next would wait for it."""
        if self._loop_time() >= self._rest_until:
            return False
        await self.apply_pending()
        if self._last is None or self._new_ignored_pods or self.cluster.put_aside:
            return False
        changes, scheduler, cycle = self._last
        if changes != self.cluster.ledger.changes or scheduler is not self._configuration.current:
            return False
        unfinished = cycle.asks_again or cycle.cut or cycle.not_reached or cycle.postponed_searches or cycle.contained
        return not unfinished and (cycle.next_due is None or self._clock() < cycle.next_due)

    async def _charge(self, errors: Sequence[ContainedError]) -> None:
        """Put the objects of these errors aside, and say so, once for each kind with a recording to replay it."""
        if not errors:
            return
        now, recording = self._clock(), ""
        new = self._containment.new_errors(errors)
        if self._recording is not None:
            recording = str(self._recording.path)
        elif new and self._record_error is not None:
            objects, scheduler = self._inbox.all_objects(), self._configuration.current
            recording = await self._in_thread(
                partial(self._record_error, objects, scheduler, self._last_now, self._last_inputs)
            )
        self._containment.charge(errors, now, recording)

    def _leave_out_a_suspect(self, error: BaseException) -> bool:
        """What fails outside of sessions fails again. So the first object that the code was looking at is left out of
        the state that is built next. False if there is none."""
        while error.__cause__ is not None:
            error = error.__cause__
        for ref in suspects(error.__traceback__):
            obj = self._inbox.find(ref)
            if obj is not None and self._containment.cannot_apply(obj, contained_error(error, ref)):
                return True
        return False

    async def apply_pending(self) -> None:
        """Apply the events without deciding anything."""
        events = self._inbox.drain()
        if events:
            await self._in_thread(lambda: self._catch_up(events))
        if self._has_broken_state:
            await self._rebuild(asyncio.Event())

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
            except NotContained as failure:
                raise CycleFailed(failure.errors) from failure
            except Exception as error:
                raise CycleFailed([]) from error
            return result
        finally:
            deciding.cancel()
            await asyncio.gather(deciding, return_exceptions=True)

    async def _rebuild(self, stop: asyncio.Event) -> None:
        await first_of(stop.wait(), self._binder.wait_observed())  # otherwise binds in flight would be missing
        if stop.is_set():
            return
        self._inbox.drain()
        while True:  # each time without one more object that cannot be applied
            self._has_broken_state = False
            self.cluster = Cluster(scheduler_name=self._scheduler_name)
            if self._recording is not None:
                self._recording.reset()
            await self._in_thread(partial(self._catch_up, self._inbox.all_objects()))
            if not self._has_broken_state:
                return

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # -- in the thread ------------------------------------------------------------------------------------------

    def _with_time_used(self, work: Callable[[], Result]) -> tuple[Result, float]:
        """The result, and the processor time of this thread."""
        started = self._processor_time()
        return work(), self._processor_time() - started

    def _decide(self, events: list[ClusterEvent], send: Send) -> Cycle:
        """Apply the events and run a cycle."""
        applied = self._apply(events)
        if self._has_broken_state:
            raise CycleFailed([])
        now = self._last_now = self._clock()
        scheduler = self._configuration.current
        outbox = _Outbox(self.cluster, send)
        inputs = self._last_inputs = self._containment.inputs(now)
        limit = self._containment.time_limit([action.name for action in scheduler.configuration.actions])
        cycle = self._metrics.timed_cycle(scheduler, self.cluster, now, outbox.send_binds, inputs, limit)
        self._last = (self.cluster.ledger.changes, scheduler, cycle)
        if self._recording is not None:
            self._recording.cycle(scheduler.configuration, now, applied, cycle.decisions, inputs, cycle.cut)
        if now - self._orphans_checked_at >= ORPHAN_CHECK_EVERY:
            self._orphans_checked_at = now
            cycle.decisions += with_true_reasons(orphans(self.cluster, now), self.cluster, self._inbox.hidden)
        ignored = list(self._explain_ignored_pods())
        garbage_collection.collect_if_due()
        outbox.send_rest(cycle, ignored)
        return cycle

    def _explain_ignored_pods(self) -> Iterator[TargetedDecision]:
        ignored, self._new_ignored_pods = self._new_ignored_pods, {}
        for pod_key, (pod, why) in ignored.items():
            try:
                decision = invalid_pod(pod_key, why)
                if not says(pod, decision.message):
                    yield TargetedDecision(decision, pod)
            except Exception as error:
                self._containment.cannot_apply(pod, contained_error(error, ObjectRef("Pod", pod_key)))

    def _apply(self, events: list[ClusterEvent]) -> list[ClusterEvent]:
        """The events that were applied."""
        usable = self._containment.without_broken(events)
        for event in usable:
            try:
                self._containment.observe(event, self.cluster)
                self.cluster.apply(event)
            except (ApiError, ValueError) as error:
                if not isinstance(event, Applied):
                    raise
                obj = event.object
                if isinstance(obj, Pod) and not obj.spec.node_name and obj.spec.scheduler_name == self._scheduler_name:
                    self._new_ignored_pods[key(obj)] = (obj, str(error))
                self._log.warning(
                    "ignoring an object that cannot be applied", obj.metadata.namespace,
                    kind=obj.kind, object=key(obj), reason=str(error),
                )  # fmt: skip
            except Exception as error:
                if not isinstance(event, Applied | Deleted):
                    raise
                obj = event.object
                self._containment.cannot_apply(obj, contained_error(error, ObjectRef(obj.kind, key(obj))))
                self._has_broken_state = True
        return usable

    def _catch_up(self, events: list[ClusterEvent]) -> None:
        """Nobody uses the snapshot, but taking it adds new nodes to the columns, and the pods on them to the nodes,
        before the next events about either."""
        applied = self._apply(events)
        if self._has_broken_state:
            return  # it is built again
        try:
            self.cluster.snapshot()
        except Exception as error:
            if not self._leave_out_a_suspect(error):
                raise
            self._has_broken_state = True
        if self._recording is not None:
            self._recording.events(applied)


class CycleFailed(Exception):
    """A cycle ended with an error. `errors`: whom it is charged to, as far as that is known."""

    def __init__(self, errors: Sequence[ContainedError]) -> None:
        super().__init__("a cycle failed")
        self.errors = errors


class _Outbox:
    """What of the decisions of a running cycle has left the thread.

    Binds leave early, and with them Reservations that give way: binds on their nodes have to wait for that. A pod that
    some Reservation lists, from an earlier attempt, may have to be removed from the list before its bind, and the end
    of the cycle decides so. So its bind leaves then.
    """

    def __init__(self, cluster: Cluster, send: Send) -> None:
        self._cluster = cluster
        self._send = send
        self._seen = 0  # decisions so far; those of them that may leave early are sent
        owners = [user for known in cluster.reservations.values() for user in known.status.current_owners]
        self._listed = {f"{user.namespace}/{user.name}" for user in owners}

    def send_binds(self, cycle: Cycle) -> None:
        new = cycle.decisions[self._seen :]
        self._seen += len(new)
        self._send_in_chunks([decision for decision in new if self._is_early(decision)])

    def send_rest(self, cycle: Cycle, more: Sequence[TargetedDecision]) -> None:
        """In the order decided, without what is sent already, and then some that no cycle decided. Removals from lists
        come first: binds wait for those that have begun."""
        decisions = cycle.decisions
        rest = [decision for decision in decisions[: self._seen] if not self._is_early(decision)]
        rest += decisions[self._seen :]
        rest.sort(key=lambda decision: not isinstance(decision, DropUsers))
        self._send_in_chunks(rest)
        if more:
            self._send(more)

    def _is_early(self, decision: Decision) -> bool:
        if isinstance(decision, Bind):
            return decision.task not in self._listed
        return isinstance(decision, PatchReservation) and decision.phase != AVAILABLE

    def _send_in_chunks(self, decisions: Sequence[Decision]) -> None:
        for start in range(0, len(decisions), CHUNK):
            self._send(resolve_targets(decisions[start : start + CHUNK], self._cluster))
