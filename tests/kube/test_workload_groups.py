"""Kubernetes' own groups of pods, in sessions of kubectl. Servers before 1.37 lack the kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kube.client import Client, Refused, eventually
from kube.cluster import Cluster, condition
from kube.crd_install import server_version
from kube.server import ApiServer

KIND = "podgroups.v1beta1.scheduling.k8s.io"
COMPOSITES = "compositepodgroups.v1alpha3.scheduling.k8s.io"
INITIALLY = "PodGroupInitiallyScheduled"
RACK = "example.com/rack"
PATIENCE = 60.0


@pytest.fixture(scope="module", autouse=True)
def served(api_server: ApiServer) -> None:
    admin = api_server.client()
    for version, kind in (("v1beta1", "podgroups"), ("v1alpha3", "compositepodgroups")):
        if not _serves(admin, f"/apis/scheduling.k8s.io/{version}", kind):
            major, minor = server_version(admin)
            pytest.skip(
                f"{kind} of scheduling.k8s.io/{version} need Kubernetes 1.37 with its feature gates; this server is "
                f"{major}.{minor}"
            )


def _serves(admin: Client, version: str, kind: str) -> bool:
    try:
        return kind in [one["name"] for one in admin.get(version)["resources"]]
    except Refused:
        return False


@pytest.fixture
def story(cluster: Cluster) -> Story:
    return Story(cluster)


class Story:
    """Two racks of one node with 4 CPUs each, and a scheduler."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes = cluster.hollow_nodes(2)
        for rack, name in zip("ab", self.nodes, strict=True):
            self.kubectl("label", "node", name, f"{RACK}={rack}")
        self.scheduler = cluster.scheduler()

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self.cluster.server.kubectl("--namespace", self.cluster.namespace, *arguments, stdin=stdin)

    def apply(self, *documents: Any) -> None:
        self.kubectl("apply", "-f", "-", stdin="".join(f"---\n{json.dumps(one)}\n" for one in documents))

    def show(self, name: str, kind: str = KIND) -> Any:
        return json.loads(self.kubectl("get", kind, name, "--output", "json"))

    def said(self, name: str, kind: str = KIND, of: str = INITIALLY) -> tuple[str, str, str]:
        """What a condition of a group says."""
        found = condition(self.show(name, kind), of)
        return found.get("status", ""), found.get("reason", ""), found.get("message", "")

    def why(self, pod: str) -> str:
        message: str = condition(json.loads(self.kubectl("get", "pod", pod, "--output", "json")), "PodScheduled").get(
            "message", ""
        )
        return message

    def pods(self, group: str, count: int, first: int = 0, *, cpu: str = "1", **spec: Any) -> list[Any]:
        return [
            {
                "apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"{group}-{number}"},
                "spec": {
                    "schedulerName": self.cluster.name, "nodeSelector": {"pool": self.cluster.name},
                    "schedulingGroup": {"podGroupName": group}, "terminationGracePeriodSeconds": 1,
                    "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}], **spec,
                },
            }
            for number in range(first, first + count)
        ]  # fmt: skip


def group(name: str, count: int, **spec: Any) -> Any:
    policy = {"gang": {"minCount": count}}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"schedulingPolicy": policy, **spec},
    }  # fmt: skip


def test_the_life_of_a_gang(story: Story) -> None:
    """It waits for its pods, starts whole, is found again by a new scheduler, and is never said to be unscheduled."""
    story.apply(group("pair", 2), *story.pods("pair", 1))
    few = "The gang has too few pods: 2 required, 1 created. Create the others or lower minCount."
    eventually(lambda: few in story.why("pair-0"), timeout=PATIENCE)
    eventually(lambda: story.said("pair")[:2] == ("False", "Unschedulable"), timeout=PATIENCE)
    assert few in story.said("pair")[2]
    assert story.cluster.bound() == {}

    story.apply(*story.pods("pair", 1, first=1))
    story.cluster.all_bound(["pair-0", "pair-1"], timeout=PATIENCE)
    eventually(lambda: story.said("pair")[0] == "True", timeout=PATIENCE)

    story.scheduler.kill()
    story.kubectl("delete", "pod", "pair-0", "--wait=true")
    story.cluster.scheduler()
    story.apply(*story.pods("pair", 1, first=2))
    story.cluster.all_bound(["pair-2"], timeout=PATIENCE)
    assert story.said("pair")[0] == "True"
    story.kubectl("delete", KIND, "pair", "--wait=false")


def test_all_pods_of_a_group_are_in_one_rack_or_wait(story: Story) -> None:
    """Each rack has 4 CPUs, and one of them is in use. A group of 4 gets the other rack; one of 5 has no rack."""
    close = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    story.apply(group("probe", 1), *story.pods("probe", 1))
    (used,) = story.cluster.all_bound(["probe-0"], timeout=PATIENCE).values()
    story.apply(group("train", 4, **close), *story.pods("train", 4))
    where = story.cluster.all_bound([f"train-{number}" for number in range(4)], timeout=PATIENCE)
    assert set(where.values()) == set(story.nodes) - {used}

    story.apply(group("wide", 5, **close), *story.pods("wide", 5))
    said = f"no domain by the label {RACK} has room for"
    eventually(lambda: said in story.why("wide-0"), timeout=PATIENCE)
    eventually(lambda: said in story.said("wide")[2], timeout=PATIENCE)
    assert not [name for name in story.cluster.bound() if name.startswith("wide")]


def test_a_group_that_goes_whole_or_not_at_all(story: Story) -> None:
    """Eight CPUs are in use by a group that needs one pod. A more important pod needs one CPU: all eight go."""
    high = story.cluster.priority_class("high", 1000)
    story.apply(group("whole", 1, disruptionMode={"all": {}}), *story.pods("whole", 8))
    story.cluster.all_bound([f"whole-{number}" for number in range(8)], timeout=PATIENCE)
    eventually(lambda: story.said("whole")[0] == "True", timeout=PATIENCE)
    story.apply(group("urgent", 1, priorityClassName=high), *story.pods("urgent", 1, priorityClassName=high))
    story.cluster.all_bound(["urgent-0"], timeout=PATIENCE)
    eventually(lambda: not [name for name in story.cluster.pods() if name.startswith("whole")], timeout=PATIENCE)
    eventually(lambda: story.said("whole", of="DisruptionTarget")[0] == "True", timeout=20)
    assert story.said("whole")[0] == "True"  # it was scheduled once


def test_a_group_of_groups_starts_together_or_not_at_all(story: Story) -> None:
    """Two replicas of 4 CPUs, each in one rack, while a pod uses one CPU of a rack; then it ends."""
    story.apply(group("probe", 1), *story.pods("probe", 1))
    story.cluster.all_bound(["probe-0"], timeout=PATIENCE)
    close = {"schedulingConstraints": {"topology": [{"key": RACK}]}}
    work = {"workloadName": "service", "templateName": "replica"}
    parent = {
        "apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": {"name": "service"},
        "spec": {
            "workloadRef": {**work, "templateName": "service"}, "schedulingPolicy": {"gang": {"minGroupCount": 2}},
        },
    }  # fmt: skip
    replicas = [
        group(f"service-{number}", 2, parentCompositePodGroupName="service", workloadRef=work, **close)
        for number in range(2)
    ]
    pods = [pod for number in range(2) for pod in story.pods(f"service-{number}", 2, cpu="2")]
    story.apply(parent, *replicas, *pods)
    eventually(lambda: "start together, or none of them does" in story.why("service-1-0"), timeout=PATIENCE)
    assert set(story.cluster.bound()) == {"probe-0"}
    story.kubectl("delete", "pod", "probe-0", "--wait=false")
    where = story.cluster.all_bound([pod["metadata"]["name"] for pod in pods], timeout=PATIENCE)
    assert where["service-0-0"] == where["service-0-1"] != where["service-1-0"] == where["service-1-1"]
    of = "CompositePodGroupInitiallyScheduled"
    eventually(lambda: story.said("service", COMPOSITES, of)[0] == "True", timeout=PATIENCE)
