"""What the scheduler says of itself and of what came of its orders: metrics, lines in the log, events for people."""

from __future__ import annotations

from stromboli.api import KObject, Pod, key
from stromboli.kube.runtime.event_recorder import Recorder, Subject
from stromboli.kube.runtime.logs import Log
from stromboli.kube.runtime.metrics import SchedulerMetrics
from stromboli.scheduling.cycle import Scheduler

from .binder import BindOrder, EvictOrder

_log = Log("scheduler")


class Telling:
    def __init__(self, recorder: Recorder, metrics: SchedulerMetrics, itself: Subject) -> None:
        """`itself` is what events about the scheduler are attached to."""
        self._recorder = recorder
        self._metrics = metrics
        self._itself = itself

    def bound(self, order: BindOrder, seconds: float) -> None:
        self._metrics.bound(seconds)
        self._recorder.tell(Pod, order.task, order.uid, "Scheduled", f"Bound to {order.node}.")

    def bind_failed(self, order: BindOrder, why: str) -> None:
        self._metrics.bind_failed()
        _log.warning("a bind failed", pod=order.task, node=order.node, reason=why)
        message = f"Could not be bound to {order.node}: {why}"
        self._recorder.tell(Pod, order.task, order.uid, "FailedBinding", message, warning=True)

    def evicted(self, order: EvictOrder) -> None:
        self._metrics.evicted(order.reason)
        _log.info("evicted", pod=order.task, node=order.node, reason=order.reason)
        self._recorder.tell(Pod, order.task, order.uid, order.reason, order.message)

    def evict_failed(self, order: EvictOrder, why: str) -> None:
        self._metrics.evict_failed()
        _log.warning("an eviction was refused", pod=order.task, node=order.node, reason=why)

    def refused(self, obj: KObject, why: str) -> None:
        _log.warning("an object breaks the rules and is left out", kind=obj.kind, object=key(obj), reason=why)
        self._recorder.tell(type(obj), key(obj), obj.metadata.uid, "Refused", why, warning=True)

    def reconfigured(self, scheduler: Scheduler) -> None:
        self._metrics.reloaded(accepted=True)
        for warning in scheduler.configuration.warnings:
            _log.warning("configuration", warning=warning)
        self._recorder.tell_of(self._itself, "ConfigurationChanged", "The new configuration is in force.")

    def configuration_refused(self, why: str) -> None:
        self._metrics.reloaded(accepted=False)
        message = f"The new configuration is refused, the old one stays in force: {why}"
        self._recorder.tell_of(self._itself, "ConfigurationRefused", message, warning=True)
