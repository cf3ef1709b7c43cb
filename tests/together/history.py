"""What happened in a run, read from the JSON report alone: who ran where and when, who waited, who was evicted."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from together.situations import Report
from together.worlds import Work, World

NEVER = float("inf")


@dataclass
class Life:
    """One pod on one node. It counts as running in [start, end); its room is free from `gone` on."""

    pod: str
    work: Work
    node: str
    start: float
    end: float = NEVER
    gone: float = NEVER
    finished: bool = False


@dataclass(frozen=True)
class Eviction:
    time: float
    pod: str
    work: Work
    beneficiary: Work | None  # None: the message names nobody


@dataclass
class Wait:
    """A pod that exists and is not bound, in [since, until)."""

    work: Work
    since: float
    until: float = NEVER


@dataclass
class History:
    end: float
    lives: list[Life] = field(default_factory=list)
    waits: list[Wait] = field(default_factory=list)
    evictions: list[Eviction] = field(default_factory=list)
    reserved: list[tuple[float, Work]] = field(default_factory=list)
    bound_twice: list[tuple[float, str]] = field(default_factory=list)

    def starts(self, work: Work) -> list[float]:
        """When all its pods ran at once (or had finished), each time that this became so."""
        lives = [life for life in self.lives if life.work is work]
        times: list[float] = []
        before = False
        for time in sorted({life.start for life in lives} | {life.end for life in lives}):
            here = [life for life in lives if life.start <= time and (life.end > time or life.finished)]
            now = len({life.pod for life in here}) >= work.pods
            if now and not before:
                times.append(time)
            before = now
        return times

    def running(self, work: Work, time: float) -> bool:
        return any(life.work is work and life.start <= time < life.end for life in self.lives)

    def over(self, work: Work, time: float) -> bool:
        ended = {life.pod for life in self.lives if life.work is work and life.finished and life.end <= time}
        return len(ended) >= work.pods

    def first_start(self, work: Work) -> float | None:
        return next(iter(self.starts(work)), None)


def read(world: World, report: Report) -> History:
    names = {work.name: work for work in world.works}
    groups = {told["podGroup"]: work for pod, told in report["pods"].items() if (work := _owner(names, pod))}
    history = History(report["end"])
    running: dict[str, Life] = {}
    waiting: dict[str, Wait] = {}
    for event in report["events"]:
        time, kind, pod = event["t"], event["type"], event["object"]
        work = _owner(names, pod)
        if work is None:
            continue
        if kind == "Submitted":
            waiting[pod] = Wait(work, time)
            history.waits.append(waiting[pod])
        elif kind == "Bound":
            if pod in running:
                history.bound_twice.append((time, pod))
            if pod in waiting:
                waiting.pop(pod).until = time
            running[pod] = Life(pod, work, event["node"], time)
            history.lives.append(running[pod])
        elif kind == "Reserved":
            history.reserved.append((time, work))
        elif kind in ("Finished", "Evicted"):
            life = running.pop(pod, None)
            if life is not None:
                life.end, life.finished = time, kind == "Finished"
                # Without grace the room of an evicted pod is free in the next cycle only.
                life.gone = time if life.finished else time + max(work.grace, 1e-6)
            if kind == "Evicted":
                history.evictions.append(Eviction(time, pod, work, _named(names, groups, event["message"], work)))
    return history


def _owner(names: dict[str, Work], pod: str) -> Work | None:
    """A pod is named as its work, or that and a number, or that, the name of the task (t) and a number."""
    for candidate in (pod, pod.rpartition("-")[0], pod.rpartition("-")[0].removesuffix("-t")):
        if candidate in names:
            return names[candidate]
    return None


def _named(names: dict[str, Work], groups: dict[str, Work], message: str, victim: Work) -> Work | None:
    for word in re.findall(r"[a-z0-9.-]+/[a-z0-9.-]*[a-z0-9]", message):
        found = groups.get(word) or _owner(names, word)
        if found is not None and found is not victim:
            return found
    return None


def usage(lives: list[Life]) -> dict[str, int]:
    """CPUs on each node."""
    used: dict[str, int] = defaultdict(int)
    for life in lives:
        used[life.node] += life.work.cpu
    return used
