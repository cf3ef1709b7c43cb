"""A session with kubectl, as users have it. Skipped where there is no kubectl."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from embedded.running import running

KUBECTL = shutil.which("kubectl") or (
    str(Path(os.environ["KUBEBUILDER_ASSETS"]) / "kubectl") if os.environ.get("KUBEBUILDER_ASSETS") else None
)
pytestmark = pytest.mark.skipif(KUBECTL is None, reason="there is no kubectl")

WORK = """
apiVersion: apps/v1
kind: ReplicaSet
metadata: {name: web, labels: {team: a}}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      nodeName: node-0
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "x:1"}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
data: {color: red}
"""
DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: balloons.toys.example.com}
spec:
  group: toys.example.com
  scope: Namespaced
  names: {plural: balloons, kind: Balloon, shortNames: [bl]}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns: [{name: Size, type: integer, jsonPath: .spec.size}]
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            description: What the balloon should be.
            properties: {size: {type: integer, minimum: 1, description: Its diameter.}}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: shop}
spec:
  replicas: 2
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec:
      nodeName: node-0
      terminationGracePeriodSeconds: 1
      containers: [{name: main, image: "x:1"}]
"""
BALLOON = "apiVersion: toys.example.com/v1\nkind: Balloon\nmetadata: {name: b}\nspec: {size: 3}\n"


class Kubectl:
    def __init__(self, kubeconfig: Path, cache: Path) -> None:
        assert KUBECTL is not None
        self._command = [KUBECTL, f"--kubeconfig={kubeconfig}", f"--cache-dir={cache}"]

    def __call__(self, *arguments: str, stdin: str = "", fails: bool = False) -> str:
        done = subprocess.run(
            [*self._command, *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode != 0) == fails, f"kubectl {' '.join(arguments)}: {done.stdout}{done.stderr}"
        return done.stdout + done.stderr

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "-o", "json"))

    def popen(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*self._command, *arguments], stdout=subprocess.PIPE, text=True)


@pytest.fixture(scope="module")
def kubectl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    folder = tmp_path_factory.mktemp("cluster")
    with running(folder, nodes=2) as cluster:
        yield Kubectl(cluster.kubeconfig, folder / "cache")


def eventually(check: Any) -> None:
    for _ in range(600):
        if check():
            return
        time.sleep(0.1)
    raise AssertionError("it did not happen within a minute")


def test_a_session(kubectl: Kubectl) -> None:
    assert "node-0   Ready" in kubectl("get", "nodes")
    resources = kubectl("api-resources")
    assert "replicasets" in resources
    assert "apps/v1" in kubectl("api-versions")

    # apply, on the client and on the server
    assert "replicaset.apps/web created" in kubectl("apply", "-f", "-", stdin=WORK)
    assert "replicaset.apps/web unchanged" in kubectl("apply", "-f", "-", stdin=WORK)
    changed = WORK.replace("red", "blue")
    assert "configmap/settings configured (server dry run)" in kubectl(
        "apply", "-f", "-", "--dry-run=server", stdin=changed
    )
    assert "configmap/settings configured" in kubectl("apply", "-f", "-", stdin=changed)
    assert kubectl.json("get", "configmap", "settings")["data"] == {"color": "blue"}
    assert "configmap/settings serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=changed)
    kubectl("patch", "configmap", "settings", "--type=merge", "-p", '{"data":{"color":"green"}}')
    conflict = kubectl("apply", "--server-side", "-f", "-", stdin=changed, fails=True)
    assert "conflict with" in conflict
    assert ".data.color" in conflict
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=changed)
    assert "unknown field" in kubectl("apply", "-f", "-", stdin=WORK.replace("replicas:", "replics:"), fails=True)

    # get, in all its forms
    kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=web", "--timeout=20s")
    table = kubectl("get", "pods", "-o", "wide")
    assert table.split()[:5] == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
    assert table.count("1/1") == 2
    names = kubectl("get", "pods", "-l", "app=web", "-o", "name").split()
    assert len(names) == 2
    assert kubectl("get", "pods", "--field-selector", "spec.nodeName=node-1", "-o", "name") == ""
    assert kubectl("get", "rs", "web", "-o", "jsonpath={.spec.replicas}") == "2"
    assert "NotFound" in kubectl("get", "pod", "none", fails=True)
    assert "Node:" in kubectl("describe", names[0])
    assert "Allocatable:" in kubectl("describe", "node", "node-0")
    assert "hollow node" in kubectl("logs", names[0])

    # changing things
    kubectl("scale", "rs", "web", "--replicas=3")
    eventually(lambda: kubectl.json("get", "rs", "web")["status"].get("readyReplicas") == 3)
    kubectl("label", "rs", "web", "team=b", "--overwrite")
    kubectl("annotate", "rs", "web", "note=yes")
    metadata = kubectl.json("get", "rs", "web")["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("b", "yes")
    kubectl("patch", "rs", "web", "-p", '{"spec":{"template":{"spec":{"containers":[{"name":"main","image":"x:2"}]}}}}')
    kubectl("patch", "rs", "web", "--type=json", "-p", '[{"op":"remove","path":"/metadata/labels/team"}]')


def test_create_and_explain(kubectl: Kubectl) -> None:
    kubectl("create", "namespace", "team")
    kubectl("create", "configmap", "literal", "-n", "team", "--from-literal=a=1")
    kubectl("create", "secret", "generic", "hidden", "-n", "team", "--from-literal=a=1")
    kubectl("create", "quota", "limit", "-n", "team", "--hard=cpu=5")
    kubectl("create", "priorityclass", "high", "--value=1000")
    kubectl("create", "job", "once", "-n", "team", "--image=x", "--", "echo", "hello")
    assert kubectl.json("get", "job", "once", "-n", "team")["spec"]["completions"] == 1
    kubectl("run", "single", "-n", "team", "--image=x")
    assert "configmap/literal" in kubectl("get", "all,configmaps,secrets,quota", "-n", "team")
    assert "limit" in kubectl("describe", "quota", "-n", "team")

    assert "tolerations" in kubectl("explain", "pod.spec")
    assert "Labels that the node must have." in kubectl("explain", "pods.spec.nodeSelector")

    kubectl("apply", "-f", "-", stdin=DEFINITION)
    kubectl("wait", "--for=condition=Established", "crd/balloons.toys.example.com", "--timeout=10s")
    kubectl("apply", "-f", "-", "-n", "team", stdin=BALLOON)
    assert kubectl("get", "bl", "-n", "team").split() == ["NAME", "SIZE", "b", "3"]
    assert "Its diameter." in kubectl("explain", "balloon.spec.size")
    assert "spec.size" in kubectl("apply", "-f", "-", "-n", "team", stdin=BALLOON.replace("3", "0"), fails=True)

    with kubectl.popen("get", "configmaps", "-n", "team", "-w", "-o", "name") as watching:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "configmap/literal\n"
        kubectl("create", "configmap", "second", "-n", "team")
        assert watching.stdout.readline() == "configmap/second\n"
        watching.terminate()

    kubectl("delete", "namespace", "team", "--wait=true", "--timeout=30s")
    kubectl("delete", "crd", "balloons.toys.example.com")
    assert "balloons" not in kubectl("api-resources")


def test_a_deployment_is_rolled_out(kubectl: Kubectl) -> None:
    """`kubectl rollout` as on a cluster: status waits, history lists what `undo` can go back to."""
    kubectl("apply", "-f", "-", stdin=DEPLOYMENT)
    rolled_out = 'deployment "shop" successfully rolled out'
    assert rolled_out in kubectl("rollout", "status", "deployment/shop", "--timeout=30s")
    kubectl("set", "image", "deployment/shop", "main=x:2")
    assert rolled_out in kubectl("rollout", "status", "deployment/shop", "--timeout=30s")
    assert "x:2" in kubectl("rollout", "history", "deployment/shop", "--revision=2")
    assert kubectl("rollout", "history", "deployment/shop").split()[-4:] == ["1", "<none>", "2", "<none>"]
    kubectl("rollout", "undo", "deployment/shop")
    assert rolled_out in kubectl("rollout", "status", "deployment/shop", "--timeout=30s")
    assert kubectl.json("get", "deployment", "shop")["spec"]["template"]["spec"]["containers"][0]["image"] == "x:1"
    assert kubectl("rollout", "history", "deployment/shop").split()[-4:] == ["2", "<none>", "3", "<none>"]
    kubectl("rollout", "pause", "deployment/shop")
    kubectl("set", "image", "deployment/shop", "main=x:3")
    time.sleep(0.5)
    assert len(kubectl("get", "rs", "-l", "app=shop", "-o", "name").split()) == 2
    kubectl("rollout", "resume", "deployment/shop")
    assert rolled_out in kubectl("rollout", "status", "deployment/shop", "--timeout=30s")
    kubectl("rollout", "restart", "deployment/shop")
    assert rolled_out in kubectl("rollout", "status", "deployment/shop", "--timeout=30s")
    assert kubectl("get", "deployment", "shop").split()[-5:-1] == ["shop", "2/2", "2", "2"]
    kubectl("delete", "deployment", "shop")
    eventually(lambda: kubectl("get", "rs,pods", "-l", "app=shop", "-o", "name") == "")


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_a_set_is_rolled_out(kubectl: Kubectl, kind: str) -> None:
    replicas = "replicas: 2\n" if kind == "StatefulSet" else "\n"
    body = DEPLOYMENT.replace("kind: Deployment", f"kind: {kind}").replace("shop", "store")
    kubectl("apply", "-f", "-", stdin=body.replace("replicas: 2\n", replicas))
    name = f"{kind.lower()}/store"
    kubectl("rollout", "status", name, "--timeout=30s")
    kubectl("set", "image", name, "main=x:2")
    kubectl("rollout", "status", name, "--timeout=30s")
    images = "jsonpath={.items[*].spec.containers[0].image}"
    assert set(kubectl("get", "pods", "-l", "app=store", "-o", images).split()) == {"x:2"}
    assert kubectl("rollout", "history", name).split()[-4:] == ["1", "<none>", "2", "<none>"]
    assert "x:1" in kubectl("rollout", "history", name, "--revision=1")
    kubectl("rollout", "undo", name)
    kubectl("rollout", "status", name, "--timeout=30s")
    assert set(kubectl("get", "pods", "-l", "app=store", "-o", images).split()) == {"x:1"}
    assert kubectl("rollout", "history", name).split()[-4:] == ["2", "<none>", "3", "<none>"]
    assert "store" in kubectl("get", name)
    kubectl("delete", name)
    eventually(lambda: kubectl("get", "controllerrevisions,pods", "-l", "app=store", "-o", "name") == "")


def test_nodes_are_cordoned_and_drained(kubectl: Kubectl) -> None:
    kubectl("apply", "-f", "-", stdin=WORK.replace("web", "guest").replace("settings", "others"))
    kubectl("create", "poddisruptionbudget", "guest", "--selector=app=guest", "--min-available=0")
    kubectl("wait", "--for=condition=Ready", "pod", "-l", "app=guest", "--timeout=20s")
    kubectl("cordon", "node-0")
    assert "SchedulingDisabled" in kubectl("get", "node", "node-0")
    before = {pod["metadata"]["uid"] for pod in kubectl.json("get", "pods", "-l", "app=guest")["items"]}
    kubectl("scale", "rs", "guest", "--replicas=0")
    kubectl("drain", "node-0", "--pod-selector=app=guest", "--timeout=30s", "--force")
    after = {pod["metadata"]["uid"] for pod in kubectl.json("get", "pods", "-l", "app=guest")["items"]}
    assert not before & after
    kubectl("uncordon", "node-0")
    kubectl("annotate", "node", "node-1", "sim.stromboli.io/ready=false")
    eventually(lambda: "NotReady" in kubectl("get", "node", "node-1"))
    kubectl("annotate", "node", "node-1", "sim.stromboli.io/ready-")
    eventually(lambda: "NotReady" not in kubectl("get", "node", "node-1"))
    kubectl("delete", "rs", "guest")
