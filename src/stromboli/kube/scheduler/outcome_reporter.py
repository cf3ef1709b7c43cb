"""Reports what the scheduler does, and what its binds and evictions led to, as metrics, log lines and events."""

from __future__ import annotations

from stromboli.api import KObject, Pod, key
from stromboli.kube.runtime import EventRecorder, InvolvedObject, Log
from stromboli.scheduling.cycle import Scheduler

from .binder import BindRequest, EvictRequest
from .metrics import SchedulerMetrics

_log = Log("scheduler")


class OutcomeReporter:
    def __init__(self, recorder: EventRecorder, metrics: SchedulerMetrics, process_ref: InvolvedObject) -> None:
        """Events about the scheduler itself are attached to `process_ref`."""
        self._recorder = recorder
        self._metrics = metrics
        self._process_ref = process_ref

    def bound(self, request: BindRequest, seconds: float) -> None:
        self._metrics.bound(seconds)
        self._recorder.record(Pod, request.task, request.uid, "Scheduled", f"Bound to {request.node}.")

    def bind_failed(self, request: BindRequest, why: str) -> None:
        self._metrics.bind_failed()
        _log.warning("bind failed", pod=request.task, node=request.node, reason=why)
        message = f"Could not be bound to {request.node}: {why}"
        self._recorder.record(Pod, request.task, request.uid, "FailedBinding", message, warning=True)

    def evicted(self, request: EvictRequest) -> None:
        self._metrics.evicted(request.reason)
        _log.info("evicted", pod=request.task, node=request.node, reason=request.reason)
        self._recorder.record(Pod, request.task, request.uid, request.reason, request.message)

    def evict_failed(self, request: EvictRequest, why: str) -> None:
        self._metrics.evict_failed()
        _log.warning("eviction refused", pod=request.task, node=request.node, reason=why)

    def refused(self, obj: KObject, why: str) -> None:
        _log.warning("ignoring an invalid object", kind=obj.kind, object=key(obj), reason=why)
        self._recorder.record(type(obj), key(obj), obj.metadata.uid, "Refused", why, warning=True)

    def reconfigured(self, scheduler: Scheduler) -> None:
        self._metrics.reloaded(accepted=True)
        for warning in scheduler.configuration.warnings:
            _log.warning("configuration", warning=warning)
        self._recorder.record_for(self._process_ref, "ConfigurationChanged", "The new configuration is in force.")

    def configuration_refused(self, why: str) -> None:
        self._metrics.reloaded(accepted=False)
        message = f"The new configuration is refused, the old one stays in force: {why}"
        self._recorder.record_for(self._process_ref, "ConfigurationRefused", message, warning=True)
