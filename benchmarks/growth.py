"""What the controllers and the simulator cost as the number of objects doubles.

Cost should follow what happens, not how much there is. Two tables show it, each at n, 2n, 4n and 8n:

    passes         a pass of the controllers over n pods of Jobs: the first one, which visits everything; one in which
                   nothing is new; and one after a single pod has ended. The last two should not grow.
    simulation     n small Jobs that arrive at a steady rate, run for ten seconds and stay after they have finished.
                   Time per Job should not grow.

    python benchmarks/growth.py [--pods 6250] [--jobs 2500] [--doublings 3] [--repeat 3] [--output json]

Times are processor time, and the best of several repeats for passes. The goals are less than 5 ms for a pass over
50,000 pods with nothing new, and less than 1.5 ms for each of 20,000 Jobs.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from stromboli.api import (
    Container,
    Job,
    JobSpec,
    KObject,
    ObjectMeta,
    Pod,
    PodGroup,
    PodSpec,
    PodTemplateSpec,
    ResourceRequirements,
    TaskSpec,
    decode,
    default,
    key,
    names,
)
from stromboli.cluster import Applied, Deleted
from stromboli.controllers import ControllerManager, Create, Delete, Update
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation.engine import Engine
from stromboli.simulation.journal import Journal
from stromboli.simulation.scenario import Lifetime, Origin, Scenario, ScenarioObject
from stromboli.simulation.virtual_time import microseconds

T = TypeVar("T", bound=KObject)

PODS_PER_JOB = 10
ARRIVALS = 20  # Jobs a second
RUN = 10  # seconds
NODES, CPUS = 20, 64


# -- passes of the controllers ----------------------------------------------------------------------------------------


class Objects:
    """The objects of a cluster, with what an API server and a scheduler would do to them."""

    def __init__(self, controllers: ControllerManager) -> None:
        self.controllers = controllers
        self._objects: dict[type, dict[str, KObject]] = {}
        self._uids = 0

    def get(self, kind: type[T], key: str) -> T | None:
        return self._objects.get(kind, {}).get(key)  # type: ignore[return-value]

    def list(self, kind: type[T]) -> Iterable[T]:
        return [obj for _, obj in sorted(self._objects.get(kind, {}).items())]  # type: ignore[misc]

    def put(self, obj: KObject) -> None:
        if not obj.metadata.uid:
            self._uids += 1
            obj = replace(obj, metadata=replace(obj.metadata, uid=f"uid-{self._uids}"))
        self._objects.setdefault(type(obj), {})[key(obj)] = obj
        self.controllers.observe(Applied(obj))

    def settle(self, now: float = 0.0) -> None:
        while changes := self.controllers.reconcile(self, now):
            for change in changes:
                if isinstance(change, Create | Update):
                    self.put(change.object)
                elif isinstance(change, Delete):
                    del self._objects[type(change.object)][key(change.object)]
                    self.controllers.observe(Deleted(change.object))

    def restart(self) -> None:
        self.controllers = ControllerManager()


def running_jobs(pods: int) -> Objects:
    """A cluster in which this many pods of Jobs run."""
    cluster = Objects(ControllerManager())
    container = Container(name="main", resources=ResourceRequirements(requests={"cpu": 1}))
    template = PodTemplateSpec(spec=PodSpec(containers=[container]))
    for number in range(pods // PODS_PER_JOB):
        spec = JobSpec(tasks=[TaskSpec(name="t", replicas=PODS_PER_JOB, template=template)])
        job = Job(metadata=ObjectMeta(name=f"job-{number:06d}", namespace="lab"), spec=spec)
        default(job)
        cluster.put(job)
    cluster.settle()
    for group in cluster.list(PodGroup):
        cluster.put(replace(group, status=replace(group.status, phase="Inqueue")))
    cluster.settle()
    for pod in cluster.list(Pod):
        cluster.put(_in_phase(pod, "Running"))
    cluster.settle()
    return cluster


def _in_phase(pod: Pod, phase: str) -> Pod:
    return replace(pod, spec=replace(pod.spec, node_name="node"), status=replace(pod.status, phase=phase))


def measure_passes(pods: int, repeat: int) -> dict[str, float]:
    cluster = running_jobs(pods)
    gc.collect()
    gc.freeze()
    first, quiet, one = [], [], []
    for number in range(repeat):
        cluster.restart()
        first.append(_pass(cluster))
        quiet.append(_pass(cluster))
        pod = cluster.get(Pod, f"lab/job-{number:06d}-t-0")
        assert pod is not None
        cluster.put(_in_phase(pod, "Succeeded"))
        one.append(_pass(cluster))
        cluster.settle()
    gc.unfreeze()
    return {
        "pods": pods,
        "first_ms": round(min(first), 3),
        "quiet_ms": round(min(quiet), 3),
        "one_ended_ms": round(min(one), 3),
    }


def _pass(cluster: Objects) -> float:
    began = time.process_time()
    cluster.controllers.reconcile(cluster, 0.0)
    return (time.process_time() - began) * 1e3


# -- simulations ------------------------------------------------------------------------------------------------------


def scenario(jobs: int) -> Scenario:
    made = Scenario()
    for number in range(NODES):
        status = {"allocatable": {"cpu": CPUS, "memory": "256Gi", "pods": 500}}
        _put(made, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": f"node-{number:02d}"}, "status": status})
    for number in range(jobs):
        _put(made, _job(number), at=number // ARRIVALS)
    return made


def _job(number: int) -> dict[str, Any]:
    template = {
        "metadata": {"annotations": {names.SIM_RUN: f"{RUN}s"}},
        "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}]},
    }
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": f"job-{number:06d}", "namespace": "lab"},
        "spec": {"minAvailable": 1, "tasks": [{"name": "t", "replicas": 1, "template": template}]},
    }


def _put(made: Scenario, document: dict[str, Any], *, at: float = 0.0) -> None:
    origin = Origin("generated", len(made.objects), 1)
    made.objects.append(ScenarioObject(decode(document), Lifetime(microseconds(at)), origin))


def measure_simulation(jobs: int) -> dict[str, float]:
    registry = Registry()
    configuration = registry.default()
    journal = Journal()
    engine = Engine(
        scenario(jobs),
        journal,
        new_scheduler=lambda: Scheduler(configuration, registry),
        period=microseconds(1),
    )
    gc.collect()
    gc.freeze()
    began = time.process_time()
    engine.run()
    took = time.process_time() - began
    gc.unfreeze()
    return {
        "jobs": jobs,
        "finished": sum(record.phase == "Succeeded" for record in journal.pods.values()),
        "seconds": round(took, 2),
        "ms_per_job": round(took * 1e3 / jobs, 3),
    }


# -- output -----------------------------------------------------------------------------------------------------------


def table(rows: Sequence[dict[str, float]]) -> str:
    lines = ["  ".join(f"{column:>12}" for column in rows[0])]
    lines += ["  ".join(f"{value:12,}" for value in row.values()) for row in rows]
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pods", type=int, default=6250, help="pods of the smallest cluster")
    parser.add_argument("--jobs", type=int, default=2500, help="Jobs of the smallest simulation")
    parser.add_argument("--doublings", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3, help="repeats of each pass")
    parser.add_argument("--output", choices=["text", "json"], default="text")
    asked = parser.parse_args(arguments)
    sizes = [2**number for number in range(asked.doublings + 1)]
    passes, simulations = [], []
    for size in sizes:
        print(f"{size} of {sizes[-1]} times the smallest size …", file=sys.stderr, flush=True)
        passes.append(measure_passes(asked.pods * size, asked.repeat))
        simulations.append(measure_simulation(asked.jobs * size))
    if asked.output == "json":
        print(json.dumps({"passes": passes, "simulations": simulations}))
    else:
        print(f"{table(passes)}\n\n{table(simulations)}")


if __name__ == "__main__":
    main()
