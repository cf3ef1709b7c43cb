"""A busy week, three ways: what setting nodes aside for starving jobs costs, and what it gives.

A modest cluster is offered nearly as much work as it can do: a stream of small jobs that run for minutes, and now and
then a big gang that needs most of several nodes at once. Small jobs fit into every hole, so the holes never grow
together, and the big ones wait until the stream dries up. The same week is simulated

    no reserve            nobody looks after the big ones
    reserve               nodes are set aside for jobs that have waited for longer than the threshold
    reserve + backfill    and room that a gang holds before it can start is lent to small jobs

in virtual time, by the scheduler and the controllers as they are. Printed are the utilisation while jobs arrive, and
how long jobs waited; with matplotlib (the extra `reports`) there is a picture, too.

    python benchmarks/starvation.py [--days 7] [--seed 1] [--output DIR]

What was chosen, and why:

- Cycles are a minute apart: jobs run for minutes and hours, and a second more or less changes nothing but the time
  this takes.
- The threshold is four hours. At such a load small jobs wait for an hour or two now and then; with a shorter threshold
  nodes would be set aside for them, too, who do not need it, and big ones would have to queue for that.
- There is one queue and one priority, so reclaim and preempt have nothing to do and are left out. So are the plugins
  overcommit and proportion: they keep jobs outside by sums, less what is promised to jobs that are inside and wait. A
  big gang that waits inside would keep out as many small jobs as it is large, and this is about who gets which node.
- Everything is a Job, and makes its pods again when they were evicted. Work lost that way is used CPU time like any
  other for a machine, and nothing for its owner: it is counted, and shown beside.
- A job's *wait* is what lies between its submission and its end, less the time it needs to run. So it contains what an
  eviction cost.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from stromboli.api import decode, names
from stromboli.files import write_output
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.scenario import Lifetime, Origin, Scenario, ScenarioObject
from stromboli.simulation.virtual_time import from_wall_clock, microseconds, to_seconds

MINUTE, HOUR, DAY = 60.0, 3600.0, 86_400.0
PERIOD = MINUTE
THRESHOLD = 4 * HOUR
CPUS = 16  # of a node

_TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: nodeorder}]
"""
_RESERVE = "- {name: reserve, arguments: {starvingJobTimeThreshold: THRESHOLD}}\n"
_LENDING = "- {name: backfill, arguments: {backfillNonBestEffort: true}}\n"
_USUAL = "actions:\n- name: enqueue\n- name: allocate\n"
WAYS = {
    "no reserve": _USUAL + "- name: backfill\n" + _TIERS,
    "reserve": _USUAL + _RESERVE + "- name: backfill\n" + _TIERS,
    "reserve + backfill": _USUAL + _RESERVE + _LENDING + _TIERS,
}


# -- the week -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Work:
    """One gang: so many pods, which all run equally long."""

    name: str
    big: bool
    at: float  # seconds after the start, when it is submitted
    pods: int
    cpu: int  # of each pod
    run: float  # seconds

    @property
    def cpu_seconds(self) -> float:
        return self.pods * self.cpu * self.run


@dataclass(frozen=True, slots=True)
class Week:
    nodes: int
    span: float  # seconds in which jobs arrive
    works: tuple[Work, ...]

    @property
    def capacity(self) -> float:
        """CPU-seconds offered by the nodes while jobs arrive."""
        return self.nodes * CPUS * self.span

    @property
    def load(self) -> float:
        return sum(work.cpu_seconds for work in self.works) / self.capacity


def generate(*, days: float, seed: int, nodes: int = 20, load: float = 0.95, big_per_day: float = 3) -> Week:
    """Jobs come at random times. Small ones are drawn until the week is as full as it should be."""
    dice = random.Random(seed)
    span = days * DAY
    works = []
    for number in range(max(1, round(big_per_day * days))):
        width = dice.randint(max(1, nodes // 5), max(1, nodes * 2 // 5))
        # Not on the last day: a job that comes just before the stream ends does not have to wait for it.
        at = dice.uniform(0.0, span * (1 - 1 / (days + 1)))
        works.append(Work(f"big-{number:03d}", True, at, width, dice.randint(12, 14), dice.uniform(1, 3) * HOUR))
    offered = sum(work.cpu_seconds for work in works)
    while offered < load * nodes * CPUS * span:
        run = math.exp(dice.uniform(math.log(10 * MINUTE), math.log(HOUR)))
        name = f"small-{len(works):06d}"
        work = Work(name, False, dice.uniform(0.0, span), dice.randint(1, 4), dice.choice((2, 4, 8)), run)
        works.append(work)
        offered += work.cpu_seconds
    rounded = [_in_whole_seconds(work) for work in works]
    return Week(nodes, span, tuple(sorted(rounded, key=lambda work: (work.at, work.name))))


def _in_whole_seconds(work: Work) -> Work:
    return Work(work.name, work.big, float(round(work.at)), work.pods, work.cpu, float(round(work.run)))


def scenario(week: Week) -> Scenario:
    made = Scenario()
    for number in range(week.nodes):
        status = {"allocatable": {"cpu": CPUS, "memory": "64Gi", "pods": 110}}
        _put(made, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number:02d}"}, "status": status})
    for work in week.works:
        _put(made, _job(work), at=work.at)
    return made


def _job(work: Work) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": work.cpu}}}
    template = {
        "metadata": {"annotations": {names.SIM_RUN: f"{work.run:.0f}s"}},
        "spec": {"containers": [container]},
    }
    task = {"name": "pod", "replicas": work.pods, "template": template}
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": work.name, "namespace": "lab"},
        "spec": {"minAvailable": work.pods, "tasks": [task], "ttlSecondsAfterFinished": 0},
    }


def _put(made: Scenario, document: dict[str, Any], *, at: float = 0.0) -> None:
    origin = Origin("generated", len(made.objects), 1)
    made.objects.append(ScenarioObject(decode(document), Lifetime(microseconds(at)), origin))


# -- one way --------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Outcome:
    way: str
    waits: dict[str, float]  # by name of the job, in seconds
    used: float  # CPU-seconds while jobs arrive
    lost: float  # of it, by pods that were evicted
    evictions: int
    ended: float  # when the last job was done
    took: float  # seconds of ours
    busy: list[tuple[float, float, int]] = field(repr=False)  # from, to, CPUs; of every pod

    def figures(self, week: Week) -> dict[str, Any]:
        big = sorted(self.waits[work.name] for work in week.works if work.big)
        small = sorted(self.waits[work.name] for work in week.works if not work.big)
        return {
            "way": self.way,
            "utilisation": round(self.used / week.capacity, 4),
            "lost": round(self.lost / week.capacity, 4),
            "evictions": self.evictions,
            "big_longest_wait": big[-1],
            "big_p95_wait": percentile(big, 95),
            "small_longest_wait": small[-1],
            "small_p95_wait": percentile(small, 95),
            "ended": self.ended,
            "took": round(self.took, 1),
        }


def percentile(ordered: list[float], percent: float) -> float:
    """The smallest value that so many percent do not exceed."""
    return ordered[max(0, math.ceil(len(ordered) * percent / 100) - 1)]


def simulate(week: Week, way: str, *, threshold: float = THRESHOLD) -> Outcome:
    began = time.perf_counter()
    registry = Registry()
    configuration = registry.load(WAYS[way].replace("THRESHOLD", f"{threshold:.0f}"), where=way)
    journal = Journal()
    progress = _Progress(way, week.span)

    class Watched(Scheduler):
        def run(self, cluster: Any, now: float) -> Cycle:
            progress.show(to_seconds(from_wall_clock(now)))
            return super().run(cluster, now)

    engine = Engine(
        scenario(week),
        journal,
        new_scheduler=lambda: Watched(configuration, registry),
        period=microseconds(PERIOD),
    )
    engine.run()
    progress.done()
    works = {work.name: work for work in week.works}
    starts: dict[str, float] = {}
    ends: dict[str, float] = {}
    outcome = Outcome(way, {}, 0.0, 0.0, 0, 0.0, 0.0, [])
    for event in journal.events:
        if event.type == "Bound":
            starts[event.object] = event.t
        elif event.type in ("Finished", "Evicted", "Deleted") and event.object in starts:
            work = works[_job_of(event.object)]
            start = starts.pop(event.object)
            outcome.busy.append((start, event.t, work.cpu))
            counted = work.cpu * max(0.0, min(event.t, week.span) - min(start, week.span))
            outcome.used += counted
            if event.type == "Finished":
                ends[work.name] = event.t
            else:
                outcome.lost += counted
                outcome.evictions += 1
    outcome.waits = {name: ends[name] - work.at - work.run for name, work in works.items()}
    outcome.ended = max(ends.values())
    outcome.took = time.perf_counter() - began
    return outcome


def _job_of(pod: str) -> str:
    """Pods are called namespace/job-pod-index."""
    return pod.partition("/")[2].rpartition("-pod-")[0]


class _Progress:
    """One line for every day that has passed."""

    def __init__(self, way: str, span: float) -> None:
        self._way = way
        self._span = span
        self._days = 0

    def show(self, at: float) -> None:
        if at >= (self._days + 1) * DAY and at < self._span:
            self._days = int(at // DAY)
            self._say(f"day {self._days} of {self._span / DAY:g} is over")

    def done(self) -> None:
        self._say("all jobs are done")

    def _say(self, text: str) -> None:
        print(f"{self._way}: {text}", file=sys.stderr, flush=True)


# -- what came out --------------------------------------------------------------------------------------------------


def report(week: Week, outcomes: list[Outcome]) -> str:
    big = sum(work.big for work in week.works)
    lines = [
        f"{week.nodes} nodes of {CPUS} CPUs, {week.span / DAY:g} days;",
        f"{len(week.works) - big} small jobs and {big} big ones,",
        f"together they ask for {week.load:.1%} of what the nodes offer.",
        f"A cycle every {PERIOD:.0f} s; nodes are set aside after {THRESHOLD / HOUR:g} h.",
        "",
        f"{'':18}  {'utili-':>7} {'lost to':>9} {'big jobs wait':>19} {'small jobs wait':>19} {'all done':>9}",
        f"{'':18}  {'sation':>7} {'evictions':>9}"
        f"{'longest':>10}{'p95':>10}{'longest':>10}{'p95':>10}{'after':>10}{'took':>7}",
    ]
    for outcome in outcomes:
        f = outcome.figures(week)
        lines.append(
            f"{outcome.way:18}  {f['utilisation']:7.1%} {f['lost']:9.1%} {_hours(f['big_longest_wait']):>9} "
            f"{_hours(f['big_p95_wait']):>9} {_hours(f['small_longest_wait']):>9} {_hours(f['small_p95_wait']):>9} "
            f"{_hours(f['ended']):>9} {f['took']:5.0f}s"
        )
    first, last = outcomes[0].figures(week), outcomes[-1].figures(week)
    kept = last["utilisation"] / first["utilisation"]
    useful = (last["utilisation"] - last["lost"]) / (first["utilisation"] - first["lost"])
    shorter = first["big_longest_wait"] / max(last["big_longest_wait"], PERIOD)
    lines += [
        "",
        f"{outcomes[-1].way} keeps {kept:.1%} of the utilisation (goal: at least 97%),",
        f"and {useful:.1%} if work that was lost to evictions does not count;",
        f"the longest wait of a big job is {shorter:.1f} times shorter (goal: at least 10).",
    ]
    return "\n".join(lines)


def _hours(length: float) -> str:
    return f"{length / HOUR:.1f} h"


def plot(week: Week, outcomes: list[Outcome], path: Path) -> None:
    """Utilisation by the hour above; below, how many of the big jobs had waited how long."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (upper, lower) = pyplot.subplots(2, 1, figsize=(10, 8), layout="constrained")
    for outcome in outcomes:
        hours = list(by_hour(outcome, week))
        days = [(hour + 0.5) * HOUR / DAY for hour in range(len(hours))]
        upper.plot(days, [100 * used for used in hours], label=outcome.way, linewidth=1)
        for big, style in ((True, "-"), (False, ":")):
            waits = sorted(max(outcome.waits[work.name], PERIOD) / HOUR for work in week.works if work.big is big)
            shares = [100 * (number + 1) / len(waits) for number in range(len(waits))]
            label = f"{outcome.way}, {'big' if big else 'small'} jobs"
            colour = upper.lines[-1].get_color()
            lower.step(waits, shares, style, color=colour, label=label, where="post")
    upper.set(xlabel="day", ylabel="CPUs in use, %", ylim=(0, 105), title="Utilisation, by the hour")
    lower.set(xlabel="waited at most, hours", ylabel="of the jobs, %", xscale="log", title="How long jobs waited")
    upper.legend(loc="lower left")
    lower.legend(loc="lower right")
    figure.savefig(path)
    pyplot.close(figure)


def by_hour(outcome: Outcome, week: Week) -> Iterator[float]:
    """The part of all CPUs that was in use, for each hour in which jobs arrived."""
    hours = [0.0] * max(1, math.ceil(week.span / HOUR))
    for start, end, cpu in outcome.busy:
        for hour in range(int(start // HOUR), min(len(hours), int(end // HOUR) + 1)):
            hours[hour] += cpu * max(0.0, min(end, (hour + 1) * HOUR) - max(start, hour * HOUR))
    return (used / (week.nodes * CPUS * HOUR) for used in hours)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--days", type=float, default=7.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=20)
    parser.add_argument("--load", type=float, default=0.95, help="work offered, as a part of what the nodes can do")
    parser.add_argument("--output", type=Path, help="a directory for the figures (JSON) and the picture (SVG, PNG)")
    asked = parser.parse_args(arguments)
    week = generate(days=asked.days, seed=asked.seed, nodes=asked.nodes, load=asked.load)
    with ProcessPoolExecutor() as pool:  # the last way takes as long as the others together, so it begins first
        outcomes = list(pool.map(partial(simulate, week), reversed(WAYS)))[::-1]
    print(report(week, outcomes))
    if asked.output is not None:
        asked.output.mkdir(parents=True, exist_ok=True)
        figures = [outcome.figures(week) for outcome in outcomes]
        write_output(asked.output / "starvation.json", (json.dumps(figures, indent=2) + "\n").encode())
        try:
            for kind in ("svg", "png"):
                plot(week, outcomes, asked.output / f"starvation.{kind}")
        except ImportError:
            print("No picture: it needs matplotlib; pip install 'stromboli[reports]'", file=sys.stderr)


if __name__ == "__main__":
    main()
