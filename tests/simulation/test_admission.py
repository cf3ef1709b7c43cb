"""What the state of the cluster makes unacceptable: refused with a warning, and the run goes on."""

from pathlib import Path
from typing import Any

import pytest

from simulation.scenario_runner import run_text


def queue(name: str, spec: str, *, at: str = "0s", path: str = "") -> str:
    weights = "/".join("1" for _ in path.split("/"))
    hierarchy = f", volcano.sh/hierarchy: {path}, volcano.sh/hierarchy-weights: {weights}"
    return f"""---
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {{name: {name}, annotations: {{sim.stromboli.io/at: {at}{hierarchy if path else ""}}}}}
spec: {spec}
"""


def patch(name: str, spec: str) -> str:
    return f"""---
apiVersion: sim.stromboli.io/v1
kind: Patch
at: 2s
target: {{kind: Queue, name: {name}}}
patch: {{spec: {spec}}}
"""


def group(queue_name: str, *, at: str = "1s") -> str:
    return f"""---
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {{name: g, annotations: {{sim.stromboli.io/at: {at}}}}}
spec: {{minMember: 1, queue: {queue_name}}}
"""


CLOSE = """---
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: close}
action: CloseQueue
target: {kind: Queue, name: q}
"""


def warnings(report: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(e["object"], e["reason"], e["message"]) for e in report["events"] if e["type"] == "Warning"]


@pytest.mark.parametrize(
    ("text", "refused", "message"),
    [
        (queue("a", "{capability: {cpu: 4}}") + queue("b", "{parent: a, capability: {cpu: 5}}"), "b",
         "the capability of the queue b (5 cpu) must be at most that of its parent a (4 cpu)"),
        (queue("a", "{capability: {cpu: 4}}") + queue("b", "{parent: a, guarantee: {resource: {cpu: 3}}}")
         + queue("c", "{parent: a, guarantee: {resource: {cpu: 2}}}"), "c",
         "the guarantees of the queues below a (5 cpu) must be at most the capability of a (4 cpu)"),
        (queue("a", "{guarantee: {resource: {cpu: 4}}}") + queue("b", "{parent: a, guarantee: {resource: {cpu: 5}}}"),
         "b", "must be at most the guarantee of a (4 cpu)"),
        # The parent comes after its children, so it is the parent that is refused.
        (queue("z", "{capability: {cpu: 4}}") + queue("b", "{parent: z, capability: {cpu: 5}}"), "z", "at most that"),
        (queue("a", "{}", path="root/x") + queue("b", "{}", path="root/x/y"), "b", '"root/x/y" must not lead through'),
        (queue("a", "{}", path="root/x/y") + queue("b", "{}", path="root/x"), "b", "the path of the queue a"),
    ],
    ids=["capability", "sum of guarantees", "guarantee", "parent last", "path below", "path above"],
)  # fmt: skip
def test_a_queue_that_does_not_fit_the_tree(tmp_path: Path, text: str, refused: str, message: str) -> None:
    report = run_text(tmp_path, text)
    [(subject, reason, said)] = warnings(report)
    assert (subject, reason) == (refused, "Refused")
    assert message in said
    assert refused not in report["queues"]


def test_similar_paths_are_different(tmp_path: Path) -> None:
    report = run_text(tmp_path, queue("a", "{}", path="root/x") + queue("b", "{}", path="root/xy"))
    assert warnings(report) == []


def test_a_patch_that_does_not_fit_the_tree(tmp_path: Path) -> None:
    tree = queue("a", "{capability: {cpu: 4}}") + queue("b", "{parent: a, capability: {cpu: 2}}")
    report = run_text(tmp_path, tree + patch("b", "{capability: {cpu: 8}}"))
    [(subject, reason, _)] = warnings(report)
    assert (subject, reason) == ("b", "PatchRefused")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (group("q"), 'spec.queue: there is no queue "q"'),
        (queue("q", "{}") + CLOSE + group("q"), 'the queue "q" is Closed, so it accepts no groups'),
        (queue("q", "{}") + queue("r", "{parent: q}") + group("q"), "only a leaf queue accepts groups"),
        (group("root"), "groups cannot be submitted to the queue root itself"),
    ],
    ids=["missing", "closed", "not a leaf", "root"],
)
def test_a_group_for_a_queue_that_takes_none(tmp_path: Path, text: str, message: str) -> None:
    report = run_text(tmp_path, text)
    [(subject, reason, said)] = warnings(report)
    assert (subject, reason) == ("default/g", "Refused")
    assert message in said
    assert report["podGroups"] == {}


def test_a_field_without_effect_is_reported_once(tmp_path: Path) -> None:
    report = run_text(tmp_path, queue("q", "{type: leaf}"))
    assert warnings(report) == [("q", "NoEffect", "Without effect in this version: spec.type.")]
    assert "q" in report["queues"]


@pytest.mark.parametrize("quantity", ["400m", "1500m", "0.5"])
def test_a_fraction_of_a_byte_is_reported(tmp_path: Path, quantity: str) -> None:
    text = f"""apiVersion: v1
kind: Pod
metadata: {{name: p, namespace: ns1}}
spec:
  schedulerName: volcano
  containers: [{{name: main, resources: {{requests: {{cpu: 400m, memory: {quantity}}}}}}}]
"""
    told = f"Less than a whole byte: spec.containers[0].resources.requests.memory is {quantity}."
    advice = "The unit m means thousandths; did you mean Mi?"
    assert warnings(run_text(tmp_path, text)) == [("ns1/p", "FractionalBytes", f"{told} {advice}")]


CLAIM = "{accessModes: [ReadWriteOnce], resources: {requests: {storage: 400m}}}"


@pytest.mark.parametrize(
    ("name", "path", "text"),
    [
        ("n1", "status.allocatable.memory",
         "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 400m}}}"),
        ("q", "spec.capability.memory", queue("q", "{capability: {cpu: 1, memory: 400m}}")),
        ("ns1/pvc", "spec.resources.requests.storage",
         f"{{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {{name: pvc, namespace: ns1}}, spec: {CLAIM}}}"),
        ("ns1/j", "spec.volumes[0].volumeClaim.resources.requests.storage",
         "{apiVersion: batch.volcano.sh/v1alpha1, kind: Job, metadata: {name: j, namespace: ns1}, spec: {"
         f"minAvailable: 1, volumes: [{{mountPath: /data, volumeClaim: {CLAIM}}}], tasks: [{{name: t, replicas: 1, "
         "template: {spec: {containers: [{name: c, resources: {requests: {cpu: 100m}}}]}}}]}}"),
        ("ns1/p", "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests.storage",
         "{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: ns1}, spec: {schedulerName: volcano, volumes:"
         f" [{{name: scratch, ephemeral: {{volumeClaimTemplate: {{spec: {CLAIM}}}}}}}], containers: [{{name: c}}]}}}}"),
    ],
)  # fmt: skip
def test_a_fraction_of_a_byte_is_reported_wherever_amounts_are(tmp_path: Path, name: str, path: str, text: str) -> None:
    found = [warning for warning in warnings(run_text(tmp_path, text)) if warning[1] == "FractionalBytes"]
    told = f"Less than a whole byte: {path} is 400m. The unit m means thousandths; did you mean Mi?"
    assert found == [(name, "FractionalBytes", told)]


PODS_BEFORE_THEIR_CLASS = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low, annotations: {sim.stromboli.io/at: 3s}},
 value: 1}
---
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: r}
spec:
  replicas: 2
  selector: {matchLabels: {app: r}}
  template: {metadata: {labels: {app: r}}, spec: {priorityClassName: low, containers: [{name: c}]}}
"""


def test_replicas_that_are_refused_come_when_they_can(tmp_path: Path) -> None:
    report = run_text(tmp_path, PODS_BEFORE_THEIR_CLASS, until=5)
    assert {name: pod["submitted"] for name, pod in report["pods"].items()} == {"default/r-0": 3.0, "default/r-1": 3.0}
    assert {subject for subject, _, _ in warnings(report)} == {"default/r-0", "default/r-1"}


GROUP_WITHOUT_ITS_CLASS = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}
---
{apiVersion: scheduling.volcano.sh/v1beta1, kind: PodGroup, metadata: {name: g},
 spec: {minMember: 1, priorityClassName: none}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, annotations: {scheduling.k8s.io/group-name: g}}
spec: {containers: [{name: c, resources: {requests: {cpu: 1}}}]}
"""


def test_a_group_without_its_class_runs(tmp_path: Path) -> None:
    """The scheduler warns about the class; only pods are refused without theirs."""
    report = run_text(tmp_path, GROUP_WITHOUT_ITS_CLASS, until=2)
    assert report["pods"]["default/p"]["phase"] == "Running"
