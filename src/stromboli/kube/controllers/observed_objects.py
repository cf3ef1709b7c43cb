"""What the controllers see: the objects of the API server, as events and our own writes have shown them.

Events wait until `apply`, which is called between passes, so a pass sees one state. Jobs of other schedulers are not
shown. A pod that we have deleted counts as terminating at once, though the watch may not show it yet. An object that
our code fails on is not shown until it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from msgspec.structs import replace

from stromboli.api import CronJob, Job, JobSpec, KObject, Node, Pod, default, key
from stromboli.api.timestamps import format_timestamp
from stromboli.api.upstream import translated
from stromboli.cluster import Applied, Deleted
from stromboli.containment import ObjectRef
from stromboli.controllers import ControllerManager
from stromboli.controllers.pod_owners import is_terminating
from stromboli.kube.client import Contain
from stromboli.kube.runtime.object_containment import ObjectContainment

from .cache import KINDS, Cache
from .essential_nodes import EssentialNodes


class ObservedObjects:
    def __init__(
        self,
        *,
        scheduler_name: str,
        containment: ObjectContainment,
        contain: Contain,
        changed: Callable[[], None],
    ) -> None:
        """`contain` is told of errors that are charged to one object; `changed` is called with each event."""
        self.cache = Cache(KINDS)
        self.foreign: set[str] = set()  # keys of Jobs with another schedulerName
        self.is_outdated = False  # the controllers may not have seen all events
        self._scheduler_name = scheduler_name
        self._containment = containment
        self._contain = contain
        self._changed = changed
        self._nodes = EssentialNodes()
        self._events: list[Applied | Deleted] = []
        self._deleted_pods: dict[str, str] = {}  # uid and key of pods that we deleted; the watch may not show it yet

    # -- in the event loop --------------------------------------------------------------------------------------

    def receive(self, event: Applied | Deleted) -> None:
        if isinstance(event.object, Node):
            reduced = self._nodes.reduced(event, event.object)
            if reduced is None:
                return
            event = reduced
        elif isinstance(event, Applied):
            default(event.object)
        group = translated(event.object)
        if group is not event.object:
            event = Applied(group) if isinstance(event, Applied) else Deleted(group)
        self._events.append(event)
        self._changed()

    def deleted(self, obj: KObject) -> None:
        """We have deleted it."""
        if isinstance(obj, Pod):
            self._deleted_pods[obj.metadata.uid] = key(obj)

    def forget_deletions(self) -> None:
        self._deleted_pods.clear()

    def drain(self) -> list[Applied | Deleted] | None:
        """The events to apply next; None if there is nothing to do."""
        events, self._events = self._events, []
        return events if events or self._deleted_pods else None

    # -- in the thread ------------------------------------------------------------------------------------------

    def apply(self, events: list[Applied | Deleted], controllers: ControllerManager | None, now: float) -> None:
        """`controllers`: None unless we lead."""
        for event in events:
            try:
                self._apply(event, controllers, now)
            except Exception as error:
                self._contain(error, ObjectRef(event.object.kind, key(event.object)))
                self.is_outdated = True
                with suppress(Exception):
                    self.cache.apply(Deleted(event.object))
        for uid, pod_key in list(self._deleted_pods.items()):
            pod = self.cache.get(Pod, pod_key)
            if pod is None or pod.metadata.uid != uid:
                del self._deleted_pods[uid]
            elif not is_terminating(pod):
                # The server has deleted it and the watch will show that. Until then no controller may rely on the pod.
                leaving = replace(pod, metadata=replace(pod.metadata, deletion_timestamp=format_timestamp(now)))
                self._show(Applied(leaving), controllers)

    def _apply(self, event: Applied | Deleted, controllers: ControllerManager | None, now: float) -> None:
        if isinstance(event.object, Pod):
            self._report_pod_deletion(event, controllers, now)
        elif isinstance(event.object, Job):
            event = self._hide_foreign(event, event.object)
        elif isinstance(event.object, CronJob) and self._is_foreign(event.object.spec.job_template.spec):
            event = Deleted(event.object)
        self._show(event, controllers)

    def _show(self, event: Applied | Deleted, controllers: ControllerManager | None) -> None:
        self.cache.apply(event)
        if controllers is None or self._containment.hides(event.object):
            return
        try:
            controllers.observe(event)
        except Exception as error:
            if self._containment.charge(error) is None:
                raise
            self.is_outdated = True

    def _hide_foreign(self, event: Applied | Deleted, job: Job) -> Applied | Deleted:
        """Hide Jobs of other schedulers, and the commands for them."""
        if isinstance(event, Deleted) or not self._is_foreign(job.spec):
            self.foreign.discard(key(job))
            return event
        self.foreign.add(key(job))
        return Deleted(job)

    def _is_foreign(self, spec: JobSpec) -> bool:
        return spec.scheduler_name != self._scheduler_name

    def _report_pod_deletion(self, event: Applied | Deleted, controllers: ControllerManager | None, now: float) -> None:
        """Report a deleted pod to the controllers once: when its deletion starts, or when it is gone without a visible
        start. A pod whose deletion had started when we first saw it was reported by the last leader."""
        before = self.cache.get(Pod, key(event.object))
        if controllers is None or before is None or is_terminating(before):
            return
        after = event.object
        assert isinstance(after, Pod)
        if isinstance(event, Deleted) or after.metadata.uid != before.metadata.uid:
            controllers.pod_deleted(before, now, evicted=False)
        elif is_terminating(after):
            controllers.pod_deleted(after, now, evicted=False)
