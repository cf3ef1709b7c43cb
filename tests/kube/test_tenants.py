"""Two tenants of one cluster, each with the role `edit` in a namespace of its own: one tries to harm the other.

The roles are those of Kubernetes with what deploy/ adds to them. The attacker writes every mark of docs/security.md on
all that it has, and tries to write what it must not.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from kube.client import Client, Refused, eventually
from kube.cluster import GROUPS, NODES, QUEUES, RESERVATIONS, Cluster
from kube.server import ApiServer
from kube.test_reservations import reservation, status
from live.kustomize import DEPLOY
from security.test_table_of_marks import in_table
from stromboli.api import names
from stromboli.console.main import run

ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
TIMEOUT = 60.0


def gather_role(admin: Client, role: str) -> None:
    """What the controller of aggregated roles does, which is not here: whoever may edit may also view."""
    parts = {"view": ("view",), "edit": ("view", "edit"), "admin": ("view", "edit", "admin")}[role]
    rules = [
        rule
        for one in admin.list(ROLES)
        for rule in one.get("rules") or []
        if one["metadata"]["name"] not in ("view", "edit", "admin")
        and any(
            (one["metadata"].get("labels") or {}).get(f"rbac.authorization.k8s.io/aggregate-to-{part}") == "true"
            for part in parts
        )
    ]
    admin.patch(f"{ROLES}/{role}", {"rules": rules})


def tenant(server: ApiServer, namespace: str) -> Client:
    """A user who may edit one namespace."""
    user = f"tenant-{secrets.token_hex(3)}"
    bind(server, f"/namespaces/{namespace}/rolebindings", user, "edit")
    return server.client_as(user)


def bind(server: ApiServer, where: str, user: str, role: str) -> None:
    server.client().create(
        f"/apis/rbac.authorization.k8s.io/v1{where}",
        {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        },
    )


@pytest.fixture
def roles(api_server: ApiServer, cluster: Cluster) -> None:
    api_server.kubectl("apply", "-f", str(DEPLOY / "common" / "user-roles.yaml"))
    for role in ("view", "edit", "admin"):
        gather_role(api_server.client(), role)


def submit(user: Client, cluster: Cluster, namespace: str, name: str, cpu: str, **labels: str) -> Any:
    """A pod with a group of its own, made by a tenant. It goes on until somebody deletes it."""
    user.create(
        f"{GROUPS}/namespaces/{namespace}/podgroups",
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup",
            "metadata": {"name": name}, "spec": {"minMember": 1},
        },
    )  # fmt: skip
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu}}}
    return user.create(
        f"/api/v1/namespaces/{namespace}/pods",
        {
            "metadata": {"name": name, "labels": labels, "annotations": {names.GROUP_NAME: name}},
            "spec": {
                "schedulerName": cluster.name, "nodeSelector": {"pool": cluster.name}, "containers": [container],
                "terminationGracePeriodSeconds": 1,
            },
        },
    )  # fmt: skip


CLAIM = {
    "metadata": {"name": "evil"},
    "spec": {
        "storageClassName": "", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    },
}  # fmt: skip


def waiting_job(cluster: Cluster) -> Any:
    """A Job of the attacker for which there is no room."""
    container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": "1"}}}
    pod = {"nodeSelector": {"pool": cluster.name}, "containers": [container]}
    tasks = [{"name": "main", "replicas": 1, "template": {"spec": pod}}]
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": "evil"},
        "spec": {"schedulerName": cluster.name, "minAvailable": 1, "tasks": tasks},
    }  # fmt: skip


def marks() -> list[str]:
    """All that can be a label or an annotation. Its group decides where the attacker's own pod counts, so not that."""
    found = {f"{mark}forged" if mark.endswith("/") else mark for mark in in_table() if "/" in mark}
    return sorted(found - {*names.GROUP_NAMES})


@pytest.mark.usefixtures("roles")
def test_no_mark_of_one_tenant_harms_another(cluster: Cluster, api_server: ApiServer) -> None:
    """One node of 4 CPUs. 2 are held for the victim, of which it uses 1. The attacker has the rest and wants more."""
    mine, theirs = cluster.namespace, cluster.other_namespace()
    victim, attacker = tenant(api_server, mine), tenant(api_server, theirs)
    [node] = cluster.hollow_nodes(1, cpu=4)
    cluster.scheduler()
    cluster.start("controllers", "--no-leader-elect", "--probe-port", "0", "--log-format", "json",
                  "--scheduler-name", cluster.name)  # fmt: skip
    held = reservation(cluster, "web", "2")
    eventually(lambda: status(cluster, held).get("phase") == "Available", timeout=TIMEOUT)
    used = submit(victim, cluster, mine, "used", "1", app="web")
    for name in ("evil", "evil-too"):
        submit(attacker, cluster, theirs, name, "1")
    cluster.all_bound(["used"], timeout=TIMEOUT)
    cluster.all_bound(["evil", "evil-too"], namespace=theirs, timeout=TIMEOUT)
    submit(attacker, cluster, theirs, "evil-waits", "1")
    attacker.create(f"/api/v1/namespaces/{theirs}/persistentvolumeclaims", CLAIM)
    attacker.create(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{theirs}/jobs", waiting_job(cluster))
    uid = cluster.admin.get(f"{RESERVATIONS}/{held}")["metadata"]["uid"]

    # Every mark, with values that are about the victim, on every object that the attacker has.
    values = (f"{held}/{uid}", "true", "false", node, f"{mine}/used", "default", "9999-01-01T00:00:00Z", "1000000")
    own = [f"/api/v1/namespaces/{theirs}/pods/{name}" for name in ("evil", "evil-too", "evil-waits")]
    own += [f"{GROUPS}/namespaces/{theirs}/podgroups/{name}" for name in ("evil", "evil-too", "evil-waits")]
    own.append(f"/api/v1/namespaces/{theirs}/persistentvolumeclaims/evil")
    own.append(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{theirs}/jobs/evil")
    for mark in marks():
        for value in values if mark.startswith("scheduling.stromboli.io/") else values[:2]:
            for path in own:
                label = value.partition("/")[2] or value
                _patch(attacker, path, {"annotations": {mark: value}, "labels": {mark: label}})
    references = [
        {"apiVersion": "v1", "kind": "Pod", "name": "used", "uid": used["metadata"]["uid"], "controller": True},
        {"apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "name": held, "uid": uid},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "web", "uid": uid},
    ]
    for path in own:
        _patch(attacker, path, {"labels": {"app": "web"}, "ownerReferences": references})
    command = {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "metadata": {"name": "close"},
        "action": "CloseQueue", "target": {"kind": "Queue", "name": "default"},
    }  # fmt: skip
    attacker.create(f"/apis/bus.volcano.sh/v1alpha1/namespaces/{theirs}/commands", command)
    eventually(lambda: cluster.events("CommandRefused", theirs), timeout=TIMEOUT)

    # The scheduler has seen all of this when it has placed the victim's next pod, where it is held for it.
    submit(victim, cluster, mine, "next", "1", app="web")
    cluster.all_bound(["next"], timeout=TIMEOUT)
    eventually(lambda: len(status(cluster, held).get("currentOwners", [])) == 2, timeout=TIMEOUT)
    assert [one["namespace"] for one in status(cluster, held)["currentOwners"]] == [mine, mine]
    assert status(cluster, held)["phase"] == "Available"
    assert cluster.admin.get(f"{QUEUES}/default").get("status", {}).get("state", "Open") == "Open"
    now = cluster.pods()
    assert now["used"]["metadata"]["uid"] == used["metadata"]["uid"]
    assert [name for name, pod in now.items() if "deletionTimestamp" in pod["metadata"]] == []
    assert sorted(cluster.bound(theirs)) == ["evil", "evil-too"]
    cluster.assert_no_node_is_overfull()


def _patch(user: Client, path: str, metadata: dict[str, Any]) -> None:
    """What the server itself refuses, because it is no label or may not be changed, harms nobody."""
    for part, change in metadata.items():
        try:
            user.patch(path, {"metadata": {part: change}})
        except Refused as refused:
            if refused.status not in (400, 422):
                raise


@pytest.mark.usefixtures("roles")
def test_what_tenants_must_not_write_is_refused(cluster: Cluster, api_server: ApiServer) -> None:
    mine, theirs = cluster.namespace, cluster.other_namespace()
    victim, attacker = tenant(api_server, mine), tenant(api_server, theirs)
    cluster.queue("q")
    [node] = cluster.hollow_nodes(1, cpu=4)
    held = reservation(cluster, "web", "2")
    submit(victim, cluster, mine, "used", "1")
    submit(attacker, cluster, theirs, "evil", "1")
    groups, pods = f"{GROUPS}/namespaces/{theirs}/podgroups", f"/api/v1/namespaces/{theirs}/pods"
    forged: list[tuple[str, Any]] = [
        (f"{groups}/evil/status", {"status": {"phase": "Running"}}),
        (f"{pods}/evil/status", {"status": {"nominatedNodeName": node}}),
        (f"/apis/batch.volcano.sh/v1alpha1/namespaces/{theirs}/jobs/evil/status", {"status": {"retryCount": 0}}),
        (f"/api/v1/namespaces/{theirs}/persistentvolumeclaims/evil/status", {"status": {"phase": "Bound"}}),
        (f"{RESERVATIONS}/{held}", {"spec": {"ttl": "1s"}}),
        (f"{RESERVATIONS}/{held}/status", {"status": {"phase": "Expired"}}),
        (f"{QUEUES}/{cluster.name}-q", {"spec": {"weight": 100}}),
        (f"{QUEUES}/{cluster.name}-q/status", {"status": {"state": "Closed"}}),
        (f"{NODES}/{node}", {"metadata": {"annotations": {names.COOLDOWN_UNTIL: "9999-01-01T00:00:00Z"}}}),
        (f"/api/v1/namespaces/{theirs}", {"metadata": {"annotations": {names.QUEUE_NAME: "q"}}}),
        (f"/api/v1/namespaces/{mine}/pods/used", {"metadata": {"labels": {"app": "evil"}}}),
        (f"{GROUPS}/namespaces/{mine}/podgroups/used", {"spec": {"minMember": 9}}),
    ]
    for path, change in forged:
        with pytest.raises(Refused) as answer:
            attacker.patch(path, change)
        assert answer.value.status == 403, path
    for path in (RESERVATIONS, QUEUES, f"/api/v1/namespaces/{mine}/pods", f"{GROUPS}/namespaces/{mine}/podgroups"):
        with pytest.raises(Refused) as answer:
            attacker.create(path, {"metadata": {"name": "mine"}})
        assert answer.value.status == 403, path
    # A status that is there when the object is made is left out by the server.
    promised = {
        "metadata": {"name": "promised"}, "spec": {"containers": [{"name": "main", "image": "work"}]},
        "status": {"nominatedNodeName": node},
    }  # fmt: skip
    assert "nominatedNodeName" not in attacker.create(pods, promised)["status"]
    assert attacker.list(groups), "its own it may read"
    attacker.delete(f"{groups}/evil")


@pytest.mark.usefixtures("roles")
def test_a_tenant_asks_why_a_job_waits(
    cluster: Cluster, api_server: ApiServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the role of the namespace: the reason in the status. With the role of readers: the forecast, too."""
    mine = cluster.namespace
    user = f"tenant-{secrets.token_hex(3)}"
    bind(api_server, f"/namespaces/{mine}/rolebindings", user, "edit")
    cluster.hollow_nodes(1, cpu=4)
    cluster.scheduler()
    submit(api_server.client_as(user), cluster, mine, "wide", "8")
    options = ["--kubeconfig", str(api_server.kubeconfig_for(user)), "--scheduler-name", cluster.name]

    def said(*arguments: str) -> Any:
        status = run([*arguments, *options, "-o", "json"])
        text = capsys.readouterr()
        return status, json.loads(text.out) if status == 0 else text.err

    why = "why", f"{mine}/wide", "--no-what-if"
    eventually(lambda: said(*why)[1]["reasons"], timeout=TIMEOUT)
    status, answer = said(*why)
    assert status == 0
    assert "8 cpu requested for one pod" in answer["reasons"][0]["message"]
    assert "stromboli-reader" in answer["forecast"]
    assert [job["name"] for job in said("jobs", "-n", mine)[1]] == [f"{mine}/wide"]
    status, error = said("status")
    assert status == 3
    assert "--clusterrole stromboli-reader" in error

    bind(api_server, "/clusterrolebindings", user, "stromboli-reader")
    eventually(lambda: said("status")[0] == 0, timeout=TIMEOUT)  # the server learns of the binding a moment later
    status, answer = said(*why)
    assert (status, answer["reasons"][0]["code"], "forecast" in answer) == (0, "InsufficientNode", False)
