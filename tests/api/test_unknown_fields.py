"""A field that one of our own kinds does not have is an error; one that has no effect is reported."""

from typing import Any

import pytest
import yaml

from stromboli.api import ApiError, decode, fields_without_effect

TEMPLATE = "template: {spec: {containers: [{name: c}]}}"
JOB = f"""
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: j}}
spec:
  tasks: [{{name: t, replicas: 1, {TEMPLATE}}}]
"""
QUEUE = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: Queue
metadata: {name: q}
spec: {}
"""
GROUP = """
apiVersion: scheduling.volcano.sh/v1beta1
kind: PodGroup
metadata: {name: g}
spec: {minMember: 1}
"""
FLOW = """
apiVersion: flow.volcano.sh/v1alpha1
kind: JobFlow
metadata: {name: f}
spec: {flows: [{name: a}, {name: b, dependsOn: {targets: [a]}}]}
"""
COMMAND = """
apiVersion: bus.volcano.sh/v1alpha1
kind: Command
metadata: {name: c}
action: AbortJob
target: {kind: Job, name: j}
"""


def with_field(text: str, path: str, value: Any) -> dict[str, Any]:
    document: dict[str, Any] = yaml.safe_load(text)
    *steps, last = path.split(".")
    place: Any = document
    for step in steps:
        place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
    place[last] = value
    return document


@pytest.mark.parametrize(
    ("text", "path", "value", "message"),
    [
        (QUEUE, "spec.wieght", 3, "Queue q: spec.wieght: is unknown; did you mean weight?"),
        (QUEUE, "spec.capabilities", {"cpu": 1}, "spec.capabilities: is unknown; did you mean capability?"),
        (QUEUE, "spec.guarantee.resources", {"cpu": 1}, "spec.guarantee.resources: is unknown; did you mean resource?"),
        (QUEUE, "specs", {}, "specs: is unknown; did you mean spec?"),
        (QUEUE, "status.stat", "Open", "status.stat: is unknown; did you mean state?"),
        (GROUP, "spec.minMembers", 2, "spec.minMembers: is unknown; did you mean minMember?"),
        (GROUP, "spec.xyz", 2, "spec.xyz: is unknown; known: migrationInfo, minMember, minResources, minTaskMember, "),
        (GROUP, "spec.subGroupPolicy", [{"labelSelector": {"matchLabel": {"a": "b"}}}],
         "spec.subGroupPolicy[0].labelSelector.matchLabel: is unknown; did you mean matchLabels?"),
        (FLOW, "spec.flows.1.dependsOn.target", ["a"],
         "spec.flows[1].dependsOn.target: is unknown; did you mean targets?"),
        (COMMAND, "target.nam", "j", "target.nam: is unknown; did you mean name?"),
        (JOB, "spec.minavailable", 1, "Job default/j: spec.minavailable: is unknown; did you mean minAvailable?"),
        (JOB, "spec.tasks.0.replica", 1, "spec.tasks[0].replica: is unknown; did you mean replicas?"),
        (JOB, "spec.policies", [{"acton": "X"}], "spec.policies[0].acton: is unknown; did you mean action?"),
        (JOB, "spec.volumes", [{"mountPth": "/a"}], "spec.volumes[0].mountPth: is unknown; did you mean mountPath?"),
    ],
)  # fmt: skip
def test_an_unknown_field_is_an_error(text: str, path: str, value: Any, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(with_field(text, path, value))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (QUEUE, "metadata.managedFields"),
        (JOB, "spec.tasks.0.template.spec.dnsPolicy"),
        (JOB, "spec.tasks.0.template.metadata.selfLink"),
        (JOB, "spec.tasks.0.template.extra"),
    ],
)
def test_unknown_fields_of_kubernetes_are_ignored(text: str, path: str) -> None:
    decode(with_field(text, path, "x"))


def test_unknown_fields_of_a_pod_are_ignored() -> None:
    decode(yaml.safe_load("{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {x: y, containers: [{z: 1}]}, w: 1}"))


@pytest.mark.parametrize(
    ("text", "path", "value", "reported"),
    [
        (QUEUE, "spec.weight", 3, []),
        (QUEUE, "spec.type", "leaf", ["spec.type"]),
        (QUEUE, "spec.extendClusters", [{"name": "a"}], ["spec.extendClusters"]),
        (GROUP, "spec.networkTopology", {"mode": "hard"}, []),
        (GROUP, "spec.preemptable", False, ["spec.preemptable"]),
        (GROUP, "metadata.annotations", {"volcano.sh/sla-waiting-time": "1h", "sla-waiting-time": "1h"}, []),
        (QUEUE, "metadata.annotations", {"sla-waiting-time": "soon"}, ["metadata.annotations[sla-waiting-time]"]),
        (GROUP, "metadata.annotations", {"volcano.sh/qos-level": "HLS"},
         ["metadata.annotations[volcano.sh/qos-level]"]),
        (JOB, "spec.tasks.0.topologyPolicy", "none", []),
        (JOB, "spec.tasks.0.topologyPolicy", "restricted", ["spec.tasks[0].topologyPolicy"]),
    ],
)  # fmt: skip
def test_fields_without_effect_are_reported(text: str, path: str, value: Any, reported: list[str]) -> None:
    assert fields_without_effect(decode(with_field(text, path, value))) == reported
