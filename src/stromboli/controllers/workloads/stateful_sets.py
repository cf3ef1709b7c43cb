"""The StatefulSet controller: pods with numbers, each replaced under its own name.

With `OrderedReady` a pod is created when all with smaller numbers are available, and the one with the highest number
goes first; with `Parallel` nobody waits. A new template replaces pods from the highest number down to the `partition`,
the next one when those above are available again; pods below the partition stay, and are made again, as they were.

In a simulation a pod that is gone is created again one second later. That it is gone follows from the status of the
set, which counts the pods there were, and an annotation has the time of its replacement (`replacement_times`): so
restarts change nothing. A pod that finished stays. A server's node has given up on a pod that finished, so there it is
replaced.

The claims of `volumeClaimTemplates` are made before their pod, and stay when it goes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from stromboli.api import ControllerRevision, PersistentVolumeClaim, Pod, StatefulSet, key
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update

from .amounts import resolved
from .dependents import Dependents
from .numbered_pods import claims_of, numbered_pod
from .owned_pods import OwnedPod, OwnedPods
from .replacement_times import REPLACEMENT_DELAY, read_replacements, with_replacements
from .replica_sets import stand_in
from .revisions import Revisions, revisions_of
from .surroundings import Surroundings
from .workload_controller import RETRY, WorkloadController


@dataclass(slots=True)
class _Visit:
    owner: StatefulSet
    numbers: range
    pods: dict[int, OwnedPod]  # that exist, by number
    revisions: Revisions
    now: float
    is_virtual: bool
    times: dict[int, float] = field(default_factory=dict)  # when missing pods may be created
    deleted: set[int] = field(default_factory=set)
    name_is_taken: bool = False

    @property
    def in_order(self) -> bool:
        return self.owner.spec.pod_management_policy != "Parallel"

    @property
    def partition(self) -> int:
        rolling = self.owner.spec.update_strategy.rolling_update
        return self.numbers.start + (rolling.partition if rolling is not None else 0)

    @property
    def rolls(self) -> bool:
        return self.owner.spec.update_strategy.type != "OnDelete"

    def is_there(self, number: int) -> bool:
        pod = self.pods.get(number)
        return pod is not None and not pod.is_terminating and number not in self.deleted

    def runs(self, number: int) -> bool:
        """It is ready; in a simulation, or has succeeded."""
        pod = self.pods.get(number)
        if pod is None or not self.is_there(number):
            return False
        return pod.is_ready or (self.is_virtual and pod.phase == "Succeeded")

    def available_at(self, number: int) -> float | None:
        """Since when, or from when on, it counts; None if it does not run."""
        pod = self.pods.get(number)
        return pod.ready_since + self.owner.spec.min_ready_seconds if pod is not None and self.runs(number) else None

    def is_available(self, number: int) -> bool:
        at = self.available_at(number)
        return at is not None and at <= self.now

    def is_new(self, number: int) -> bool:
        """From the present template. A pod that a scenario has made says nothing, and is taken to be."""
        revision = self.pods[number].revision
        return revision == self.revisions.present or (self.is_virtual and not revision)


class StatefulSetController(WorkloadController[StatefulSet]):
    kind = StatefulSet

    def __init__(self, pods: OwnedPods, surroundings: Surroundings) -> None:
        super().__init__(pods, surroundings)
        self._revisions = Dependents(ControllerRevision, StatefulSet)

    def revision_changed(self, revision: ControllerRevision, *, exists: bool) -> None:
        self._queue.add_all(self._revisions.update(revision, exists=exists))

    def name_is_free(self, pod: Pod) -> None:
        """A set may have waited for it."""
        self._queue.add(key(pod).rpartition("-")[0])

    def _visit(self, owner: StatefulSet, objects: Objects, most: int, now: float) -> Iterable[Change]:
        if owner.metadata.deletion_timestamp is not None:
            return
        status = owner.status
        seen = status.update_revision if status.observed_generation == owner.metadata.generation else ""
        revisions = revisions_of(
            owner, list(self._revisions.of(owner, objects)), objects, present=seen, may_be_copy=self._in.is_virtual
        )
        if revisions.collisions is not None:
            yield Update(replace(owner, status=replace(status, collision_count=revisions.collisions)))
            return
        yield from revisions.changes
        first = owner.spec.ordinals.start if owner.spec.ordinals is not None else 0
        numbers = range(first, first + min(owner.spec.replicas, MAX_JOB_REPLICAS))
        prefix = f"{key(owner)}-"
        pods = {pod.number: pod for pod in self._pods_of(owner).pods.values() if pod.key == f"{prefix}{pod.number}"}
        visit = _Visit(owner, numbers, pods, revisions, now, self._in.is_virtual)
        if self._in.is_virtual:
            visit.times = _replacements(visit)
        changes, is_settled = _keep(visit, objects, most)
        if is_settled:
            changes += _without_surplus(visit, most)
            changes += _renewed(visit, most)
        yield from changes
        yield from self._tell(visit)
        yield from revisions.beyond(owner.spec.revision_history_limit, _live(visit))

    def _tell(self, visit: _Visit) -> Iterable[Change]:
        owner, now = visit.owner, visit.now
        there = [number for number in visit.pods if visit.is_there(number)]
        starts = [at for number in there if (at := visit.available_at(number)) is not None]
        updated = sum(visit.is_new(number) for number in there)
        present = visit.revisions.present
        current = owner.status.current_revision or present
        ready = len(starts)
        if visit.rolls and updated == len(there) == ready == len(visit.numbers):
            current = present
        old = sum(visit.pods[number].revision == current for number in there)
        status = replace(
            owner.status,
            replicas=len(there),
            ready_replicas=ready,
            available_replicas=sum(at <= now for at in starts),
            current_replicas=updated if current == present else old,
            updated_replicas=updated,
            current_revision=current,
            update_revision=present,
            observed_generation=owner.metadata.generation,
        )
        self._queue.set_due(key(owner), self._due(visit, starts))
        annotations = owner.metadata.annotations
        if self._in.is_virtual:
            annotations = with_replacements(annotations, _by_time(visit.times))
        if status != owner.status or annotations != owner.metadata.annotations:
            yield Update(replace(owner, metadata=replace(owner.metadata, annotations=annotations), status=status))

    def _due(self, visit: _Visit, starts: Iterable[float]) -> float | None:
        waiting = [at for at in (*visit.times.values(), *starts) if at > visit.now]
        if visit.name_is_taken and not self._in.is_virtual:
            waiting.append(visit.now + RETRY)
        return min(waiting, default=None)


def _keep(visit: _Visit, objects: Objects, most: int) -> tuple[list[Change], bool]:
    """Create what is missing. Whether nothing else has to wait for that."""
    changes: list[Change] = []
    for number in visit.numbers:
        if most <= len(changes):
            return changes, False
        pod = visit.pods.get(number)
        if pod is None:
            if visit.times.get(number, visit.now) <= visit.now:
                changes += _create(visit, number, objects)
                visit.times.pop(number, None)
            if visit.in_order:
                return changes, False
        elif pod.phase in ("Succeeded", "Failed") and not pod.is_terminating and not visit.is_virtual:
            visit.deleted.add(number)
            changes.append(Delete(stand_in(pod), reason="it has finished, and its StatefulSet makes it again"))
            if visit.in_order:
                return changes, False
        elif visit.in_order and not visit.is_available(number):
            return changes, False
    return changes, True


def _create(visit: _Visit, number: int, objects: Objects) -> list[Change]:
    owner = visit.owner
    if objects.get(Pod, f"{key(owner)}-{number}") is not None:
        visit.name_is_taken = True  # by somebody else
        return []
    name = visit.revisions.present
    if visit.rolls and number < visit.partition:
        name = owner.status.current_revision or name
    revision = visit.revisions.named(name)
    changes: list[Change] = []
    for claim in claims_of(owner, number):
        if objects.get(PersistentVolumeClaim, key(claim)) is None:
            changes.append(Create(claim, owner=owner))
    made, template = numbered_pod(owner, number, name, revision)
    return [*changes, Create(made, template)]


def _without_surplus(visit: _Visit, most: int) -> list[Change]:
    """The pod with the highest number goes first; in order, the next when it is gone."""
    changes: list[Change] = []
    for number in sorted((number for number in visit.pods if number not in visit.numbers), reverse=True):
        if visit.is_there(number) and len(changes) < most:
            visit.deleted.add(number)
            changes.append(Delete(stand_in(visit.pods[number]), reason="the StatefulSet was scaled down"))
        if visit.in_order:
            break
    return changes


def _renewed(visit: _Visit, most: int) -> list[Change]:
    """From the highest number down, and only so many at a time that are not available."""
    if not visit.rolls:
        return []
    rolling = visit.owner.spec.update_strategy.rolling_update
    limit = None if rolling is None else rolling.max_unavailable
    allowed = max(1, 1 if limit is None else resolved(limit, len(visit.numbers), round_up=True))
    changes: list[Change] = []
    busy = 0
    for number in sorted((number for number in visit.numbers if number >= visit.partition), reverse=True):
        if busy >= allowed or len(changes) >= most:
            break
        if visit.is_there(number) and not visit.is_new(number):
            visit.deleted.add(number)
            changes.append(Delete(stand_in(visit.pods[number]), reason="its StatefulSet has a new template"))
        busy += not visit.is_available(number)
    return changes


def _replacements(visit: _Visit) -> dict[int, float]:
    """When each of the missing pods may be created. Those that never were there wait for their turn in any case."""
    owner = visit.owner
    missing = [number for number in visit.numbers if not visit.is_there(number)]
    times: dict[int, float] = {}
    for due, numbers in read_replacements(owner.metadata).items():
        named = set(numbers.split(","))
        times |= {number: due for number in missing if str(number) in named}
    if len(visit.numbers) - len(missing) < min(owner.status.replicas, len(visit.numbers)):
        for number in missing:
            times.setdefault(number, visit.now + REPLACEMENT_DELAY)
    return times


def _by_time(times: dict[int, float]) -> dict[float, str]:
    found: dict[float, str] = {}
    for number, due in sorted(times.items()):
        found[due] = f"{found[due]},{number}" if due in found else str(number)
    return found


def _live(visit: _Visit) -> set[str]:
    named = {pod.revision for pod in visit.pods.values()}
    return {*named, visit.revisions.present, visit.owner.status.current_revision}
