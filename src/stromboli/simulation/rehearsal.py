"""What would happen next: the present state of a cluster, continued in virtual time.

A copy of the objects goes into a simulation that starts now, with the scheduler and the controllers of the product. So
"starts now without the selector zone=a" is not a guess: somebody has tried it, on a copy without the selector.

How long a pod runs is known only if it says so (`scheduling.stromboli.io/estimate`, `runningEstimate` of its Job, or on
hollow nodes `sim.stromboli.io/run`). All others run forever here. Evicted pods stop at once.

Unlike a simulation of a scenario, it goes on after an error in the scheduler, as the cluster that it is a copy of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from stromboli.api import (
    ApiError,
    BatchJob,
    DaemonSet,
    Deployment,
    Job,
    KObject,
    ObjectMeta,
    Pod,
    PodGroup,
    ReplicaSet,
    StatefulSet,
    group_name_of,
    key,
    names,
)
from stromboli.api.pod_timing import pod_timing
from stromboli.api.quantity import QuantityError, format_duration, parse_duration
from stromboli.api.upstream import plain_name
from stromboli.controllers import QueueLocks
from stromboli.scheduling.configuration import Configuration
from stromboli.scheduling.containment import CopiedScheduler
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.queue_locks import lock_rules
from stromboli.scheduling.registry import Registry

from .engine import Engine
from .group_history import GroupRecord
from .journal import REFUSED, Event, Journal
from .scenario import Lifetime, Origin, Scenario, ScenarioObject, check_scenario, read_scenario
from .virtual_time import START, Microseconds, from_wall_clock, later, microseconds, to_seconds, wall_clock

PERIOD: Final = microseconds(1)
_RELOCK_SECONDS: Final = 5.0
_MAX_CYCLES: Final = 20_000
_SHORT: Final = 60.0
"""Seconds. A longer rehearsal ends when nothing more happens; a short one stops exactly at its end."""
_SIM_NAMES: Final = (names.SIM_RUN, names.SIM_EXIT_CODE, names.SIM_GRACE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of a job. Times are seconds since 1970."""

    started: float | None  # when its minimum ran, or one more pod of a job that ran before; None: it did not
    ended: float  # when the rehearsal ended
    placements: dict[str, str] = field(default_factory=dict)  # nodes of its pods, by pod
    evictions: list[Event] = field(default_factory=list)  # until then, of pods of all jobs
    refused: str = ""  # why the object was not accepted


class Rehearsal:
    def __init__(
        self,
        objects: Iterable[KObject],
        now: float,
        registry: Registry,
        configuration: Configuration,
        *,
        scheduler_name: str = names.DEFAULT_SCHEDULER,
        submitted: Sequence[KObject] = (),
    ) -> None:
        """`submitted`: objects that a user creates now."""
        self._asked = from_wall_clock(now)
        self._now = later(self._asked, PERIOD)  # the next cycle
        self._at = self._now
        self._cycles = 0
        existing = with_known_ends(objects)
        if scheduler_name != names.DEFAULT_SCHEDULER:
            existing = [_scheduled_here(obj, scheduler_name) for obj in existing]
        self.journal = Journal()
        self._engine = Engine(
            Scenario([ScenarioObject(obj, Lifetime(self._now), _ORIGIN) for obj in with_known_ends(submitted)]),
            self.journal,
            new_scheduler=lambda: CopiedScheduler(
                Scheduler(configuration, registry), lambda: self._engine.build_cluster_again()
            ),
            period=PERIOD,
            new_locks=_locks(configuration),
            start=self._now,
            existing=existing,
        )
        # An API server has filled in restartPolicy: Always, and what states how long it runs is over then.
        self._engine.world.restarts_containers = False
        self._engine.on_cycle = self._count

    def _count(self, at: Microseconds) -> None:
        self._at = at
        self._cycles += 1

    def run(self, job: str, *, seconds: float, on_cycle: Callable[[], None] = lambda: None) -> Outcome:
        """Until the job ("namespace/name" of what the user created, or of its PodGroup) has started, or so long.
        `on_cycle` may raise an error to end it."""
        before = len(self._present(self._record(job)))
        horizon = later(self._asked, microseconds(seconds))
        if seconds <= _SHORT:
            self._engine.end_at(horizon)
        has_started = [False]

        def is_over() -> bool:
            on_cycle()
            if self._at <= horizon:  # cycles that change nothing are skipped, also beyond it
                has_started[0] = self._has_started(self._record(job), before)
            return has_started[0] or self._at >= horizon or self._cycles >= _MAX_CYCLES

        self._engine.is_over = is_over
        self._engine.run()
        return Outcome(
            started=wall_clock(self._at) if has_started[0] else None,
            ended=wall_clock(self._at),
            placements=self._placements(job),
            evictions=[event for event in self.journal.events if event.type == "Evicted"],
            refused=next((e.message for e in self.journal.events if e.reason == REFUSED and e.object == job), ""),
        )

    def starts(self, groups: Iterable[str], *, seconds: float, most_cycles: int) -> dict[str, float]:
        """When each of these groups starts, by key, if it does so within these bounds."""
        records = self.journal.groups.groups
        before = {group: len(self._present(records.get(group))) for group in groups}
        horizon = later(self._asked, microseconds(seconds))
        found: dict[str, float] = {}

        def is_over() -> bool:
            if self._at <= horizon:
                for group in [group for group, pods in before.items() if self._has_started(records.get(group), pods)]:
                    found[group] = wall_clock(self._at)
                    del before[group]
            return not before or self._at >= horizon or self._cycles >= most_cycles

        self._engine.is_over = is_over
        self._engine.run()
        return found

    @property
    def objects(self) -> list[KObject]:
        """As they are now."""
        return list(self._engine.world.store.everything())

    @property
    def now(self) -> float:
        return wall_clock(self._at)

    def _record(self, job: str) -> GroupRecord | None:
        groups = self.journal.groups.groups
        return groups.get(job) or next((g for g in groups.values() if plain_name(g.shown_name) == job), None)

    def _placements(self, job: str) -> dict[str, str]:
        running = {pod for record in self._with_parts(self._record(job)) for pod in record.running}
        pods = self.journal.pods
        return {pod: pods[pod].node for pod in sorted(running) if pod in pods}

    def _with_parts(self, record: GroupRecord | None) -> list[GroupRecord]:
        return [] if record is None else [record, *self.journal.groups.parts(record.key)]

    def _present(self, record: GroupRecord | None) -> set[str]:
        """The pods that run, or have succeeded."""
        return {pod for one in self._with_parts(record) for pod in one.running | one.succeeded}

    def _has_started(self, record: GroupRecord | None, before: int) -> bool:
        """Its minimum runs, or one more pod of a job that ran before."""
        if record is None or record.present < record.minimum:
            return False
        return len(self._present(record)) > before


def objects_at(
    files: Sequence[str], seconds: float, registry: Registry, configuration: Configuration
) -> tuple[list[KObject], float]:
    """The objects of a scenario after so many seconds, and the time there."""
    objects, now, _ = scenario_at(files, seconds, registry, configuration)
    return objects, now


def scenario_at(
    files: Sequence[str], seconds: float, registry: Registry, configuration: Configuration
) -> tuple[list[KObject], float, dict[str, str]]:
    """The same, and why objects that were to be created by then were not, by key."""
    scenario = read_scenario(files)
    check_scenario(scenario)
    end = microseconds(seconds)
    journal = Journal()
    engine = Engine(
        scenario,
        journal,
        new_scheduler=lambda: Scheduler(configuration, registry),
        period=PERIOD,
        until=end,
        new_locks=_locks(configuration),
    )
    engine.run()
    refused = {event.object: event.message for event in journal.events if event.reason == REFUSED}
    return list(engine.world.store.everything()), wall_clock(end), refused


def creation_times(files: Sequence[str], name: str) -> list[float]:
    """When users create jobs or pods with this "namespace/name", in seconds after the start of the scenario."""
    kinds = (Job, Pod, PodGroup, ReplicaSet, StatefulSet, Deployment, DaemonSet, BatchJob)
    created = [one for one in read_scenario(files).objects if isinstance(one.object, kinds) and key(one.object) == name]
    return [to_seconds(one.lifetime.at) for one in created]


def _locks(configuration: Configuration) -> Callable[[], QueueLocks]:
    rules = lock_rules(configuration)
    return lambda: QueueLocks(
        lambda: rules, period=_RELOCK_SECONDS, origin=wall_clock(START), step=to_seconds(PERIOD), follows_pods=True
    )


_ORIGIN: Final = Origin("submitted", 1, 1)


def with_known_ends(objects: Iterable[KObject]) -> list[KObject]:
    """Pods and templates say how long they run in the way the simulator reads it, if they say so at all."""
    objects = list(objects)
    groups = {key(obj): obj.metadata.annotations.get(names.ESTIMATE) for obj in objects if isinstance(obj, PodGroup)}
    return [_with_known_end(obj, groups) for obj in objects]


def _with_known_end(obj: KObject, groups: dict[str, str | None]) -> KObject:
    match obj:
        case Pod():
            group = group_name_of(obj)
            said = groups.get(f"{obj.metadata.namespace}/{group}") if group else None
            return replace(obj, metadata=_timed(obj.metadata, said))
        case Job():
            estimate = obj.spec.running_estimate
            said = None if estimate is None else str(estimate)
            tasks = [
                replace(task, template=replace(task.template, metadata=_timed(task.template.metadata, said)))
                for task in obj.spec.tasks
            ]
            return replace(obj, spec=replace(obj.spec, tasks=tasks))
        case ReplicaSet() | StatefulSet() | Deployment() | DaemonSet() | BatchJob():
            template = replace(obj.spec.template, metadata=_timed(obj.spec.template.metadata, None))
            return replace(obj, spec=replace(obj.spec, template=template))
        case _:
            return obj


def _timed(meta: ObjectMeta, estimate: str | None) -> ObjectMeta:
    annotations = meta.annotations
    try:
        timing = pod_timing(annotations)
    except ApiError:  # on a real cluster nobody checks these
        annotations = {name: value for name, value in annotations.items() if name not in _SIM_NAMES}
        timing = pod_timing(annotations)
    said = annotations.get(names.ESTIMATE, estimate)
    if timing.run is None and said is not None:
        with suppress(QuantityError):
            annotations = {**annotations, names.SIM_RUN: format_duration(parse_duration(said))}
    return meta if annotations is meta.annotations else replace(meta, annotations=annotations)


def _scheduled_here(obj: KObject, scheduler_name: str) -> KObject:
    """A simulation has one scheduler, of the default name. The pods of others only use resources."""
    if isinstance(obj, Pod):
        return replace(obj, spec=replace(obj.spec, scheduler_name=_translated(obj.spec.scheduler_name, scheduler_name)))
    if isinstance(obj, Job):
        return replace(obj, spec=replace(obj.spec, scheduler_name=_translated(obj.spec.scheduler_name, scheduler_name)))
    return obj


def _translated(name: str, ours: str) -> str:
    return names.DEFAULT_SCHEDULER if name in (ours, "") else "another"
