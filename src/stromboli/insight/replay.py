"""Decides a recording again, step by step, and compares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass

from stromboli.api import ApiError
from stromboli.cluster import Cluster
from stromboli.scheduling.containment import NotContained, RecordedCuts, run_contained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle
from stromboli.scheduling.registry import Registry

from .explanation import JobExplanation, explain_on
from .job_view import name_of
from .recording import Step, encode_decisions


@dataclass(frozen=True, slots=True)
class ReplayedCycle:
    number: int  # from 1
    line: int
    now: float
    events: int
    cycle: Cycle
    recorded: bytes
    decided: bytes
    waiting: frozenset[str]  # names of the jobs that waited after it

    @property
    def is_same(self) -> bool:
        return self.recorded == self.decided


class Replay:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._scheduler = Scheduler(registry.default(), registry)
        self._scheduler_name = ""
        self._cluster = Cluster()
        self._number = 0

    def run(self, steps: Iterable[Step]) -> Iterator[ReplayedCycle]:
        for step in steps:
            if self._prepare(step):
                yield self._decide(step)

    def explain(self, steps: Iterable[Step], number: int, job: str) -> JobExplanation | None:
        """Why a job waited in a cycle, from the session of that cycle. None: there was no such job."""
        for step in steps:
            if not self._prepare(step):
                continue
            if self._number == number:
                assert step.now is not None
                self._cluster.set_aside({ref: aside.entirely for ref, aside in step.inputs.put_aside.items()})
                return explain_on(self._cluster, self._scheduler, step.now, job)
            self._decide(step)
        return None

    def _prepare(self, step: Step) -> bool:
        """Up to the cycle of the step; False if it has none."""
        if step.start is not None:
            self._scheduler_name = step.start.scheduler_name
            self._reset()
        elif step.configuration is not None:
            loaded = self._registry.load(step.configuration, where=f"configuration in line {step.number}")
            self._scheduler = Scheduler(loaded, self._registry)
        elif step.reset:
            self._reset()
        for event in step.events:
            with suppress(ApiError, ValueError):  # the scheduler ignored an object that it could not use
                self._cluster.apply(event)
        if step.decisions is None:
            self._cluster.snapshot()
            return False
        self._number += 1
        return True

    def _run(self, step: Step) -> Cycle:
        """As the scheduler did: errors are contained, and it is cut where it was cut."""
        assert step.now is not None
        cuts = RecordedCuts(step.cut) if step.cut else None
        try:
            return run_contained(self._scheduler, self._cluster, step.now, step.inputs, may_go_on=cuts)
        except NotContained as failure:
            raise failure.__cause__ or failure from None

    def _reset(self) -> None:
        self._cluster = Cluster(scheduler_name=self._scheduler_name)

    def _decide(self, step: Step) -> ReplayedCycle:
        assert step.now is not None
        assert step.decisions is not None
        cycle = self._run(step)
        jobs = self._cluster.jobs
        return ReplayedCycle(
            number=self._number,
            line=step.number,
            now=step.now,
            events=len(step.events),
            cycle=cycle,
            recorded=step.decisions,
            decided=encode_decisions(cycle.decisions),
            waiting=frozenset(name_of(jobs[key]) for key in cycle.reasons if key in jobs),
        )
