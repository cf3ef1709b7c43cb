"""The rules: a valid object of each kind, and for each rule the smallest change that breaks it."""

from __future__ import annotations

from typing import Any

import pytest

from stromboli.api import ApiError, decode, merge_patch, validate_update

TEMPLATE = {
    "metadata": {"labels": {"app": "x"}},
    "spec": {"containers": [{"resources": {"requests": {"cpu": 1}}}]},
}
VALID: dict[str, dict[str, Any]] = {
    "Pod": {"apiVersion": "v1", "spec": {"containers": [{"name": "main"}]}},
    "Node": {"apiVersion": "v1", "status": {"allocatable": {"cpu": "8", "memory": "16Gi"}}},
    "Namespace": {"apiVersion": "v1"},
    "PriorityClass": {"apiVersion": "scheduling.k8s.io/v1", "value": 1000},
    "ResourceQuota": {"apiVersion": "v1", "spec": {"hard": {"cpu": "10"}}},
    "PodDisruptionBudget": {"apiVersion": "policy/v1", "spec": {"minAvailable": "50%", "selector": {}}},
    "ReplicaSet": {
        "apiVersion": "apps/v1",
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "x"}}, "template": TEMPLATE},
    },
    "Queue": {"apiVersion": "scheduling.volcano.sh/v1beta1", "spec": {"weight": 2}},
    "PodGroup": {"apiVersion": "scheduling.volcano.sh/v1beta1", "spec": {"minMember": 0}},
    "Job": {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "spec": {"tasks": [{"name": "a", "replicas": 2, "template": TEMPLATE}]},
    },
    "Command": {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "action": "AbortJob",
        "target": {"kind": "Job", "name": "j1"},
    },
    "Reservation": {
        "apiVersion": "scheduling.volcano.sh/v1alpha1",
        "spec": {
            "template": TEMPLATE,
            "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "ttl": "0",
        },
    },
}


def document(kind: str, **change: Any) -> dict[str, Any]:
    valid = {"kind": kind, "metadata": {"name": "x1"}, **VALID[kind]}
    return merge_patch(valid, change)


@pytest.mark.parametrize("kind", VALID)
def test_the_valid_ones_are_valid(kind: str) -> None:
    assert decode(document(kind)).kind == kind


def breaks(kind: str, change: dict[str, Any], field: str, message: str) -> None:
    with pytest.raises(ApiError) as caught:
        decode(document(kind, **change))
    assert caught.value.field == field
    assert message in caught.value.message


def spec(**fields: Any) -> dict[str, Any]:
    return {"spec": fields}


def one_container(**fields: Any) -> dict[str, Any]:
    return spec(containers=[fields])


def preferred(weight: int) -> dict[str, Any]:
    return {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "preference": {}}]}


def node_terms(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": list(terms)}}
    return spec(affinity={"nodeAffinity": required})


TERM = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"metadata": {"name": "Upper"}}, "metadata.name", "lower-case"),
        ({"metadata": {"name": "x" * 254}}, "metadata.name", "253"),
        ({"metadata": {"namespace": "a.b"}}, "metadata.namespace", "63"),
        ({"metadata": {"labels": {"a": "b c"}}}, "metadata.labels.a", "letters"),
        ({"metadata": {"labels": {"-a": "b"}}}, "metadata.labels.-a", "key"),
        ({"metadata": {"annotations": {"a b": "c"}}}, "metadata.annotations[a b]", "key"),
        (spec(containers=[]), "spec.containers", "at least one"),
        (spec(containers=[{"name": "a"}, {"name": "a"}]), "spec.containers[1].name", "twice"),
        (
            one_container(resources={"requests": {"cpu": "2c"}}),
            "spec.containers[0].resources.requests.cpu",
            "a quantity such as",
        ),
        (
            one_container(resources={"limits": {"memory": "-1"}}),
            "spec.containers[0].resources.limits.memory",
            "0 or more",
        ),
        (
            one_container(resources={"requests": {"cpu": 2}, "limits": {"cpu": "1500m"}}),
            "spec.containers[0].resources.requests.cpu",
            "at most the limit",
        ),
        (
            one_container(resources={"requests": {"nvidia.com/gpu": "500m"}}),
            "spec.containers[0].resources.requests[nvidia.com/gpu]",
            "whole number",
        ),
        (
            one_container(resources={"requests": {"pods": 1}}),
            "spec.containers[0].resources.requests.pods",
            "must not be given",
        ),
        (spec(resources={"requests": {"x.io/y": 1}}), "spec.resources.requests[x.io/y]", "by a container"),
        (spec(overhead={"cpu": "x"}), "spec.overhead.cpu", "quantity"),
        (one_container(ports=[{"containerPort": 0}]), "spec.containers[0].ports[0].containerPort", "65535"),
        (
            one_container(ports=[{"containerPort": 1, "hostPort": 65536}]),
            "spec.containers[0].ports[0].hostPort",
            "65535",
        ),
        (
            one_container(ports=[{"containerPort": 1, "protocol": "IP"}]),
            "spec.containers[0].ports[0].protocol",
            "TCP",
        ),
        (
            spec(hostNetwork=True, containers=[{"ports": [{"containerPort": 1, "hostPort": 2}]}]),
            "spec.containers[0].ports[0].hostPort",
            "equal containerPort",
        ),
        (spec(initContainers=[{"restartPolicy": "Never"}]), "spec.initContainers[0].restartPolicy", "Always"),
        (spec(tolerations=[{"key": "a", "operator": "Has"}]), "spec.tolerations[0].operator", "Exists"),
        (spec(tolerations=[{"key": "a", "effect": "No"}]), "spec.tolerations[0].effect", "NoSchedule"),
        (spec(tolerations=[{"value": "a"}]), "spec.tolerations[0].operator", "no key"),
        (
            spec(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
            "spec.tolerations[0].value",
            "empty",
        ),
        (
            spec(tolerations=[{"key": "a", "tolerationSeconds": 3}]),
            "spec.tolerations[0].effect",
            "NoExecute",
        ),
        (spec(affinity={"nodeAffinity": preferred(101)}), "", "between 1 and 100"),
        (spec(affinity={"nodeAffinity": preferred(0)}), "", "between 1 and 100"),
        (node_terms(), TERM, "at least one"),
        (
            node_terms({"matchExpressions": [{"key": "a", "operator": "Near"}]}),
            f"{TERM}[0].matchExpressions[0].operator",
            "Gt",
        ),
        (
            node_terms({"matchExpressions": [{"key": "a", "operator": "In"}]}),
            f"{TERM}[0].matchExpressions[0].values",
            "at least one value",
        ),
        (
            node_terms({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["x"]}]}),
            f"{TERM}[0].matchExpressions[0].values",
            "whole number",
        ),
        (
            node_terms({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]}),
            f"{TERM}[0].matchFields[0].key",
            "metadata.name",
        ),
        (spec(preemptionPolicy="Maybe"), "spec.preemptionPolicy", "Never"),
        (spec(restartPolicy="Maybe"), "spec.restartPolicy", "OnFailure"),
        (spec(priority=2**31), "spec.priority", "between"),
        (spec(terminationGracePeriodSeconds=-1), "spec.terminationGracePeriodSeconds", "0 or more"),
    ],
)
def test_pods(change: dict[str, Any], field: str, message: str) -> None:
    if field:
        breaks("Pod", change, field, message)
    else:
        breaks(
            "Pod",
            change,
            "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight",
            message,
        )


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        ({"maxSkew": 0}, "maxSkew", "1 or more"),
        ({"topologyKey": ""}, "topologyKey", "required"),
        ({"whenUnsatisfiable": "Shrug"}, "whenUnsatisfiable", "DoNotSchedule"),
        ({"minDomains": 0}, "minDomains", "1 or more"),
        ({"minDomains": 2, "whenUnsatisfiable": "ScheduleAnyway"}, "minDomains", "unless"),
        (
            {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["1"]}]}},
            "labelSelector.matchExpressions[0].operator",
            "DoesNotExist",
        ),
    ],
)
def test_spread_constraints(change: dict[str, Any], field: str, message: str) -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    assert decode(document("Pod", **spec(topologySpreadConstraints=[constraint]))).kind == "Pod"
    broken = spec(topologySpreadConstraints=[merge_patch(constraint, change)])
    breaks("Pod", broken, f"spec.topologySpreadConstraints[0].{field}", message)


@pytest.mark.parametrize("part", ["podAffinity", "podAntiAffinity"])
def test_pod_affinity_terms(part: str) -> None:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    preferred = "preferredDuringSchedulingIgnoredDuringExecution"
    bare = spec(affinity={part: {required: [{"topologyKey": ""}]}})
    breaks("Pod", bare, f"spec.affinity.{part}.{required}[0].topologyKey", "required")
    weightless = spec(affinity={part: {preferred: [{"weight": 0, "podAffinityTerm": {"topologyKey": "z"}}]}})
    breaks("Pod", weightless, f"spec.affinity.{part}.{preferred}[0].weight", "between 1 and 100")


def tasks(**fields: Any) -> dict[str, Any]:
    return spec(tasks=[{"name": "a", "replicas": 2, "template": TEMPLATE, **fields}])


def policies(*given: dict[str, Any]) -> dict[str, Any]:
    return spec(policies=list(given))


def task(name: str, *waits_for: str) -> dict[str, Any]:
    return {"name": name, "replicas": 1, "template": TEMPLATE, "dependsOn": {"name": list(waits_for)}}


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (spec(tasks=[]), "spec.tasks", "at least one task"),
        (tasks(replicas=-1), "spec.tasks[0].replicas", "must be 0 or more, not -1"),
        (tasks(replicas=2**31), "spec.tasks[0].replicas", "at most"),
        (tasks(replicas=50_001), "spec.tasks", "at most 50000 replicas together, not 50001"),
        (tasks(minAvailable=3), "spec.tasks[0].minAvailable", "at most replicas (2), not 3"),
        (tasks(minAvailable=-1), "spec.tasks[0].minAvailable", "0 or more"),
        (tasks(name="A"), "spec.tasks[0].name", "lower-case"),
        (tasks(topologyPolicy="x"), "spec.tasks[0].topologyPolicy", "best-effort"),
        (tasks(template={"spec": {}}), "spec.tasks[0].template.spec.containers", "at least one"),
        (
            tasks(partitionPolicy={"totalPartitions": 3, "partitionSize": 1}),
            "spec.tasks[0].partitionPolicy",
            "replicas (2), not 3",
        ),
        (spec(tasks=[task("a"), task("a")]), "spec.tasks", "two tasks named a"),
        (spec(tasks=[task("a", "z")]), "spec.tasks", 'not "z"'),
        (spec(tasks=[task("a", "b"), task("b", "a")]), "spec.tasks[0].dependsOn", "lead back"),
        (spec(minAvailable=3), "spec.minAvailable", "the 2 replicas of all tasks, not 3"),
        (spec(minAvailable=-1), "spec.minAvailable", "0 or more"),
        (spec(maxRetry=-1), "spec.maxRetry", "0 or more"),
        (spec(minSuccess=0), "spec.minSuccess", "1 or more"),
        (spec(ttlSecondsAfterFinished=-1), "spec.ttlSecondsAfterFinished", "0 or more"),
        (spec(queue="root"), "spec.queue", "root"),
        (spec(runningEstimate="soon"), "spec.runningEstimate", "duration"),
        (
            spec(networkTopology={"highestTierAllowed": 1, "highestTierName": "rack"}),
            "spec.networkTopology",
            "not both",
        ),
        (policies({"action": "AbortJob"}), "spec.policies[0]", "either an event or an exitCode"),
        (policies({"action": "AbortJob", "event": "*", "exitCode": 1}), "spec.policies[0]", "either"),
        (policies({"action": "AbortJob", "exitCode": 0}), "spec.policies[0].exitCode", "success"),
        (policies({"action": "SyncJob", "event": "*"}), "spec.policies[0].action", "RestartJob"),
        (policies({"action": "AbortJob", "event": "Rained"}), "spec.policies[0].event", "PodFailed"),
        (
            policies({"action": "AbortJob", "event": "*", "timeout": "-1s"}),
            "spec.policies[0].timeout",
            "0 or",
        ),
        (
            policies(*[{"action": "AbortJob", "event": "PodFailed"}] * 2),
            "spec.policies",
            "two actions for the event PodFailed",
        ),
        (policies({"action": "AbortJob", "events": ["*", "PodFailed"]}), "spec.policies", "beside"),
    ],
)
def test_jobs(change: dict[str, Any], field: str, message: str) -> None:
    breaks("Job", change, field, message)


def test_tasks_may_wait_for_each_other_in_a_diamond() -> None:
    waiting = spec(tasks=[task("a"), task("b", "a"), task("c", "a"), task("d", "b", "c")])
    assert decode(document("Job", **waiting)).kind == "Job"


def hierarchy(path: str, weights: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights}}}


PATH, WEIGHTS = (
    "metadata.annotations[volcano.sh/hierarchy]",
    "metadata.annotations[volcano.sh/hierarchy-weights]",
)


@pytest.mark.parametrize(
    ("change", "field", "message"),
    [
        (spec(weight=65536), "spec.weight", "between 1 and 65535"),
        (spec(weight=-1), "spec.weight", "between 1 and 65535"),
        (spec(priority=-1), "spec.priority", "0 or more"),
        (spec(dequeueStrategy="lifo"), "spec.dequeueStrategy", "fifo"),
        (spec(capability={"cpu": "lots"}), "spec.capability.cpu", "quantity"),
        (
            spec(deserved={"cpu": "2"}, capability={"cpu": "1"}),
            "spec.deserved",
            "cpu must be at most the capability, which is 1, not 2",
        ),
        (
            spec(guarantee={"resource": {"cpu": "2"}}, deserved={"cpu": "1500m"}),
            "spec.guarantee.resource",
            "the deserved amount",
        ),
        (
            spec(guarantee={"resource": {"cpu": "2"}}, capability={"cpu": "1"}),
            "spec.guarantee.resource",
            "the capability",
        ),
        (spec(guarantee={"policy": "Maybe"}), "spec.guarantee.policy", "Guaranteed"),
        (spec(guarantee={"policy": "Guaranteed"}), "spec.guarantee", "a resource or a percentage"),
        (spec(guarantee={"percentage": {"value": 1.1}}), "spec.guarantee.percentage.value", "from 0 to 1"),
        (spec(guarantee={"percentage": {"value": "x"}}), "spec.guarantee.percentage.value", "must be a number"),
        (
            spec(guarantee={"percentage": {"value": 0.5, "dimensions": ["speed"]}}),
            "spec.guarantee.percentage.dimensions[0]",
            "memory",
        ),
        (spec(parent="x1"), "spec.parent", "itself"),
        (hierarchy("top/a", "1/1"), PATH, "root/science"),
        (hierarchy("root//a", "1/1/1"), PATH, "root/science"),
        (hierarchy("root/a", "1"), WEIGHTS, "one weight for each step"),
        (hierarchy("root/a", "1/0"), WEIGHTS, "1 or more"),
    ],
)
def test_queues(change: dict[str, Any], field: str, message: str) -> None:
    breaks("Queue", change, field, message)


@pytest.mark.parametrize(
    ("kind", "change", "field", "message"),
    [
        ("PodGroup", spec(minMember=-1), "spec.minMember", "0 or more"),
        ("PodGroup", spec(minTaskMember={"a": -1}), "spec.minTaskMember.a", "0 or more"),
        ("PodGroup", spec(minResources={"cpu": "x"}), "spec.minResources.cpu", "quantity"),
        ("Node", {"status": {"allocatable": {"cpu": "x"}}}, "status.allocatable.cpu", "quantity"),
        ("Node", {"status": {"allocatable": {"pods": "1.5"}}}, "status.allocatable.pods", "whole"),
        ("Node", {"status": {"capacity": {"a.io/gpu": "500m"}}}, "status.capacity[a.io/gpu]", "whole"),
        ("Pod", {"status": {"phase": "Runing"}}, "status.phase", "Running"),
        ("Queue", {"status": {"state": "Shut"}}, "status.state", "Closed"),
        ("PodGroup", {"status": {"phase": "Queued"}}, "status.phase", "Inqueue"),
        ("Job", {"status": {"state": {"phase": "Done"}}}, "status.state.phase", "Completed"),
        ("PriorityClass", {"value": None}, "value", "required"),
        ("Node", spec(taints=[{"key": "a", "effect": "x"}]), "spec.taints[0].effect", "NoSchedule"),
        ("Node", spec(taints=[{"effect": "NoSchedule"}]), "spec.taints[0].key", "required"),
        ("Node", spec(taints=[{"key": "a", "effect": "NoSchedule"}] * 2), "spec.taints[1]", "repeat"),
        ("Namespace", {"metadata": {"name": "a.b"}}, "metadata.name", "63"),
        ("PriorityClass", {"value": 1_000_000_001}, "value", "at most 1000000000"),
        ("PriorityClass", {"value": -(2**31) - 1}, "value", "32 bits"),
        ("PriorityClass", {"preemptionPolicy": "x"}, "preemptionPolicy", "Never"),
        ("ResourceQuota", spec(hard={"cpu": "x"}), "spec.hard.cpu", "quantity"),
        ("ResourceQuota", spec(hard={"cpu": "-1"}), "spec.hard.cpu", "0 or more"),
        ("PodDisruptionBudget", spec(maxUnavailable=1), "spec", "either"),
        ("PodDisruptionBudget", spec(minAvailable=None), "spec", "either"),
        ("PodDisruptionBudget", spec(minAvailable="half"), "spec.minAvailable", "50%"),
        ("PodDisruptionBudget", spec(minAvailable="101%"), "spec.minAvailable", "50%"),
        ("PodDisruptionBudget", spec(minAvailable=-1), "spec.minAvailable", "0 or more"),
        ("ReplicaSet", spec(replicas=-1), "spec.replicas", "0 or more"),
        ("ReplicaSet", spec(selector=None), "spec.selector", "required"),
        (
            "ReplicaSet",
            spec(selector={"matchLabels": {"app": "y"}}),
            "spec.template.metadata.labels",
            "match spec.selector",
        ),
        (
            "ReplicaSet",
            spec(selector={"matchExpressions": [{"key": "app", "operator": "In"}]}),
            "spec.selector.matchExpressions[0].values",
            "at least one value",
        ),
        (
            "PodDisruptionBudget",
            spec(selector={"matchExpressions": [{"key": "a", "operator": "Exists", "values": ["b"]}]}),
            "spec.selector.matchExpressions[0].values",
            "must be empty",
        ),
        (
            "PodDisruptionBudget",
            spec(selector={"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]}),
            "spec.selector.matchExpressions[0].values[0]",
            "letters",
        ),
        ("Node", spec(taints=[{"key": "a b", "effect": "NoSchedule"}]), "spec.taints[0].key", "key"),
        (
            "Node",
            spec(taints=[{"key": "a", "value": "b c", "effect": "NoSchedule"}]),
            "spec.taints[0].value",
            "letters",
        ),
        ("Queue", spec(deserved={"cpu": "x"}), "spec.deserved.cpu", "quantity"),
        ("Job", spec(priorityClassName="High"), "spec.priorityClassName", "lower-case"),
        ("Job", tasks(maxRetry=-1), "spec.tasks[0].maxRetry", "0 or more"),
        ("Pod", {"metadata": {"labels": {"a": "x" * 64}}}, "metadata.labels.a", "63"),
        (
            "Reservation",
            spec(owners=[{"labelSelector": {}, "namespaces": ["A"]}]),
            "spec.owners[0].namespaces[0]",
            "lower-case",
        ),
        ("Command", {"action": ""}, "action", "required"),
        ("Command", {"target": None}, "target", "required"),
        ("Command", {"target": {"kind": "Pod"}}, "target.kind", "Queue"),
        ("Reservation", spec(template=None), "spec.template", "required"),
        (
            "Reservation",
            spec(template={"spec": {"containers": [{}]}}),
            "spec.template.spec",
            "at least one resource",
        ),
        ("Reservation", spec(owners=[]), "spec.owners", "at least one owner"),
        ("Reservation", spec(owners=[{}]), "spec.owners[0]", "must say who"),
        ("Reservation", spec(owners=[{"object": {}, "namespaces": ["a"]}]), "spec.owners[0]", "must say who"),
        ("Reservation", spec(ttl="-1s"), "spec.ttl", "0 or more"),
        ("Reservation", spec(replaces={"name": "p"}), "spec.replaces.uid", "required"),
        ("Reservation", {"status": {"phase": "Ready"}}, "status.phase", "Available"),
    ],
)
def test_other_kinds(kind: str, change: dict[str, Any], field: str, message: str) -> None:
    breaks(kind, change, field, message)


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        (
            "Pod",
            spec(tolerations=[{"operator": "Exists"}, {"key": "a", "value": "b", "effect": "NoSchedule"}]),
        ),
        ("Pod", spec(tolerations=[{"key": "a", "effect": "NoExecute", "tolerationSeconds": 0}])),
        ("Pod", spec(resources={"requests": {"cpu": 1, "memory": 1, "hugepages-2Mi": "4Mi"}})),
        ("Pod", {"metadata": {"labels": {"a": "x" * 63, "b": ""}}}),
        ("Pod", node_terms({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]})),
        ("Pod", node_terms({"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["-3"]}]})),
        ("Queue", spec(guarantee={"percentage": {"value": 0}})),
        ("Queue", spec(guarantee={"percentage": {"value": 1, "dimensions": ["cpu", "nvidia.com/gpu"]}})),
        ("Queue", spec(weight=65535)),
        ("Queue", spec(guarantee={"resource": {"cpu": 1}}, deserved={"cpu": 1}, capability={"cpu": 1})),
        ("Queue", hierarchy("root/a", "1/1.5")),
        ("Queue", hierarchy("", "")),
        ("PriorityClass", {"value": 1_000_000_000}),
        ("PodDisruptionBudget", spec(minAvailable="100%")),
        ("Job", tasks(partitionPolicy={"totalPartitions": 2, "partitionSize": 1})),
        ("Job", policies({"action": "AbortJob", "event": "*"}, {"action": "RestartJob", "exitCode": 3})),
    ],
)
def test_what_lies_just_inside_the_rules_is_accepted(kind: str, change: dict[str, Any]) -> None:
    assert decode(document(kind, **change)).kind == kind


def test_a_system_class_may_stand_above_the_users() -> None:
    change = {"metadata": {"name": "system-node-critical"}, "value": 2_000_001_000}
    assert decode(document("PriorityClass", **change)).kind == "PriorityClass"


@pytest.mark.parametrize("senseless", ["-1", "1.5", "heavy", ""])
def test_a_senseless_namespace_weight_is_let_through_to_count_as_one(senseless: str) -> None:
    assert decode(document("ResourceQuota", **spec(hard={"volcano.sh/namespace.weight": senseless})))


@pytest.mark.parametrize(
    ("kind", "change", "field"),
    [
        ("Job", spec(queue="other"), "spec.queue"),
        ("Job", tasks(topologyPolicy="none"), "spec.tasks"),
        ("Job", spec(tasks=[task("a"), task("b")]), "spec.tasks"),
        ("Reservation", spec(allocateOnce=True), "spec.allocateOnce"),
        ("Reservation", spec(owners=[{"object": {"uid": "u"}}]), "spec.owners"),
    ],
)
def test_what_was_acted_upon_cannot_change(kind: str, change: dict[str, Any], field: str) -> None:
    with pytest.raises(ApiError) as caught:
        validate_update(decode(document(kind)), decode(document(kind, **change)))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("Job", tasks(replicas=5, minAvailable=1)),
        ("Job", spec(minAvailable=1, priorityClassName="high")),
        ("Reservation", spec(ttl="5m")),
        ("Queue", spec(weight=9)),
    ],
)
def test_what_may_change_may(kind: str, change: dict[str, Any]) -> None:
    validate_update(decode(document(kind)), decode(document(kind, **change)))
