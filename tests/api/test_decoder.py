"""From documents to objects: what is read, what is filled in, and what a broken document is told."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import msgspec
import pytest

from stromboli.api import (
    KINDS,
    ApiError,
    Job,
    JobSpec,
    Node,
    Pod,
    PodGroup,
    Queue,
    Reservation,
    TaskSpec,
    decode,
    decode_json,
    default,
    key,
)

POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p1"},
    "spec": {"containers": [{"name": "main"}]},
}


def pod(**metadata: Any) -> dict[str, Any]:
    return {**POD, "metadata": {"name": "p1", **metadata}}


def refused(document: object, *, where: str = "") -> ApiError:
    with pytest.raises(ApiError) as caught:
        decode(document, where=where)
    return caught.value


def test_a_pod_is_read_by_its_camel_case_names_and_unknown_fields_are_skipped() -> None:
    document = {
        **POD,
        "spec": {
            "schedulerName": "volcano",
            "nodeSelector": {"zone": "a"},
            "dnsPolicy": "Default",
            "containers": [{"name": "main", "ports": [{"containerPort": 80, "hostIP": "10.0.0.1"}]}],
        },
    }
    decoded = decode(document)
    assert isinstance(decoded, Pod)
    assert decoded.spec.scheduler_name == "volcano"
    assert decoded.spec.node_selector == {"zone": "a"}
    assert decoded.spec.containers[0].ports[0].host_ip == "10.0.0.1"


def test_objects_are_called_by_namespace_and_name_or_by_name_alone() -> None:
    assert key(decode(POD)) == "default/p1"
    assert key(decode(pod(namespace="ns1"))) == "ns1/p1"
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
    assert key(decode({**queue, "metadata": {"name": "q1", "namespace": "ns1"}})) == "q1"


def test_every_kind_of_the_table_knows_its_own_name() -> None:
    for (api_version, kind), struct in KINDS.items():
        fresh = msgspec.convert({"value": 0}, struct)  # the one field that a kind, PriorityClass, cannot be without
        assert (fresh.api_version, fresh.kind) == (api_version, kind)
        encoded = msgspec.json.decode(msgspec.json.encode(fresh))
        assert (encoded["apiVersion"], encoded["kind"]) == (api_version, kind)


def test_what_is_encoded_is_decoded_to_the_same() -> None:
    decoded = decode(pod(namespace="ns1", labels={"app": "x"}))
    assert decode_json(msgspec.json.encode(decoded), Pod) == decoded


def test_null_means_not_given() -> None:
    decoded = decode({**pod(labels=None, creationTimestamp=None), "status": None})
    assert decoded.metadata.labels == {}
    assert decode_json(b'{"metadata": {"name": "n", "labels": null}, "spec": {"taints": null}}', Node).spec.taints == []


def test_annotations_and_times_are_text_however_yaml_read_them() -> None:
    noon = datetime(2024, 1, 1, 12, tzinfo=UTC)
    decoded = decode(
        pod(creationTimestamp=noon, annotations={"at": 5, "run": 0.5, "on": True, "day": date(2024, 1, 1)})
    )
    assert decoded.metadata.creation_timestamp == "2024-01-01T12:00:00Z"
    assert decoded.metadata.annotations == {"at": "5", "run": "0.5", "on": "true", "day": "2024-01-01"}


def test_a_job_says_little_and_means_much() -> None:
    # Two tasks of 2 and 3 replicas, the second needs 1: the job needs 2 + 1 = 3.
    template: dict[str, Any] = {"spec": {"containers": [{}]}}
    job = decode(
        {
            "apiVersion": "batch.volcano.sh/v1alpha1",
            "kind": "Job",
            "metadata": {"name": "j1"},
            "spec": {
                "tasks": [
                    {"replicas": 2, "template": template},
                    {"replicas": 3, "minAvailable": 1, "template": template},
                ]
            },
        }
    )
    assert isinstance(job, Job)
    assert [task.name for task in job.spec.tasks] == ["default0", "default1"]
    assert [task.min_available for task in job.spec.tasks] == [2, 1]
    assert (job.spec.min_available, job.spec.queue, job.spec.max_retry) == (3, "default", 3)
    before = msgspec.json.encode(job)
    default(job)
    assert msgspec.json.encode(job) == before


@pytest.mark.parametrize(("given", "weight"), [({}, 1), ({"weight": 0}, 1), ({"weight": 7}, 7)])
def test_a_queue_weighs_one_unless_it_says_otherwise(given: dict[str, int], weight: int) -> None:
    queue = decode(
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "q"},
            "spec": given,
        }
    )
    assert isinstance(queue, Queue)
    assert (queue.spec.weight, queue.spec.reclaimable, queue.spec.dequeue_strategy) == (
        weight,
        True,
        "traverse",
    )


def test_explicit_zeros_and_falses_stay() -> None:
    queue = Queue()
    queue.spec.reclaimable = False
    default(queue)
    assert queue.spec.reclaimable is False
    job = Job()
    job.spec.min_available = 0
    default(job)
    assert job.spec.min_available == 0


def test_no_retries_means_the_usual_number() -> None:
    job = Job(spec=JobSpec(max_retry=0, tasks=[TaskSpec(name="t", max_retry=0)]))
    default(job)
    assert (job.spec.max_retry, job.spec.tasks[0].max_retry) == (3, 3)


def test_groups_nodes_and_reservations_are_filled_in() -> None:
    group, reservation, node = PodGroup(), Reservation(), Node()
    node.status.capacity = {"cpu": "4"}
    for obj in (group, reservation, node):
        default(obj)
    assert (group.spec.queue, group.metadata.namespace) == ("default", "default")
    assert (reservation.spec.ttl, reservation.spec.allocate_once) == ("24h", False)
    assert node.status.allocatable == {"cpu": "4"}


def test_in_the_nodes_network_a_container_port_is_a_host_port() -> None:
    spec = {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 80}]}]}
    decoded = decode({**POD, "spec": spec})
    assert isinstance(decoded, Pod)
    assert decoded.spec.containers[0].ports[0].host_port == 80
    job = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "j1"},
        "spec": {"tasks": [{"replicas": 1, "template": {"spec": spec}}]},
    }
    made = decode(job)
    assert isinstance(made, Job)
    assert made.spec.tasks[0].template.spec.containers[0].ports[0].host_port == 80


def test_a_whole_number_may_have_a_point() -> None:
    """As for an API server: JSON has one kind of numbers."""
    containers = [{"name": "c"}]
    found = decode({**POD, "spec": {"priority": 2.0, "containers": containers}})
    assert isinstance(found, Pod)
    assert found.spec.priority == 2
    assert refused({**POD, "spec": {"priority": 2.5}}).message == "must be a whole number, not 2.5"


@pytest.mark.parametrize(
    ("document", "field", "message"),
    [
        ({"kind": "Pod"}, "apiVersion", "is required"),
        ({"apiVersion": "v1"}, "kind", "is required"),
        ({"apiVersion": 1, "kind": "Pod"}, "apiVersion", "must be text, not 1"),
        ({"apiVersion": "v2", "kind": "Pod"}, "apiVersion", 'must be v1 for a Pod, not "v2"'),
        ({**POD, "metadata": 3}, "metadata", "must be a mapping, not 3"),
        ({**POD, "metadata": {}}, "metadata.name", "is required"),
        (pod(labels={"a": "b", "c": 1}), "metadata.labels.c", "must be text, not 1"),
        (pod(labels={"x.io/c": 1}), "metadata.labels[x.io/c]", "must be text, not 1"),
        (pod(labels={1: "b"}), "metadata.labels", "must have keys that are text; write them in quotes"),
        ({**POD, "spec": {"containers": [None]}}, "spec.containers[0]", "must be a mapping, not null"),
        ({**POD, "spec": {"containers": {}}}, "spec.containers", "must be a list, not {}"),
        ({**POD, "spec": {"priority": "high"}}, "spec.priority", 'must be a whole number, not "high"'),
        ({**POD, "spec": {"hostNetwork": "yes"}}, "spec.hostNetwork", 'must be true or false, not "yes"'),
        (
            {**POD, "spec": {"overhead": {"cpu": True}}},
            "spec.overhead.cpu",
            "must be a number or text, not true",
        ),
        (
            {**POD, "spec": {"topologySpreadConstraints": [{"maxSkew": 1}]}},
            "spec.topologySpreadConstraints[0].topologyKey",
            "is required",
        ),
    ],
)
def test_a_document_of_the_wrong_shape_is_told_where(document: dict[str, Any], field: str, message: str) -> None:
    error = refused(document)
    assert (error.field, error.message) == (field, message)


def test_an_unknown_kind_is_told_the_known_ones() -> None:
    error = refused({"apiVersion": "v1", "kind": "Podd"})
    assert error.field == "kind"
    assert "PodGroup" in error.message
    assert error.message.endswith('not "Podd"; did you mean Pod?')


@pytest.mark.parametrize("document", [None, 3, "text", [POD]])
def test_what_is_no_object_is_refused(document: object) -> None:
    assert "must be an object with apiVersion and kind" in str(refused(document))


def test_an_error_is_one_line_that_names_place_object_and_field() -> None:
    error = refused(pod(name="A\nb"), where="cluster.yaml, document 2")
    assert str(error).startswith("cluster.yaml, document 2: Pod default/A b: metadata.name: must be ")
    assert "\n" not in str(error)


def test_json_that_is_none_or_of_the_wrong_shape_is_refused_in_our_words() -> None:
    with pytest.raises(ApiError, match="must be JSON"):
        decode_json(b"{", Pod)
    with pytest.raises(ApiError, match=r"^Pod default/p: spec\.priority: must be a whole number"):
        decode_json(b'{"kind": "Pod", "metadata": {"name": "p"}, "spec": {"priority": "high"}}', Pod)
