"""Whether a run repeats itself.

Without `--until` a run goes on while anything happens, and some scenarios never come to rest: nodes are reserved for a
job, given up after `reservationTimeout`, and reserved for the next one, in turn and forever. Such a run is over as soon
as its state returns: whatever follows has been seen already.

A state is what decisions depend on: which pods wait and run where, what is reserved for whom, and what is to come,
with times relative to the present. Names that controllers generate are replaced by those of the owners, because a new
pod in the place of an evicted one continues the same story. Ages are not part of the state, because they never return.
They matter only until the last time limit of the scheduler has passed, so states are compared only after that.

States are compared by Brent's method: one earlier state is kept, and replaced by the present one after 1, 2, 4, 8 …
cycles. A state is large, so a few numbers are compared first.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

from stromboli.api import (
    BatchCronJob,
    BatchJob,
    CronJob,
    Job,
    JobFlow,
    KObject,
    PersistentVolumeClaim,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    StorageClass,
    key,
)
from stromboli.api.schedules import parse_schedule
from stromboli.api.volumes.claims import selected_node
from stromboli.api.volumes.provisioning import failed_attempts, provisioning
from stromboli.api.waiting_reservations import waiting_pod_of

from .virtual_time import Microseconds, wall_clock
from .world import World

_TIMES: Final = 20
"""How many times of the schedule of a CronJob are compared."""
_FIRST_CYCLE: Final = 200
"""Cycles before the first comparison. Most runs are over by then."""


class RepetitionDetector:
    def __init__(self, world: World) -> None:
        self._world = world
        self._cycles = 0
        self._horizon = 0  # the longest time that the scheduler has ever waited for a time limit
        self._sketch: Hashable = None  # of the kept state
        self._state: Hashable = None
        self._progress = 0  # of the world, in the kept state
        self._next_kept = _FIRST_CYCLE  # the cycle whose state is kept next

    def returns(self, at: Microseconds, due: Microseconds | None, time_limit: Microseconds | None) -> bool:
        """Whether the run has been in the present state before, and something has happened since. To be called once in
        every cycle. `due` is when the next event happens or a controller acts, and `time_limit` is when the scheduler
        decides differently although nothing happens."""
        self._cycles += 1
        if time_limit is not None:
            self._horizon = max(self._horizon, time_limit - at)
        latest = self._world.event_queue.latest_user_event
        if latest is not None and at <= latest + self._horizon:
            return False
        if self._cycles < _FIRST_CYCLE:
            return False
        sketch = self._make_sketch(at, due, time_limit)
        if self._cycles >= self._next_kept:
            self._next_kept = 2 * self._cycles
            self._sketch, self._state, self._progress = sketch, self._make_state(at), self._world.progress
            return False
        if self._world.progress == self._progress or sketch != self._sketch:
            return False
        return self._make_state(at) == self._state

    def _make_sketch(self, at: Microseconds, due: Microseconds | None, time_limit: Microseconds | None) -> Hashable:
        world = self._world
        return (
            len(world.pending),
            len(world.store.list(Reservation)),
            None if due is None else due - at,
            None if time_limit is None else time_limit - at,
        )

    def _make_state(self, at: Microseconds) -> Hashable:
        store = self._world.store
        pods = sorted(
            (self._lasting_name(pod), pod.status.phase, pod.spec.node_name, pod.metadata.deletion_timestamp is not None)
            for pod in store.list(Pod)
        )
        reservations = []
        for reservation in store.list(Reservation):
            waiting = store.get(Pod, waiting_pod_of(reservation) or "")
            who = reservation.metadata.name if waiting is None else self._lasting_name(waiting)
            reservations.append((who, reservation.status.phase, reservation.spec.node_name))
        statuses = (
            sorted((self._lasting_name(group), group.status.phase) for group in store.list(PodGroup)),
            sorted(
                (self._lasting_name(job), job.status.state.phase, job.status.retry_count) for job in store.list(Job)
            ),
            [(key(q), q.status.state, tuple(q.status.reservation.nodes)) for q in store.list(Queue)],
            [(key(one), self._times_to_come(one, at)) for one in store.list(CronJob)],
            [(key(one), self._times_to_come(one, at)) for one in store.list(BatchCronJob)],
            sorted(
                (self._lasting_name(job), job.status.active, job.status.succeeded, job.status.failed)
                for job in store.list(BatchJob)
            ),
            [(key(one), one.status.state.phase, tuple(one.status.completed_jobs)) for one in store.list(JobFlow)],
            [
                (key(claim), claim.status.phase, selected_node(claim), self._failures_to_come(claim))
                for claim in store.list(PersistentVolumeClaim)
            ],
        )
        to_come = sorted(
            (event.at - at, event.rank, event.kind, self._owner_name(event.kind, event.namespace, event.name))
            for event in self._world.event_queue.valid_events()
        )
        return (
            tuple(pods),
            tuple(sorted(reservations)),
            tuple(tuple(status) for status in statuses),
            tuple(to_come),
        )

    def _failures_to_come(self, claim: PersistentVolumeClaim) -> int:
        """How often a volume for it still cannot be made; 0 also if this never changes."""
        storage_class = self._world.store.get(StorageClass, claim.spec.storage_class_name or "")
        if storage_class is None:
            return 0
        return max(0, provisioning(storage_class.metadata.annotations).failures - failed_attempts(claim))

    def _owner_name(self, kind: str, namespace: str, name: str) -> str:
        pod = self._world.store.get(Pod, f"{namespace}/{name}") if kind == "Pod" else None
        return f"{namespace}/{name}" if pod is None else self._lasting_name(pod)

    def _lasting_name(self, obj: KObject) -> str:
        """The name of the controlling owner, if there is one, or of the owner of that one: the Jobs of a CronJob come
        and go, too."""
        for owner in obj.metadata.owner_references:
            if owner.controller:
                kind = BatchJob if owner.api_version == "batch/v1" else Job
                job = (
                    self._world.store.get(kind, f"{obj.metadata.namespace}/{owner.name}")
                    if owner.kind == "Job"
                    else None
                )
                named = f"{owner.kind} {obj.metadata.namespace}/{owner.name}"
                return named if job is None or not job.metadata.owner_references else self._lasting_name(job)
        return key(obj)

    def _times_to_come(self, cron_job: CronJob | BatchCronJob, at: Microseconds) -> tuple[float, ...]:
        """Of its schedule, from now on. A day is like the one before if its times are."""
        spec, now = cron_job.spec, wall_clock(at)
        if spec.suspend:
            return ()
        schedule, found, time = parse_schedule(spec.schedule, spec.time_zone or ""), list[float](), now
        while len(found) < _TIMES and (following := schedule.next(time)) is not None:
            found.append(following - now)
            time = following
        return tuple(found)
