"""Scenarios that never come to rest: a run without `--until` ends once it repeats itself, and says so."""

from pathlib import Path

import pytest

from simulation.scenario_runner import happened, run_text
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry

# `old` keeps 2 of 4 CPUs forever. Two jobs of 3 CPUs starve; the node is reserved for one of them, given up after ten
# seconds, reserved for the other, and so on.
STALEMATE = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
---
apiVersion: v1
kind: Pod
metadata: {name: old}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 2}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: big-a}
spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: big-b}
spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}
"""
LATE = """
---
apiVersion: v1
kind: Pod
metadata: {name: late, annotations: {sim.stromboli.io/at: 300s, sim.stromboli.io/run: 5s}}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""
GIVES_UP = """
actions:
- name: enqueue
- name: allocate
- name: reserve
  arguments: {starvingJobTimeThreshold: 3s, reservationTimeout: 10s, maxHolders: 1, reservedNodePercent: 100}
tiers:
- plugins: [{name: gang}, {name: predicates}, {name: nodeorder}]
"""


@pytest.fixture
def scheduler() -> Scheduler:
    registry = Registry()
    return Scheduler(registry.load(GIVES_UP), registry)


def warnings(report: dict[str, object]) -> list[str]:
    return [subject for _, _, subject in happened(report, "Warning")]


def test_reservations_that_are_given_up_in_turn(tmp_path: Path, scheduler: Scheduler) -> None:
    report = run_text(tmp_path, STALEMATE, scheduler=scheduler)
    assert report["events"][-1]["reason"] == "Repeats"
    assert report["events"][-1]["object"] == "simulation"
    assert "--until" in report["events"][-1]["message"]


def test_no_warning_with_an_end(tmp_path: Path, scheduler: Scheduler) -> None:
    report = run_text(tmp_path, STALEMATE, scheduler=scheduler, until=400)
    assert report["end"] == 400.0
    assert warnings(report) == []


def test_what_the_scenario_still_has_to_do_is_done_first(tmp_path: Path, scheduler: Scheduler) -> None:
    report = run_text(tmp_path, STALEMATE + LATE, scheduler=scheduler)
    assert report["pods"]["default/late"]["finished"] == 305.0
    assert warnings(report) == ["simulation"]


# The Job is admitted and its pod waits for a CPU; the policy terminates the Job after ten minutes.
PATIENT = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
---
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  policies: [{event: PodPending, action: TerminateJob, timeout: 10m}]
  tasks: [{name: t, replicas: 1, template: {spec: {nodeSelector: {a: b}, containers: [{name: c}]}}}]
"""


def test_waiting_for_a_policy_is_no_repetition(tmp_path: Path, scheduler: Scheduler) -> None:
    report = run_text(tmp_path, PATIENT, scheduler=scheduler)
    assert report["jobs"]["default/j"]["phase"] == "Terminated"
    assert warnings(report) == []


# The pod waits for a volume. With a number of failures, the attempt after them makes it.
FAILING = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: failing, annotations: {sim.stromboli.io/provision-fails: "FAILS"}}
provisioner: csi.example.com
volumeBindingMode: MODE
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {storageClassName: failing, accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {sim.stromboli.io/run: 5s}}
spec:
  containers: [{name: c, resources: {requests: {cpu: 1}}}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


@pytest.mark.parametrize("mode", ["WaitForFirstConsumer", "Immediate"])
@pytest.mark.parametrize("fails", ["always", "n1", "20"])
def test_attempts_to_make_a_volume(fails: str, mode: str, tmp_path: Path, scheduler: Scheduler) -> None:
    report = run_text(tmp_path, FAILING.replace("FAILS", fails).replace("MODE", mode), scheduler=scheduler)
    ends = fails == "20" or (fails, mode) == ("n1", "Immediate")  # nobody selects a node for an immediate claim
    assert report["pods"]["default/p"]["phase"] == ("Succeeded" if ends else "Pending")
    assert ("simulation" in warnings(report)) == (not ends)
