"""What a run shows over time: utilisation, who waits, and the shares of queues and namespaces."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from stromboli.page import JobRow, ResourceSeries, Series, StepFunction, thinned
from stromboli.simulation.engine import Engine
from stromboli.simulation.virtual_time import to_seconds

Steps = dict[str, StepFunction]  # by resource
_LEAVES = ("Bound", "Finished", "Deleted", "Evicted")


def build_series(engine: Engine, jobs: Iterable[JobRow]) -> Series:
    capacity, used = _capacity(engine), _used(engine)
    everything = used.pop(())
    waiting_pods, waiting_jobs = _waiting_pods(engine), _waiting_jobs(engine, jobs)
    functions = [*capacity.values(), *(one for steps in [everything, *used.values()] for one in steps.values())]
    times = sorted({0.0}.union(*(f.times() for f in [*functions, waiting_pods, waiting_jobs])))
    times = [time for time in times if time < engine.end] or [0.0]

    def thin(values: Sequence[float]) -> list[float]:
        return thinned(times, {"": values}, engine.end)[1][""]

    offered = {name: steps.values(times) for name, steps in sorted(capacity.items())}
    shares = {name: thin(_shares(steps, offered, times)) for name, steps in sorted(used.items())}
    return Series(
        times=thinned(times, {}, engine.end)[0],
        resources={
            name: ResourceSeries(
                used=thin(everything[name].values(times)) if name in everything else thin([0.0] * len(times)),
                capacity=thin(values),
            )
            for name, values in offered.items()
        },
        waiting_pods=thin(waiting_pods.values(times)),
        waiting_jobs=thin(waiting_jobs.values(times)),
        queues={name[0]: values for name, values in shares.items() if len(name) == 1},
        namespaces={"/".join(name): values for name, values in shares.items() if len(name) == 2},
    )


def _capacity(engine: Engine) -> Steps:
    found: Steps = defaultdict(StepFunction)
    for node in engine.world.meter.node_history:
        until = engine.end if node.until is None else to_seconds(node.until)
        for resource, amount in node.amounts.items():
            if resource != "pods":
                found[resource].add(amount, to_seconds(node.since), until)
    return found


def _used(engine: Engine) -> dict[tuple[str, ...], Steps]:
    """Of everybody (), of each queue (queue,) and of each namespace in it (queue, namespace)."""
    found: dict[tuple[str, ...], Steps] = defaultdict(lambda: defaultdict(StepFunction))
    found[()]  # also if nothing ever ran
    journal = engine.journal
    for pod in engine.world.meter.pod_history:
        queue = journal.queue_of(journal.pods[pod.name])
        until = engine.end if pod.until is None else to_seconds(pod.until)
        whose = ((), (queue,), (queue, pod.name.partition("/")[0])) if queue else ((),)
        for name in whose:
            for resource, amount in pod.amounts.items():
                if resource != "pods":
                    found[name][resource].add(amount, to_seconds(pod.since), until)
    return found


def _shares(used: Steps, offered: Mapping[str, Sequence[float]], times: Sequence[float]) -> list[float]:
    """The part of the cluster, in the resource where it is largest."""
    largest = [0.0] * len(times)
    for resource, steps in used.items():
        for position, value in enumerate(steps.values(times)):
            total = offered[resource][position] if resource in offered else 0.0
            if total:
                largest[position] = max(largest[position], value / total)
    return largest


def _waiting_pods(engine: Engine) -> StepFunction:
    """From its submission until a pod is bound or gone."""
    waiting = StepFunction()
    since: dict[str, float] = {}
    for event in engine.journal.events:
        if event.type == "Submitted":
            since[event.object] = event.t
        elif event.type in _LEAVES and event.object in since:
            waiting.add(1, since.pop(event.object), event.t)
    # A pod that a scenario puts on a node is never bound.
    placed = {(pod.name, to_seconds(pod.since)) for pod in engine.world.meter.pod_history}
    for pod, start in since.items():
        if (pod, start) not in placed:
            waiting.add(1, start, engine.end)
    return waiting


def _waiting_jobs(engine: Engine, jobs: Iterable[JobRow]) -> StepFunction:
    waiting = StepFunction()
    for job in jobs:
        until = engine.end if job.waited is None else job.submitted + job.waited
        waiting.add(1, job.submitted, min(until, engine.end))
    return waiting
