"""What one object may make us do is limited, and the refusal is the same sentence everywhere."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from stromboli.api import ApiError, Pod, decode
from stromboli.api.decoder import decode_json
from stromboli.api.quantity import QuantityError
from stromboli.api.validation import validate_queue_tree
from stromboli.cluster import Applied, Cluster
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry

POD: dict[str, Any] = {
    "apiVersion": "v1", "kind": "Pod",
    "metadata": {
        "name": "p", "namespace": "tenant", "uid": "u", "annotations": {"scheduling.k8s.io/group-name": "g"},
    },
    "spec": {
        "schedulerName": "volcano",
        "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
    },
}  # fmt: skip
IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
NEAR = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "a"}}}
KEYS = [f"key-{n}" for n in range(100)]
SPREAD = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def values(number: int) -> dict[str, Any]:
    chosen = [f"v{position}" for position in range(number)]
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": chosen}]}


def node_affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def containers(*requests: dict[str, str], ports: int = 0) -> dict[str, Any]:
    opened = [{"containerPort": 1 + number} for number in range(ports)]
    made = [{"name": f"c{n}", "resources": {"requests": one}, "ports": opened} for n, one in enumerate(requests)]
    return {"containers": made}


CASES: list[tuple[dict[str, Any], str]] = [
    (containers(*[{"cpu": "1m"}] * 257), "at most 256 containers"),
    (containers({f"example.com/n{n}": "1" for n in range(65)}), "at most 64"),
    (containers(*({f"example.com/n{n}": "1"} for n in range(65))), "at most 64 different resources together, not 65"),
    (containers({"cpu": "1"}, ports=1025), "at most 1024 ports together, not 1025"),
    (containers({"memory": "33Ti"}), "between 0 and 32Ti for a pod, not 33Ti"),
    (containers({"cpu": "1m"}, {"cpu": "35184372089"}), "between 0 and 35184372088832m"),
    ({"volumes": [{"name": f"v{n}", "emptyDir": {}} for n in range(257)]}, "at most 256 volumes, not 257"),
    ({"tolerations": [{"operator": "Exists"}] * 257}, "at most 256 tolerations, not 257"),
    ({"topologySpreadConstraints": [SPREAD] * 33}, "at most 32 constraints, not 33"),
    (node_affinity(*[IN_ZONE] * 129), "at most 128 terms together, not 129"),
    ({"affinity": {"podAntiAffinity": {REQUIRED: [NEAR] * 129}}}, "at most 128 terms together, not 129"),
    (
        {"affinity": {"podAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": NEAR}] * 129}}},
        "at most 128 terms together",
    ),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: [NEAR | {"namespaceSelector": {}}] * 17}}},
        "at most 16 terms about pods of other namespaces, not 17",
    ),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: [NEAR | {"namespaces": ["team"]}] * 17}}},
        "at most 16 terms about pods of other namespaces, not 17",
    ),
    (node_affinity(values(2048)), "at most 2048 keys and values in its selectors together, not 2049"),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: [NEAR | {"matchLabelKeys": KEYS}] * 21}}},
        "at most 2048 keys and values in its selectors together, not 2121",
    ),
    (
        {"affinity": {"podAntiAffinity": {REQUIRED: [NEAR | {"mismatchLabelKeys": KEYS}] * 21}}},
        "at most 2048 keys and values in its selectors together, not 2121",
    ),
    (
        {"topologySpreadConstraints": [SPREAD | {"matchLabelKeys": KEYS}] * 21},
        "at most 2048 keys and values in its selectors together, not 2100",
    ),
]


def pod(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    document = copy.deepcopy(POD)
    document["spec"] |= spec
    document["metadata"] |= metadata
    return document


@pytest.mark.parametrize(("spec", "sentence"), CASES)
def test_a_scenario_and_a_live_scheduler_refuse_a_pod_with_the_same_sentence(
    spec: dict[str, Any], sentence: str
) -> None:
    document = pod(spec)
    with pytest.raises(ApiError, match=sentence) as in_file:
        decode(document)
    known = Cluster()

    with pytest.raises(ApiError, match=sentence) as on_server:
        known.apply(Applied(as_server_sends_it(document)))

    assert on_server.value.message == in_file.value.message or "at most 64" in sentence
    assert not known.tasks
    known.validate()


@pytest.mark.parametrize(("spec", "sentence"), CASES)
def test_a_pod_that_has_a_node_is_counted_whatever_it_looks_like(spec: dict[str, Any], sentence: str) -> None:
    known = Cluster()
    known.apply(Applied(decode(node("n1"))))
    known.apply(Applied(as_server_sends_it(pod({**spec, "nodeName": "n1"}))))

    known.snapshot()
    known.validate()
    assert [task.node.name for task in known.tasks.values() if task.node is not None] == ["n1"]


@pytest.mark.parametrize("quantity", ["1e30", "9E", "1e400", "9" * 400, "NaN", "inf", "1e", "", "--1", "0x10"])
def test_an_absurd_quantity_is_refused(quantity: str) -> None:
    known = Cluster()
    with pytest.raises((ApiError, QuantityError)):
        known.apply(Applied(as_server_sends_it(pod(containers({"cpu": quantity})))))

    assert not known.tasks
    known.validate()


def test_a_negative_request_gives_nobody_room() -> None:
    known = Cluster()
    known.apply(Applied(decode(node("n1"))))
    with pytest.raises(ApiError, match="not -1"):
        known.apply(Applied(as_server_sends_it(pod(containers({"cpu": "-1"})))))
    known.apply(Applied(as_server_sends_it(pod({**containers({"cpu": "-1"}), "nodeName": "n1"}))))

    known.snapshot()

    assert known.ledger.table.idle[0, 0] == 32000


def test_sums_of_absurd_requests_do_not_wrap_around() -> None:
    """20 pods with 2**62 bytes each, in the queue of others: 20 × 2**62 = 2**66 would be a negative number."""
    known = Cluster()
    largest = str(2**62)
    documents = [node("n1"), group("team", "g"), group("tenant", "g"), queue()]
    for number in range(20):
        asks = containers({"memory": largest})
        documents.append(pod({**asks, "nodeName": "n2"}, name=f"p{number}", uid=f"u{number}"))
        asks = containers({"memory": "32Ti"})
        documents.append(pod(asks, name=f"q{number}", uid=f"w{number}"))
    documents.append(pod(containers({"cpu": "1"}), namespace="team", uid="v"))
    for document in documents:
        known.apply(Applied(as_server_sends_it(document)))
    registry = Registry()

    cycle = Scheduler(registry.default(), registry).run(known, 1000.0)

    assert [one.task for one in cycle.decisions if isinstance(one, Bind)] == ["team/p"]
    assert (known.queues["default"].wanted >= 0).all()  # type: ignore[index]
    assert (known.queues["default"].allocated >= 0).all()  # type: ignore[index]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"tasks": [{"name": f"t{n}", "replicas": 1, "template": {"spec": POD["spec"]}} for n in range(257)]}, "256"),
        ({"tasks": [{"name": "t", "replicas": 1_000_000, "template": {"spec": POD["spec"]}}]}, "50000 replicas"),
        ({"tasks": [{"name": "t", "replicas": 2**31, "template": {"spec": POD["spec"]}}]}, "at most 2147483647"),
        (
            {"tasks": [{"name": "t", "replicas": 1, "template": {"spec": {**POD["spec"], **CASES[7][0]}}}]},
            "at most 256 tolerations, not 257",
        ),
    ],
)
def test_a_job_is_refused(spec: dict[str, Any], sentence: str) -> None:
    document = {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "j", "namespace": "tenant"},
        "spec": spec,
    }  # fmt: skip
    with pytest.raises(ApiError, match=sentence):
        decode(document)


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ({"minTaskMember": {f"role-{n}": 1 for n in range(257)}}, "spec.minTaskMember: must have at most 256 roles"),
        ({"subGroupPolicy": [{"name": "s"}] * 65}, "spec.subGroupPolicy: must have at most 64 policies"),
        (
            {"subGroupPolicy": [{"name": "s", "matchLabelKeys": KEYS}]},
            r"spec.subGroupPolicy\[0\].matchLabelKeys: must have at most 16 keys, not 100",
        ),
    ],
)
def test_a_group_is_refused(spec: dict[str, Any], sentence: str) -> None:
    document = group("tenant", "g")
    with pytest.raises(ApiError, match=sentence):
        decode({**document, "spec": {**document["spec"], **spec}})


def as_server_sends_it(document: dict[str, Any]) -> Any:
    """Without our rules: the server has its own. Other kinds are read as in a scenario."""
    if document["kind"] != "Pod":
        return decode(document)
    return decode_json(msgspec.json.encode(document), Pod)


def node(name: str) -> dict[str, Any]:
    offers = {"cpu": "32", "memory": "64Gi", "pods": "110"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": offers}}


def queue() -> dict[str, Any]:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "default"}}


def group(namespace: str, name: str) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
        "metadata": {"name": name, "namespace": namespace}, "spec": {"minMember": 1}, "status": {"phase": "Inqueue"},
    }  # fmt: skip


def test_sums_of_absurd_minimums_do_not_wrap_around() -> None:
    """Five gangs that wait to be admitted with 2**61 bytes each, in the queue of others: 5 × 2**61 > 2**63."""
    known = Cluster()
    documents = [node("n1"), group("team", "g"), queue()]
    for number in range(5):
        absurd = group("tenant", f"g{number}")
        absurd["spec"] |= {"minMember": 10**9, "minResources": {"cpu": "1", "memory": str(2**61)}}
        documents.append({**absurd, "status": {"phase": "Pending"}})
    documents.append(pod(containers({"cpu": "1", "memory": "1Gi"}), namespace="team"))
    for document in documents:
        known.apply(Applied(as_server_sends_it(document)))
    registry = Registry()

    cycle = Scheduler(registry.default(), registry).run(known, 1000.0)

    assert [one.task for one in cycle.decisions if isinstance(one, Bind)] == ["team/p"]
    assert cycle.deserved["default"]["memory"] == 64 * 2**30


def line_of_queues(number: int) -> list[Any]:
    parents = ["", *(f"q{position}" for position in range(number - 1))]
    return [queue_below(f"q{position}", parent) for position, parent in enumerate(parents)]


def queue_below(name: str, parent: str) -> Any:
    return decode({**queue(), "metadata": {"name": name}, "spec": {"parent": parent} if parent else {}})


def test_a_tree_of_queues_has_so_many_levels() -> None:
    known = line_of_queues(32)
    validate_queue_tree(known[-1], known)
    with pytest.raises(ApiError, match="at most 31 queues above it"):
        validate_queue_tree(queue_below("one-more", "q31"), known)


def test_a_queue_is_not_below_itself() -> None:
    known = line_of_queues(3)
    with pytest.raises(ApiError, match="must not be below the queue itself, as q2 is"):
        validate_queue_tree(queue_below("q0", "q2"), known)
