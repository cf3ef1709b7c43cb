"""A Job whose PriorityClass does not exist gets no pods, so it must not be promised anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from simulation.scenario_runner import run_text
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

TEXT = """apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 8}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: typo}
spec:
  priorityClassName: urgnt
  tasks: [{name: t, replicas: 2, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 4}}}]}}}]
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: fine, annotations: {sim.stromboli.io/at: 1s}}
spec:
  tasks: [{name: t, replicas: 2, template: {spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}}}]
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgnt, annotations: {sim.stromboli.io/at: 20s}}
value: 5
"""


def simulate(folder: Path, until: float) -> dict[str, Any]:
    registry = Registry()
    return run_text(folder, TEXT, until=until, scheduler=Scheduler(registry.default(), registry))


# 8 CPUs, all of which `typo` would be promised.
def test_others_start_and_it_says_why_it_does_not(tmp_path: Path) -> None:
    report = simulate(tmp_path, 10)
    assert report["jobs"]["default/fine"]["phase"] == "Running"
    [group] = [found for name, found in report["podGroups"].items() if name.startswith("default/typo")]
    assert group["phase"] == "Pending"
    assert "PriorityClass urgnt does not exist" in group["conditions"][0]["message"]


def test_it_starts_when_the_class_is_there(tmp_path: Path) -> None:
    assert simulate(tmp_path, 30)["jobs"]["default/typo"]["phase"] == "Running"
