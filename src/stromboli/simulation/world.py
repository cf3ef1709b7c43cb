"""The simulated cluster: an API server, kubelets and users, in memory and in virtual time.

Every change of an object goes through this module, whether it comes from a user (the scenario), the scheduler (a
decision) or a controller (a change). It also holds the whole lifecycle of a pod::

    created ──▶ Pending ──bind──▶ Running ──duration is over──▶ Succeeded / Failed (the object stays)
                   │                 │
                   │ deleted         │ evicted or deleted
                   ▼                 ▼
                gone ◀──grace── terminating (deletionTimestamp set, still occupies its node)

Deleting an object also deletes what it owns, as the garbage collector does; deleting a namespace deletes the objects in
it; and the pods of a deleted node are lost with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from stromboli.api import (
    ApiError,
    Condition,
    Job,
    KObject,
    Namespace,
    Node,
    Pod,
    PodGroup,
    Reservation,
    is_namespaced,
    key,
    names,
    warnings_about,
)
from stromboli.api.pod_timing import PodTiming, pod_timing
from stromboli.api.reservations import is_over
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster.object_fields import refusals_of
from stromboli.cluster.refused_bind import REFUSED_CONDITION
from stromboli.controllers import is_terminating
from stromboli.scheduling.decisions import PatchPod

from .admission import admit, check_deletion
from .event_queue import EventQueue, Rank
from .journal import REFUSED, Journal
from .scenario import ScenarioObject, ScenarioPatch, apply_patch, kind_and_key
from .states import ContainerRestarts, ended_status, phase_of, running_again, starts_again, waiting_status
from .store import Conflict, Store
from .usage_meter import UsageMeter
from .virtual_time import Microseconds, from_wall_clock, later, microseconds, timestamp, to_seconds, wall_clock

T = TypeVar("T", bound=KObject)

_FINISHED = ("Succeeded", "Failed")


class World:
    def __init__(self, journal: Journal) -> None:
        self.store = Store()
        self.event_queue = EventQueue()
        self.journal = journal
        self.meter = UsageMeter()
        # Called when a pod is evicted and when its object is deleted; set to the running controllers.
        self.pod_deleted: Callable[[Pod, float, bool], None] = lambda pod, now, evicted: None
        self.pending: set[str] = set()  # keys of pods that wait for our scheduler
        self.nodes_to_check: set[str] = set()  # nodes that the scenario may have overcommitted
        # Counts objects that are created, deleted or reach another phase. Messages may change from cycle to cycle (how
        # long a pod has been waiting, for example) without any progress.
        self.progress = 0
        self._starts: dict[str, Microseconds] = {}  # by uid of a running pod
        self._ends: dict[str, Microseconds] = {}  # by uid of a running pod whose end is known
        self._on_node: dict[str, set[str]] = {}  # keys of pods that occupy a node, by its name
        self._restarts = ContainerRestarts()
        self.restarts_containers = True  # as `restartPolicy` says

    # -- users ----------------------------------------------------------------------------------------------

    def create_from_scenario(self, entry: ScenarioObject, at: Microseconds) -> None:
        created = self.create(entry.object, at, by_user=True)
        if created is not None:
            self._warn_about(created, at)
        until = entry.lifetime.until
        if created is not None and until is not None:
            self._schedule_deletion(created, until, lambda when: self.delete(created, when))

    def patch(self, patch: ScenarioPatch, at: Microseconds) -> None:
        before = self.store.get(patch.kind, patch.key)
        if before is None:
            self.journal.warn(at, patch.key, "PatchRefused", f"There is no {kind_and_key(patch.kind, patch.key)}.")
            return
        try:
            after = apply_patch(before, patch)
            meta = replace(after.metadata, generation=before.metadata.generation + 1)
            self.change(replace(after, metadata=meta), at)
        except ApiError as error:
            self.journal.warn(at, patch.key, "PatchRefused", _message(error))
            return
        self._warn_about(after, at)
        if isinstance(after, Node):
            self.nodes_to_check.add(after.metadata.name)
        elif isinstance(after, Pod):
            self._pod_patched(patch.key, at)

    def _warn_about(self, obj: KObject, at: Microseconds) -> None:
        for reason, message in warnings_about(obj).items():
            self.journal.warn(at, key(obj), reason, message)

    def _pod_patched(self, pod_key: str, at: Microseconds) -> None:
        pod = self.store.get(Pod, pod_key)
        assert pod is not None
        started = self._starts.get(pod.metadata.uid)
        if started is not None and not is_terminating(pod) and not self._restarts.is_waiting(pod.metadata.uid):
            self._schedule_end(pod, started, not_before=at)

    # -- objects --------------------------------------------------------------------------------------------

    def create(self, obj: T, at: Microseconds, *, by_user: bool = False) -> T | None:
        """Create an object; None, with a warning, if it is rejected."""
        try:
            created = self.store.create(admit(obj, self.store, by_user=by_user), at)
        except ApiError as error:
            self.journal.warn(at, key(obj), REFUSED, _message(error))
            return None
        except Conflict:
            self.journal.warn(at, key(obj), REFUSED, f"A {obj.kind} of that name exists already.")
            return None
        self.progress += 1
        if isinstance(created, PodGroup):
            self.journal.note_group(created, at)
        elif isinstance(created, Job):
            self.journal.jobs[key(created)] = to_seconds(at)
        elif isinstance(created, Pod):
            self._pod_created(created, at)
        elif isinstance(created, Node):
            self.meter.node_offers(created, at)
        assert isinstance(created, type(obj))
        return created

    def adopt(self, obj: KObject, at: Microseconds) -> None:
        """Add an object that exists elsewhere, as it is. A pod on a node continues to run there."""
        self.store.adopt(obj)
        if isinstance(obj, PodGroup):
            self.journal.note_group(obj, at)
        elif isinstance(obj, Job):
            self.journal.jobs[key(obj)] = to_seconds(at)
        elif isinstance(obj, Node):
            self.meter.node_offers(obj, at)
        elif isinstance(obj, Pod):
            self._pod_adopted(obj, at)

    def _pod_adopted(self, pod: Pod, at: Microseconds) -> None:
        self.journal.submitted(pod, at)
        self.journal.note_pod(pod, at)
        self._track(pod)
        uid, started = pod.metadata.uid, pod.status.start_time
        if pod.status.phase in _FINISHED or not pod.spec.node_name:
            return
        if started is None or pod.status.phase != "Running":  # its node has not started it yet, and does so now
            self._start(self._current_pod(pod), at)
        else:
            self._starts[uid] = from_wall_clock(parse_timestamp(started))
            self.meter.pod_starts(pod, at)
            self.journal.started(pod, at)
            self._schedule_end(pod, self._starts[uid], not_before=at)
        if is_terminating(pod):
            terminating = self._current_pod(pod)
            self._ends.pop(uid, None)
            gone = max(at, from_wall_clock(parse_timestamp(pod.metadata.deletion_timestamp or timestamp(at))))
            self._schedule_deletion(
                terminating, gone, lambda when: self._finish_deletion(terminating, when, evicted=False)
            )

    def _current_pod(self, pod: Pod) -> Pod:
        current = self.store.current(pod)
        assert current is not None
        return current

    def would_admit(self, obj: KObject) -> bool:
        if isinstance(obj, Pod) and not obj.spec.priority_class_name:
            return True
        try:
            admit(obj, self.store)
        except ApiError:
            return False
        return True

    def change(self, obj: KObject, at: Microseconds) -> KObject:
        """Replace an object by a changed version; raises ApiError or Conflict if that is not possible."""
        before = self.store.current(obj)
        updated = self.store.update(admit(obj, self.store, before=before))
        self.progress += phase_of(updated) != phase_of(before)
        if isinstance(updated, Node):
            self.meter.node_offers(updated, at)
        elif isinstance(updated, PodGroup):
            self.journal.note_group(updated, at)
        elif isinstance(updated, Reservation) and isinstance(before, Reservation):
            self.journal.note_reservation(before, updated, at)
        elif isinstance(updated, Pod):
            self.journal.note_pod(updated, at)
            self._track(updated)
            if updated.status.phase in _FINISHED and isinstance(before, Pod) and before.status.phase not in _FINISHED:
                self._record_end(updated, at, "a patch set the phase")
        return updated

    def delete(self, obj: KObject, at: Microseconds, reason: str = "") -> None:
        """Delete an object as a user would: a running pod gets its grace period."""
        found = self.store.current(obj)
        if found is None:
            return
        if isinstance(found, Pod):
            self._delete_pod(found, at, reason)
            return
        try:
            check_deletion(found, self.store)
        except ApiError as error:
            self.journal.warn(at, key(found), "DeletionRefused", _message(error))
            return
        self.store.delete(found)
        self.progress += 1
        match found:
            case PodGroup():
                self.journal.groups.deleted(found, to_seconds(at))
            case Reservation() if is_over(found):
                self.journal.ended_reservations[key(found)] = found
            case Node():
                self.meter.node_gone(found, at)
                for pod_key in sorted(self._on_node.get(found.metadata.name, ())):
                    pod = self.store.get(Pod, pod_key)
                    assert pod is not None
                    self.meter.pod_evicted(pod, at)
                    self.journal.evicted(pod, at, "NodeLost", f"Its node {found.metadata.name} was deleted.")
                    self._remove_pod(pod, at, evicted=True)
            case Namespace():
                for member in self.store.everything():
                    if is_namespaced(type(member)) and member.metadata.namespace == found.metadata.name:
                        self.delete(member, at, "its namespace was deleted")
            case _:
                pass
        self._delete_dependents(found, at)

    def _delete_dependents(self, owner: KObject, at: Microseconds) -> None:
        for dependent in self.store.dependents(owner.metadata.uid):
            self.delete(dependent, at, f"its owner, {owner.kind} {owner.metadata.name}, was deleted")

    # -- pods -----------------------------------------------------------------------------------------------

    def bind(self, pod: Pod, node: str, at: Microseconds, *, backfill: bool, uses: str = "") -> None:
        """`backfill`: it is in its status, which users cannot write, that it runs on lent resources.
        `uses`: the name and UID of the Reservation it uses, which lists it already. The annotation is for people."""
        meta = pod.metadata
        if backfill:
            meta = replace(meta, annotations={**meta.annotations, names.BACKFILL: "true"})
        if uses or names.RESERVATION_ALLOCATED in meta.annotations:
            meta = replace(meta, annotations={**meta.annotations, names.RESERVATION_ALLOCATED: uses})
        lent = [Condition(type=names.LENT_CONDITION, status="True", reason="Lent")] if backfill else []
        status = replace(pod.status, conditions=lent)
        bound = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node), status=status)
        self.journal.write(at, "Bound", key(pod), node=node)
        self._start(bound, at)

    def explain(self, pod: Pod, told: PatchPod, at: Microseconds) -> None:
        """Say in the status of a pending pod why it waits. Nothing but the status changes, so there is nothing to admit
        and nothing for the journal. A sentence alone is not stored: its numbers change with every pod that starts or
        ends, for all waiting pods, and the report takes sentences from the last cycle."""
        known = next((c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "False"), None)
        same = pod.status.nominated_node_name == told.nominated and refusals_of(pod) == told.refused
        if known is not None and known.reason == told.reason and same:
            return
        since = known.last_transition_time if known is not None else timestamp(at)
        waits = Condition(
            type="PodScheduled", status="False", reason=told.reason, message=told.message, last_transition_time=since
        )
        others = [c for c in pod.status.conditions if c.type not in ("PodScheduled", REFUSED_CONDITION)]
        if told.refused:
            others.append(Condition(type=REFUSED_CONDITION, status="True", reason="Refused", message=told.refused))
        status = replace(pod.status, conditions=[*others, waits], nominated_node_name=told.nominated)
        self.store.update(replace(pod, status=status))

    def answers(self, pod: Pod) -> bool:
        """Pods run nothing here: one that runs answers whatever it is asked."""
        current = self.store.current(pod)
        return isinstance(current, Pod) and current.status.phase == "Running"

    def evict(self, pod: Pod, at: Microseconds, reason: str, message: str) -> None:
        if is_terminating(pod) or pod.status.phase in _FINISHED:
            return
        self.meter.pod_evicted(pod, at)
        self.journal.evicted(pod, at, reason, message)
        self.progress += 1
        self._start_deletion(pod, at, evicted=True)

    def _pod_created(self, pod: Pod, at: Microseconds) -> None:
        self.journal.submitted(pod, at)
        self.journal.note_pod(pod, at)
        if pod.status.phase in _FINISHED:
            self.journal.finished(pod, at, "it was finished when it was created")
        elif pod.spec.node_name:
            self.nodes_to_check.add(pod.spec.node_name)
            self._start(pod, at)
        elif pod.status.phase != "Pending":
            self.store.update(replace(pod, status=replace(pod.status, phase="Pending")))
        self._track(pod)

    def _start(self, pod: Pod, at: Microseconds) -> None:
        scheduled = Condition(type="PodScheduled", status="True", last_transition_time=timestamp(at))
        conditions = [scheduled, *(one for one in pod.status.conditions if one.type == names.LENT_CONDITION)]
        status = replace(
            pod.status, phase="Running", start_time=timestamp(at), conditions=conditions, nominated_node_name=""
        )
        running = self.store.update(replace(pod, status=status))
        self.progress += 1
        self._starts[running.metadata.uid] = at
        self.meter.pod_starts(running, at)
        self.journal.started(running, at)
        self.journal.note_pod(running, at)
        self._track(running)
        self._schedule_end(running, at, not_before=at)

    def _schedule_end(self, pod: Pod, started: Microseconds, *, not_before: Microseconds) -> None:
        """Schedule the end of a running pod. Called again after a patch, it replaces the earlier end."""
        uid = pod.metadata.uid
        run = _timing(pod).run
        if run is None:
            self._ends.pop(uid, None)
            return
        end = max(later(started, microseconds(run)), not_before)
        if self._ends.get(uid) == end:
            return
        self._ends[uid] = end
        self.event_queue.put(
            end, Rank.FINISH, lambda when: self._finish(key(pod), uid, when),
            namespace=pod.metadata.namespace, name=pod.metadata.name, kind=pod.kind,
            is_valid=lambda: self._ends.get(uid) == end,
        )  # fmt: skip

    def _finish(self, pod_key: str, uid: str, at: Microseconds) -> None:
        pod = self.store.get(Pod, pod_key)
        assert pod is not None, "an end that is still valid has its pod"
        assert pod.metadata.uid == uid
        code = _timing(pod).exit_code
        if self.restarts_containers and starts_again(pod, code):
            self._end_containers(pod, code, at)
            return
        self._record_end(self.store.update(replace(pod, status=ended_status(pod, code, at))), at, f"exit code {code}")

    def _end_containers(self, pod: Pod, code: int, at: Microseconds) -> None:
        """They will be started again, now or after a pause. The pod keeps its node."""
        uid = pod.metadata.uid
        self._ends.pop(uid, None)
        start, message = self._restarts.next_start(pod, self._starts[uid], code, at)
        self.journal.write(at, "Restarted", key(pod), node=pod.spec.node_name, message=message)
        self.progress += 1
        if start > at:
            self.store.update(replace(pod, status=waiting_status(pod, at)))
        self.event_queue.put(
            start, Rank.FINISH, lambda when: self._start_containers(key(pod), when),
            namespace=pod.metadata.namespace, name=pod.metadata.name, kind=pod.kind,
            is_valid=lambda: self._restarts.is_due(uid, start),
        )  # fmt: skip

    def _start_containers(self, pod_key: str, at: Microseconds) -> None:
        pod = self.store.get(Pod, pod_key)
        assert pod is not None, "a start that is still valid has its pod"
        self._restarts.started(pod.metadata.uid)
        self._starts[pod.metadata.uid] = at
        self.progress += 1
        running = self.store.update(replace(pod, status=running_again(pod, at)))
        self._schedule_end(running, at, not_before=at)

    def _record_end(self, pod: Pod, at: Microseconds, message: str) -> None:
        self._forget(pod)
        self.meter.pod_ends(pod, at)
        self.journal.finished(pod, at, message)

    def _delete_pod(self, pod: Pod, at: Microseconds, reason: str) -> None:
        if is_terminating(pod):
            return
        self.journal.deleted(pod, at, reason)
        if pod.status.phase == "Running":
            self._start_deletion(pod, at, evicted=False)
        else:
            self._remove_pod(pod, at, evicted=False)

    def _start_deletion(self, pod: Pod, at: Microseconds, *, evicted: bool) -> None:
        grace = microseconds(_timing(pod).grace or 0)
        if not grace:
            self._remove_pod(pod, at, evicted=evicted)
            return
        gone = later(at, grace)
        meta = replace(
            pod.metadata, deletion_timestamp=timestamp(gone), deletion_grace_period_seconds=round(to_seconds(grace))
        )
        terminating = self.store.update(replace(pod, metadata=meta))
        self._ends.pop(pod.metadata.uid, None)
        self._restarts.forget(pod.metadata.uid)
        self.pod_deleted(terminating, wall_clock(at), evicted)
        self._schedule_deletion(
            terminating, gone, lambda when: self._finish_deletion(terminating, when, evicted=evicted)
        )

    def _finish_deletion(self, pod: Pod, at: Microseconds, *, evicted: bool) -> None:
        current = self.store.current(pod)
        assert current is not None, "a deletion that is still valid has its pod"
        self._remove_pod(current, at, evicted=evicted)

    def _remove_pod(self, pod: Pod, at: Microseconds, *, evicted: bool) -> None:
        self.store.delete(pod)
        self._forget(pod)
        self.meter.pod_ends(pod, at)
        self.journal.gone(pod, at)
        self.pod_deleted(pod, wall_clock(at), evicted)
        self._delete_dependents(pod, at)

    def _schedule_deletion(self, obj: KObject, at: Microseconds, action: Callable[[Microseconds], None]) -> None:
        self.event_queue.put(
            at, Rank.DELETE, action,
            namespace=obj.metadata.namespace, name=obj.metadata.name, kind=obj.kind,
            is_valid=lambda: self.store.current(obj) is not None,
        )  # fmt: skip

    def _track(self, pod: Pod) -> None:
        waits = not pod.spec.node_name and pod.status.phase == "Pending"
        if waits and pod.spec.scheduler_name == names.DEFAULT_SCHEDULER:
            self.pending.add(key(pod))
        else:
            self.pending.discard(key(pod))
        if pod.spec.node_name and pod.status.phase not in _FINISHED:
            self._on_node.setdefault(pod.spec.node_name, set()).add(key(pod))

    def _forget(self, pod: Pod) -> None:
        """The pod neither waits nor occupies a node any more."""
        uid = pod.metadata.uid
        self._starts.pop(uid, None)
        self._ends.pop(uid, None)
        self._restarts.forget(uid)
        self.pending.discard(key(pod))
        self._on_node.get(pod.spec.node_name, set()).discard(key(pod))


def _timing(pod: Pod) -> PodTiming:
    return pod_timing(pod.metadata.annotations)


def _message(error: ApiError) -> str:
    return f"{error.field}: {error.message}" if error.field else error.message
