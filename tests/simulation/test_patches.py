"""Patches, restarts, and what the state of the cluster refuses."""

from pathlib import Path

from simulation.scenario_runner import FirstFit, engine_for, happened, run, run_text
from stromboli.api import Pod, PodGroup, PriorityClass, Queue
from stromboli.scheduling.decisions import Notice, PatchGroup, PatchPod, PatchQueue

BASE = """
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 2}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {sim.stromboli.io/run: 10s}}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
---
"""


def patch(at: str, target: str, change: str) -> str:
    return f"apiVersion: sim.stromboli.io/v1\nkind: Patch\nat: {at}\ntarget: {target}\npatch: {change}\n---\n"


def test_a_gate_is_taken_off_by_a_patch(tmp_path: Path) -> None:
    gated = BASE.replace("spec: {containers", "spec: {schedulingGates: [{name: wait}], containers")
    text = gated + patch("7s", "{kind: Pod, name: p}", "{spec: {schedulingGates: null}}")
    assert run_text(tmp_path, text)["pods"]["default/p"]["bound"] == 7.0


def test_a_pod_told_to_run_longer_does(tmp_path: Path) -> None:
    # Started at 0. Told at 4 to run 20 s in all: it ends at 20, not at 10 and not at 24.
    text = BASE + patch("4s", "{kind: Pod, name: p}", "{metadata: {annotations: {sim.stromboli.io/run: 20s}}}")
    assert happened(run_text(tmp_path, text), "Finished") == [(20.0, "Finished", "default/p")]


def test_a_pod_told_to_have_ended_already_ends_now(tmp_path: Path) -> None:
    text = BASE + patch("4s", "{kind: Pod, name: p}", "{metadata: {annotations: {sim.stromboli.io/run: 2s}}}")
    assert happened(run_text(tmp_path, text), "Finished") == [(4.0, "Finished", "default/p")]


def test_patches_of_one_object_at_one_moment_have_an_order_of_their_own() -> None:
    # The scenario has weights 5 and 7 at the same time; content decides, so 7 is last.
    engine = engine_for(*(Path(__file__).parent / "scenarios" / f"{n}.yaml" for n in ("one-node", "crowd")))
    queue = engine.world.store.get(Queue, "q1")
    assert queue is not None
    assert (queue.spec.weight, queue.metadata.generation) == (7, 3)


def test_a_patch_of_what_a_controller_may_have_made_is_refused_when_it_is_not_there(tmp_path: Path) -> None:
    base = Path(__file__).parent / "scenarios"
    text = "---\n".join((base / f"{name}.yaml").read_text(encoding="utf-8") for name in ("one-node", "replicas"))
    text += "---\n" + patch("2s", "{kind: Pod, namespace: ns1, name: web-1}", "{metadata: {labels: {a: b}}}")
    text += patch("2s", "{kind: Pod, namespace: ns1, name: web-77}", "{metadata: {labels: {a: b}}}")
    report = run_text(tmp_path, text)
    assert [(event["object"], event["reason"]) for event in report["events"] if event["type"] == "Warning"] == [
        ("ns1/web-77", "PatchRefused")
    ]


def test_a_scheduler_that_lost_its_memory_goes_on_as_before(tmp_path: Path) -> None:
    # crowd.yaml restarts the scheduler at 3 s, when g-0 and g-1 run. Without that the report is the same.
    base = Path(__file__).parent / "scenarios"
    documents = (base / "crowd.yaml").read_text(encoding="utf-8").split("---\n")
    untouched = [document for document in documents if "kind: Restart" not in document]
    assert len(untouched) == len(documents) - 1
    node = (base / "one-node.yaml").read_text(encoding="utf-8")
    assert run_text(tmp_path, "---\n".join([node, *untouched])) == run("one-node", "crowd")


def test_controllers_that_lost_their_memory_replace_at_once(tmp_path: Path) -> None:
    # web-0 goes at 1 and would be replaced at 2. With the restart at 1.5 that second is forgotten; the pod is missed
    # in the cycle of 2 all the same, and never twice.
    base = Path(__file__).parent / "scenarios"
    text = "---\n".join((base / f"{name}.yaml").read_text(encoding="utf-8") for name in ("one-node", "replicas"))
    text += "---\napiVersion: sim.stromboli.io/v1\nkind: Restart\nat: 1.5s\ncomponent: controllers\n"
    report = run_text(tmp_path, text, scheduler=FirstFit({1.0: ["ns1/web-0"]}))
    assert [e for e in happened(report, "Submitted") if e[0] > 0] == [(2.0, "Submitted", "ns1/web-2")]


def test_priority_comes_from_the_class_and_the_default_class_is_for_those_who_name_none(tmp_path: Path) -> None:
    text = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: high}
value: 100
preemptionPolicy: Never
---
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: usual}
value: 5
globalDefault: true
---
apiVersion: v1
kind: Pod
metadata: {name: named}
spec: {priorityClassName: high, containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: plain}
spec: {containers: [{name: c}]}
---
apiVersion: v1
kind: Pod
metadata: {name: system}
spec: {priorityClassName: system-node-critical, containers: [{name: c}]}
"""
    file = tmp_path / "classes.yaml"
    file.write_text(text, encoding="utf-8")
    store = engine_for(file).world.store
    pods = {pod.metadata.name: pod.spec for pod in store.list(Pod)}
    assert (pods["named"].priority, pods["named"].preemption_policy) == (100, "Never")
    assert (pods["plain"].priority, pods["system"].priority) == (5, 2_000_001_000)
    assert store.get(PriorityClass, "system-node-critical") is not None


def test_a_job_for_a_queue_that_is_not_there_is_refused_and_the_run_goes_on(tmp_path: Path) -> None:
    job = """
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {name: j}
spec:
  queue: nowhere
  tasks: [{replicas: 1, name: t, template: {spec: {containers: [{name: c}]}}}]
"""
    report = run_text(tmp_path, BASE + job)
    assert report["jobs"] == {}
    assert report["pods"]["default/p"]["phase"] == "Succeeded"
    [warning] = [event for event in report["events"] if event["type"] == "Warning"]
    assert (warning["object"], warning["reason"]) == ("default/j", "Refused")
    assert "nowhere" in warning["message"]


def test_a_queue_with_groups_in_it_stays(tmp_path: Path) -> None:
    text = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q1, annotations: {sim.stromboli.io/until: 4s}}
---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: pg}
spec: {queue: q1}
"""
    report = run_text(tmp_path, text)
    assert "q1" in report["queues"]
    assert happened(report, "Warning") == [(4.0, "Warning", "q1")]


def test_pods_put_on_a_node_by_hand_may_be_too_many_for_it(tmp_path: Path) -> None:
    # 3 requested of 2: one too many.
    text = BASE.replace("cpu: 1}", "cpu: 3}").replace("spec: {containers", "spec: {nodeName: n1, containers")
    report = run_text(tmp_path, text)
    [warning] = [event for event in report["events"] if event["type"] == "Warning"]
    assert (warning["object"], warning["reason"]) == ("n1", "Overcommitted")
    assert "1 cpu" in warning["message"]
    assert report["pods"]["default/p"]["phase"] == "Succeeded"


def test_what_the_scheduler_says_is_written_on_the_objects(tmp_path: Path) -> None:
    text = BASE.replace("cpu: 1}", "cpu: 9}") + "\n".join([
        "apiVersion: scheduling.volcano.sh/v1beta1", "kind: PodGroup", "metadata: {name: pg}", "spec: {minMember: 0}",
    ])  # fmt: skip
    file = tmp_path / "scenario.yaml"
    file.write_text(text, encoding="utf-8")
    said = [
        PatchPod("default/p", "InsufficientNode", "too big", nominated="n1"),
        PatchGroup("default/pg", "Inqueue", (), 1, 2, 3),
        PatchQueue("default", {"memory": 2**30, "cpu": 1500}),
        Notice("Queue", "default", "Odd", "something is odd", warning=True),
        Notice("Queue", "default", "Odd", "something is odd", warning=True),
        Notice("PodGroup", "default/pg", "Reserved", "a node is set aside"),
        Notice("PodGroup", "default/pg", "Chatter", "nobody needs to know"),
    ]
    engine = engine_for(file, scheduler=FirstFit(also={0.0: said}))
    store = engine.world.store
    pod, group, queue = store.get(Pod, "default/p"), store.get(PodGroup, "default/pg"), store.get(Queue, "default")
    assert pod is not None
    assert group is not None
    assert queue is not None
    assert pod.status.nominated_node_name == "n1"
    assert [(c.type, c.status, c.reason) for c in pod.status.conditions] == [
        ("PodScheduled", "False", "InsufficientNode")
    ]
    assert (group.status.phase, group.status.running, group.status.failed) == ("Inqueue", 1, 3)
    assert queue.status.allocated == {"cpu": "1500m", "memory": "1Gi"}
    assert [(event.type, event.reason) for event in engine.journal.events if event.type != "Submitted"] == [
        ("Warning", "Odd"), ("Reserved", ""),
    ]  # fmt: skip
