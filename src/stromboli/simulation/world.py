"""The world around the components: an API server, kubelets and users, in memory and in virtual time.

Everything that changes an object goes through here, whoever wants it: a user by the scenario, the scheduler
by a decision, a controller by a change. The life of a pod is here in one piece::

    created ──▶ Pending ──bind──▶ Running ──its time is up──▶ Succeeded / Failed (the object stays)
                   │                 │
                   │ deleted         │ evicted or deleted
                   ▼                 ▼
                 gone ◀──grace── leaving (deletionTimestamp set, the room is still taken)

An object that goes takes along what it owns, as a garbage collector would; a namespace takes what is in it;
and the pods of a node that goes are lost with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from msgspec.structs import replace

from stromboli.api import (
    ApiError,
    Condition,
    ContainerState,
    ContainerStateTerminated,
    ContainerStatus,
    Job,
    KObject,
    Namespace,
    Node,
    Pod,
    PodGroup,
    Queue,
    is_namespaced,
    key,
    names,
)
from stromboli.api.pod_timing import PodTiming, pod_timing
from stromboli.simulation.report.journal import Journal
from stromboli.simulation.scenario.file import Arrival, PatchOrder, called
from stromboli.simulation.scenario.patches import patched

from .admission import admitted, check_deletion
from .event_queue import Agenda, Rank
from .store import Conflict, Store
from .virtual_time import Moment, clock, later, moment, seconds, stamp

T = TypeVar("T", bound=KObject)

_FINISHED = ("Succeeded", "Failed")


class World:
    def __init__(self, journal: Journal) -> None:
        self.store = Store()
        self.agenda = Agenda()
        self.journal = journal
        # Told whenever a pod is evicted or its object goes; the controllers of the day.
        self.pod_deleted: Callable[[Pod, float, bool], None] = lambda pod, now, evicted: None
        self.pending: set[str] = set()  # keys of pods without a node that are to get one
        self.crowded: set[str] = set()  # nodes whose room or load somebody set by hand; to be looked at
        # Counts what gets anybody further: objects that come, go or reach another phase. Words may change
        # from cycle to cycle (how long a pod has been waiting, say) without anything having moved.
        self.moves = 0
        self._starts: dict[str, Moment] = {}  # by uid of a running pod
        self._ends: dict[str, Moment] = {}  # by uid of a running pod whose end is known
        self._on_node: dict[str, set[str]] = {}  # keys of pods that hold room there

    # -- users ----------------------------------------------------------------------------------------------

    def arrive(self, arrival: Arrival, at: Moment) -> None:
        created = self.create(arrival.object, at)
        until = arrival.lifetime.until
        if created is not None and until is not None:
            self._put_deletion(created, until, lambda when: self.delete(created, when))

    def patch(self, order: PatchOrder, at: Moment) -> None:
        before = self.store.get(order.kind, order.key)
        if before is None:
            self.journal.warn(at, order.key, "PatchRefused", f"There is no {called(order.kind, order.key)}.")
            return
        try:
            after = patched(before, order)
            meta = replace(after.metadata, generation=before.metadata.generation + 1)
            self.change(replace(after, metadata=meta), at)
        except ApiError as error:
            self.journal.warn(at, order.key, "PatchRefused", _sentence(error))
            return
        if isinstance(after, Node):
            self.crowded.add(after.metadata.name)
        elif isinstance(after, Pod):
            self._pod_patched(order.key, at)

    def _pod_patched(self, pod_key: str, at: Moment) -> None:
        pod = self.store.get(Pod, pod_key)
        assert pod is not None
        started = self._starts.get(pod.metadata.uid)
        if started is not None and not _is_leaving(pod):
            self._expect_end(pod, started, not_before=at)

    # -- objects --------------------------------------------------------------------------------------------

    def create(self, obj: T, at: Moment) -> T | None:
        """Put an object there; None, with a warning, if it is refused."""
        try:
            created = self.store.create(admitted(obj, self.store), at)
        except ApiError as error:
            self.journal.warn(at, key(obj), "Refused", _sentence(error))
            return None
        except Conflict:
            self.journal.warn(at, key(obj), "Refused", f"A {obj.kind} of that name is there already.")
            return None
        self.moves += 1
        if isinstance(created, PodGroup):
            self.journal.group_seen(created)
        elif isinstance(created, Job):
            self.journal.jobs[key(created)] = seconds(at)
        elif isinstance(created, Pod):
            self._pod_created(created, at)
        assert isinstance(created, type(obj))
        return created

    def change(self, obj: KObject, at: Moment) -> KObject:
        """Put a changed object in place; ApiError or Conflict if that cannot be."""
        before = self.store.current(obj)
        updated = self.store.update(admitted(obj, self.store, before=before))
        self.moves += _phase(updated) != _phase(before)
        if isinstance(updated, PodGroup):
            self.journal.group_seen(updated)
        elif isinstance(updated, Pod):
            self.journal.pod_seen(updated)
            self._track(updated)
            if updated.status.phase in _FINISHED and isinstance(before, Pod) and before.status.phase not in _FINISHED:
                self._ended(updated, at, "it was told so by a patch")
        return updated

    def delete(self, obj: KObject, at: Moment, reason: str = "") -> None:
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
            self.journal.warn(at, key(found), "DeletionRefused", _sentence(error))
            return
        self.store.delete(found)
        self.moves += 1
        match found:
            case Node():
                for pod_key in sorted(self._on_node.get(found.metadata.name, ())):
                    pod = self.store.get(Pod, pod_key)
                    assert pod is not None
                    self.journal.evicted(pod, at, "NodeLost", f"Its node {found.metadata.name} was deleted.")
                    self._remove_pod(pod, at, evicted=True)
            case Namespace():
                for inhabitant in self.store.everything():
                    if is_namespaced(type(inhabitant)) and inhabitant.metadata.namespace == found.metadata.name:
                        self.delete(inhabitant, at, "its namespace was deleted")
            case _:
                pass
        self._orphaned(found, at)

    def _orphaned(self, owner: KObject, at: Moment) -> None:
        for dependent in self.store.dependents(owner.metadata.uid):
            self.delete(dependent, at, f"its owner, {owner.kind} {owner.metadata.name}, is gone")

    # -- pods -----------------------------------------------------------------------------------------------

    def bind(self, pod: Pod, node: str, at: Moment, *, backfill: bool) -> None:
        meta = pod.metadata
        if backfill:
            meta = replace(meta, annotations={**meta.annotations, names.BACKFILL: "true"})
        bound = replace(pod, metadata=meta, spec=replace(pod.spec, node_name=node))
        self.journal.write(at, "Bound", key(pod), node=node)
        self._start(bound, at)

    def evict(self, pod: Pod, at: Moment, reason: str, message: str) -> None:
        if _is_leaving(pod) or pod.status.phase in _FINISHED:
            return
        self.journal.evicted(pod, at, reason, message)
        self.moves += 1
        self._leave(pod, at, evicted=True)

    def _pod_created(self, pod: Pod, at: Moment) -> None:
        self.journal.submitted(pod, at)
        self.journal.pod_seen(pod)
        if pod.status.phase in _FINISHED:
            self.journal.finished(pod, at, "it was created as finished")
        elif pod.spec.node_name:
            self.crowded.add(pod.spec.node_name)
            self._start(pod, at)
        elif pod.status.phase != "Pending":
            self.store.update(replace(pod, status=replace(pod.status, phase="Pending")))
        self._track(pod)

    def _start(self, pod: Pod, at: Moment) -> None:
        scheduled = Condition(type="PodScheduled", status="True", last_transition_time=stamp(at))
        status = replace(
            pod.status, phase="Running", start_time=stamp(at), conditions=[scheduled], nominated_node_name=""
        )
        running = self.store.update(replace(pod, status=status))
        self.moves += 1
        self._starts[running.metadata.uid] = at
        self.journal.started(running, at)
        self.journal.pod_seen(running)
        self._track(running)
        self._expect_end(running, at, not_before=at)

    def _expect_end(self, pod: Pod, started: Moment, *, not_before: Moment) -> None:
        """Put the end of a running pod down. Called again after a patch, it replaces what was expected."""
        uid = pod.metadata.uid
        run = _timing(pod).run
        if run is None:
            self._ends.pop(uid, None)
            return
        end = max(later(started, moment(run)), not_before)
        if self._ends.get(uid) == end:
            return
        self._ends[uid] = end
        self.agenda.put(
            end, Rank.FINISH, lambda when: self._finish(key(pod), uid, when),
            namespace=pod.metadata.namespace, name=pod.metadata.name, kind=pod.kind,
            holds=lambda: self._ends.get(uid) == end,
        )  # fmt: skip

    def _finish(self, pod_key: str, uid: str, at: Moment) -> None:
        pod = self.store.get(Pod, pod_key)
        assert pod is not None, "an end that still holds has its pod"
        assert pod.metadata.uid == uid
        code = _timing(pod).exit_code
        ended = ContainerState(terminated=ContainerStateTerminated(exit_code=code))
        status = replace(
            pod.status,
            phase="Failed" if code else "Succeeded",
            container_statuses=[ContainerStatus(name=c.name, state=ended) for c in pod.spec.containers],
        )
        self._ended(self.store.update(replace(pod, status=status)), at, f"exit code {code}")

    def _ended(self, pod: Pod, at: Moment, message: str) -> None:
        self._forget(pod)
        self.journal.finished(pod, at, message)

    def _delete_pod(self, pod: Pod, at: Moment, reason: str) -> None:
        if _is_leaving(pod):
            return
        self.journal.deleted(pod, at, reason)
        if pod.status.phase == "Running":
            self._leave(pod, at, evicted=False)
        else:
            self._remove_pod(pod, at, evicted=False)

    def _leave(self, pod: Pod, at: Moment, *, evicted: bool) -> None:
        grace = moment(_timing(pod).grace or 0)
        if not grace:
            self._remove_pod(pod, at, evicted=evicted)
            return
        gone = later(at, grace)
        meta = replace(
            pod.metadata, deletion_timestamp=stamp(gone), deletion_grace_period_seconds=round(seconds(grace))
        )
        leaving = self.store.update(replace(pod, metadata=meta))
        self._ends.pop(pod.metadata.uid, None)
        self.pod_deleted(leaving, clock(at), evicted)
        self._put_deletion(leaving, gone, lambda when: self._gone(leaving, when, evicted=evicted))

    def _gone(self, pod: Pod, at: Moment, *, evicted: bool) -> None:
        current = self.store.current(pod)
        assert current is not None, "a departure that still holds has its pod"
        self._remove_pod(current, at, evicted=evicted)

    def _remove_pod(self, pod: Pod, at: Moment, *, evicted: bool) -> None:
        self.store.delete(pod)
        self._forget(pod)
        self.journal.gone(pod, at)
        self.pod_deleted(pod, clock(at), evicted)
        self._orphaned(pod, at)

    def _put_deletion(self, obj: KObject, at: Moment, act: Callable[[Moment], None]) -> None:
        self.agenda.put(
            at, Rank.DELETE, act,
            namespace=obj.metadata.namespace, name=obj.metadata.name, kind=obj.kind,
            holds=lambda: self.store.current(obj) is not None,
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
        """It neither waits nor holds room any more."""
        uid = pod.metadata.uid
        self._starts.pop(uid, None)
        self._ends.pop(uid, None)
        self.pending.discard(key(pod))
        self._on_node.get(pod.spec.node_name, set()).discard(key(pod))


def _timing(pod: Pod) -> PodTiming:
    return pod_timing(pod.metadata.annotations)


def _phase(obj: KObject | None) -> str:
    match obj:
        case Pod() | PodGroup():
            return obj.status.phase
        case Job():
            return f"{obj.status.state.phase} {obj.status.version}"
        case Queue():
            return obj.status.state
        case _:
            return ""


def _is_leaving(pod: Pod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def _sentence(error: ApiError) -> str:
    return f"{error.field}: {error.message}" if error.field else error.message
