"""The queue of a namespace is that of everything in it that names no queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from simulation.scenario_runner import run_text
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

CLUSTER = """apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: science}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: other}
---
apiVersion: v1
kind: Namespace
metadata: {name: lab, annotations: {scheduling.volcano.sh/queue-name: science}}
---
"""
CONTAINERS = "containers: [{name: main, resources: {requests: {cpu: 1}}}]"
JOB = """apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j, namespace: lab}
spec: {QUEUE tasks: [{name: t, replicas: 1, template: {spec: {CONTAINERS}}}]}
""".replace("CONTAINERS", CONTAINERS)
POD = """apiVersion: v1
kind: Pod
metadata: {name: p, namespace: lab, annotations: {ANNOTATIONS}}
spec: {CONTAINERS}
""".replace("CONTAINERS", CONTAINERS)
GROUP = """apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g, namespace: lab}
spec: {minMember: 1 QUEUE}
---
"""
MEMBER = POD.replace("ANNOTATIONS", "scheduling.k8s.io/group-name: g")
SET = """apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, namespace: lab}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {CONTAINERS}}
""".replace("CONTAINERS", CONTAINERS)


def simulate(folder: Path, text: str, until: float) -> dict[str, Any]:
    registry = Registry()
    return run_text(folder, text, until=until, scheduler=Scheduler(registry.default(), registry))


@pytest.mark.parametrize(
    ("submitted", "queue"),
    [
        (JOB.replace("QUEUE", ""), "science"),
        (JOB.replace("QUEUE", "queue: default,"), "science"),
        (JOB.replace("QUEUE", "queue: other,"), "other"),
        (POD.replace("ANNOTATIONS", ""), "science"),
        (POD.replace("ANNOTATIONS", "scheduling.volcano.sh/queue-name: other"), "other"),
        (SET, "science"),
        (GROUP.replace("QUEUE", "") + MEMBER, "science"),
        (GROUP.replace("QUEUE", ", queue: other") + MEMBER, "other"),
        (JOB.replace("QUEUE", "").replace("namespace: lab", "namespace: elsewhere"), "default"),
    ],
)  # fmt: skip
def test_the_queue_of(tmp_path: Path, submitted: str, queue: str) -> None:
    report = simulate(tmp_path, CLUSTER + submitted, until=5)
    [pod] = report["pods"].values()
    assert (pod["phase"], pod["queue"]) == ("Running", queue)
    assert report["queues"][queue]["allocated"] == {"cpu": "1"}


# The namespace moves to the queue `other` at 3 s, with the controllers restarted, and back to none at 6 s.
def test_what_runs_stays_in_its_queue(tmp_path: Path) -> None:
    move = """---
apiVersion: sim.stromboli.io/v1
kind: Patch
at: {at}s
target: {{kind: Namespace, name: lab}}
patch: {{metadata: {{annotations: {{scheduling.volcano.sh/queue-name: {queue}}}}}}}
---
apiVersion: sim.stromboli.io/v1
kind: Restart
at: {at}s
component: controllers
"""
    text = CLUSTER + JOB.replace("QUEUE", "") + "---\n" + SET + "---\n" + GROUP.replace("QUEUE", "") + MEMBER
    text += move.format(at=3, queue="other") + move.format(at=6, queue="null")
    report = simulate(tmp_path, text, until=10)
    assert {pod["queue"] for pod in report["pods"].values()} == {"science"}
    assert report["queues"]["science"]["allocated"] == {"cpu": "3"}
    late = JOB.replace("QUEUE", "").replace("{name: j,", "{name: late, annotations: {sim.stromboli.io/at: 4s},")
    report = simulate(tmp_path, text + "---\n" + late, until=5)
    assert report["pods"]["lab/late-t-0"]["queue"] == "other"
