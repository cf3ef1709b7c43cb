"""A cluster for one test: hollow nodes, and the real commands as processes.

Tests share a server. To be independent, each has its own namespace, scheduler name, nodes, and names of cluster-scoped
objects; all of it is removed when the test ends.
"""

from __future__ import annotations

import http.client
import json
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import Any

from kube.client import Client, Refused, eventually
from kube.crd_install import install_crds
from kube.server import ApiServer
from stromboli.kube.runtime.process import lease_name

COMMAND = [sys.executable, "-c", "from stromboli.console.main import main; main()"]
START_SECONDS = 60.0  # two on an idle machine; busy ones are no failure

GROUPS = "/apis/scheduling.volcano.sh/v1beta1"
QUEUES = f"{GROUPS}/queues"
RESERVATIONS = "/apis/scheduling.volcano.sh/v1alpha1/reservations"
HYPER_NODES = "/apis/topology.volcano.sh/v1alpha1/hypernodes"
NODES = "/api/v1/nodes"
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"

# What the built-in configuration says, for those who need something else of an action.
TIERS = """
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}, {name: pdb}]
- plugins:
  - {name: overcommit}
  - {name: drf, enablePreemptable: false}
  - {name: predicates}
  - {name: proportion}
  - {name: nodeorder}
"""


def configuration(
    actions: str = "enqueue, reclaim, allocate, preempt, reserve, backfill", **arguments: dict[str, Any]
) -> str:
    """The text of a configuration file with these actions, and arguments for some of them."""
    given = [{"name": action, "arguments": those} for action, those in arguments.items()]
    return f'actions: "{actions}"\nconfigurations: {json.dumps(given)}\n{TIERS}'


class Ended(Exception):
    """A program that should run does not; says what its log says."""


_PROCESSES = ("scheduler", "controllers", "descheduler", "run")


class Program:
    """One `stromboli …` that runs, with its log in a file."""

    def __init__(self, arguments: Iterable[str], log: Path) -> None:
        self._log = log
        # Tests read metrics as Prometheus does in deploy/.
        command, *options = arguments
        metrics = ["--metrics-without-token"] if command in _PROCESSES else []
        arguments = [command, *metrics, *options]
        with log.open("ab") as file:
            self._process = subprocess.Popen([*COMMAND, *arguments], stdin=subprocess.DEVNULL, stderr=file)

    def __str__(self) -> str:
        return self._log.stem

    @property
    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace")

    def said(self, message: str) -> list[dict[str, Any]]:
        """The records of the log with this message, in their order."""
        records = [json.loads(line) for line in self.log.splitlines() if line.startswith("{") and line.endswith("}")]
        return [record for record in records if record["message"] == message]

    # What it answers

    def is_ready(self) -> bool:
        if self._process.poll() is not None:
            raise Ended(self.log)
        try:
            return self._ask("/readyz")[0] == http.client.OK
        except OSError:
            return False

    def metric(self, name: str, **labels: str) -> float:
        """One number of its metrics; labels are those to be matched, and several matches are added up."""
        wanted = {f'{label}="{value}"' for label, value in labels.items()}
        total = 0.0
        for line in self._ask("/metrics")[1].splitlines():
            sample, _, value = line.rpartition(" ")
            found, _, rest = sample.partition("{")
            if found == name and wanted <= set(rest.removesuffix("}").split(",")):
                total += float(value)
        return total

    def _ask(self, path: str) -> tuple[int, str]:
        started = self.said("started")
        if not started:
            raise ConnectionRefusedError
        host, _, port = started[-1]["probes"].rpartition(":")
        connection = http.client.HTTPConnection(host, int(port), timeout=30)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    # What can be done to it

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()

    def pause(self) -> None:
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def terminate(self) -> int:
        """Ask it to stop; returns its exit status."""
        self._process.terminate()
        return self._process.wait(timeout=60)

    def close(self) -> None:
        """No more of it, whatever state it is in."""
        if self._process.poll() is None:
            self.resume()
            self.kill()


class History:
    """All that ever happened to the pods of a namespace, from the moment it is made; goes on through outages."""

    def __init__(self, admin: Client, namespace: str) -> None:
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._admin = admin
        self._version = admin.get(self._path)["metadata"]["resourceVersion"]
        self._pods: list[Any] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._follow)
        self._thread.start()

    def _follow(self) -> None:
        while not self._over.is_set():
            try:
                for event in self._admin.watch(self._path, resourceVersion=self._version, timeoutSeconds=1):
                    if event["type"] == "ERROR":
                        self._catch_up()
                        break
                    self._take(event["object"])
            except (OSError, http.client.HTTPException, ValueError, Refused):
                self._over.wait(0.2)

    def _catch_up(self) -> None:
        """A server that was away does not tell what happened just before."""
        now = self._admin.get(self._path)
        for pod in now["items"]:
            self._take(pod)
        self._version = now["metadata"]["resourceVersion"]

    def _take(self, pod: Any) -> None:
        self._version = pod["metadata"]["resourceVersion"]
        self._pods.append(pod)

    def close(self) -> None:
        self._over.set()
        self._thread.join()

    def pods(self) -> list[Any]:
        """Every pod after each of its changes, in their order."""
        return list(self._pods)

    def sightings(self, name: str, *, bound: bool = False) -> list[Any]:
        """A pod as it was after each of its changes; or only those since it had a node."""
        seen = [pod for pod in self._pods if pod["metadata"]["name"] == name]
        return [pod for pod in seen if pod["spec"].get("nodeName")] if bound else seen

    def nodes_of_pods(self) -> dict[str, list[str]]:
        """By the uid of each pod, the nodes it was ever seen on, in their order."""
        seen: dict[str, list[str]] = {}
        for pod in self._pods:
            nodes = seen.setdefault(pod["metadata"]["uid"], [])
            node = pod["spec"].get("nodeName")
            if node and node not in nodes:
                nodes.append(node)
        return seen


class Cluster:
    """What a story has, and what it can ask. As a context manager it leaves nothing behind."""

    def __init__(self, server: ApiServer, namespace: str, folder: Path) -> None:
        self.server = server
        self.admin = server.client()
        self.namespace = namespace
        self.name = f"s-{secrets.token_hex(3)}"  # of the scheduler, and the beginning of what is cluster-wide
        self.folder = folder
        self._programs: list[Program] = []
        self._histories: list[History] = []
        self._made: list[str] = []  # paths of cluster-wide objects
        self._namespaces: list[str] = []
        install_crds(self.admin)

    def __enter__(self) -> Cluster:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for program in self._programs:
            program.close()
        for history in self._histories:
            history.close()
        self.server.start()
        self._print_how_it_ended()
        reservations = [f"{RESERVATIONS}/{one['metadata']['name']}" for one in self.reservations()]
        for path in [*self._made, *reservations]:
            self._remove(path)
        for name in self._namespaces:
            remove_namespace(self.admin, name)

    def _print_how_it_ended(self) -> None:
        """For whoever has to find out why a story failed; pytest shows it then, and only then."""
        for program in self._programs:
            print(f"--- {program}\n{program.log}")
        for name, pod in self.pods().items():
            said = condition(pod, "PodScheduled").get("message", "")
            print(f"--- pod {name}: {pod['status']['phase']} on {pod['spec'].get('nodeName')} {said}")
        for group in self.admin.list(f"{GROUPS}/namespaces/{self.namespace}/podgroups"):
            print(f"--- group {group['metadata']['name']}: {group.get('status')}")

    def _remove(self, path: str) -> None:
        try:
            self.admin.delete(path, gracePeriodSeconds=0)
        except Refused as refused:
            if refused.reason != "NotFound":
                raise

    # Programs

    def start(self, command: str, *arguments: str) -> Program:
        """A command of the product, not waited for."""
        log = self.folder / f"{len(self._programs)}-{command}.log"
        program = Program([command, "--kubeconfig", str(self.server.kubeconfig), *arguments], log)
        self._programs.append(program)
        return program

    def scheduler(self, *arguments: str, config: Path | str | None = None, replicas: bool = False) -> Program:
        """A scheduler that is ready. With `replicas` it competes for the lease, which is in the story's namespace."""
        if isinstance(config, str):
            text, config = config, self.folder / f"scheduler-{len(self._programs)}.yaml"
            config.write_text(text, encoding="utf-8")
        options = ["--scheduler-name", self.name, "--lease-namespace", self.namespace, "--probe-port", "0"]
        options += ["--log-format", "json"]
        if not replicas:
            options.append("--no-leader-elect")
        if config is not None:
            options += ["--config", str(config)]
        program = self.start("scheduler", *options, *arguments)
        eventually(program.is_ready, timeout=START_SECONDS)
        return program

    def hollow_nodes(self, count: int, *, cpu: int = 4, volumes: bool = False) -> list[str]:
        """Nodes that run their pods; their names. `volumes`: somebody makes and binds volumes, too."""
        prefix = f"{self.name}-{len(self._programs)}-"
        names = [f"{prefix}{number}" for number in range(count)]
        size = ["--nodes", str(count), "--node-cpu", str(cpu), "--node-memory", "16Gi"]
        size += ["--provision-volumes"] if volumes else []
        program = self.start("hollow-nodes", *size, "--name-prefix", prefix, "--label", f"pool={self.name}")
        self._made += [f"{NODES}/{name}" for name in names]
        self._made += [f"/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/{name}" for name in names]
        eventually(lambda: " ready. " in program.log, timeout=START_SECONDS)
        return names

    # Objects

    def other_namespace(self) -> str:
        """One more namespace."""
        name = f"{self.namespace}-{len(self._namespaces)}"
        self.admin.create("/api/v1/namespaces", {"metadata": {"name": name}})
        self._namespaces.append(name)
        return name

    def queue(self, name: str, **spec: Any) -> str:
        name = f"{self.name}-{name}"
        self.admin.create(
            QUEUES,
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "Queue",
                "metadata": {"name": name},
                "spec": spec,
            },
        )
        self._made.append(f"{QUEUES}/{name}")
        return name

    def hyper_node(self, name: str, nodes: Iterable[str]) -> str:
        """A domain of the first tier."""
        name = f"{self.name}-{name}"
        members = [{"type": "Node", "selector": {"exactMatch": {"name": node}}} for node in nodes]
        self.admin.create(
            HYPER_NODES,
            {
                "apiVersion": "topology.volcano.sh/v1alpha1",
                "kind": "HyperNode",
                "metadata": {"name": name},
                "spec": {"tier": 1, "members": members},
            },
        )
        self._made.append(f"{HYPER_NODES}/{name}")
        return name

    def priority_class(self, name: str, value: int) -> str:
        name = f"{self.name}-{name}"
        self.admin.create(PRIORITY_CLASSES, {"metadata": {"name": name}, "value": value})
        self._made.append(f"{PRIORITY_CLASSES}/{name}")
        return name

    def group(self, name: str, members: int, *, namespace: str = "", **spec: Any) -> None:
        namespace = namespace or self.namespace
        self.admin.create(
            f"{GROUPS}/namespaces/{namespace}/podgroups",
            {
                "apiVersion": "scheduling.volcano.sh/v1beta1",
                "kind": "PodGroup",
                "metadata": {"name": name},
                "spec": {"minMember": members, **spec},
            },
        )

    def pod(
        self,
        name: str,
        *,
        cpu: str = "1",
        group: str = "",
        namespace: str = "",
        annotations: dict[str, str] | None = None,
        labels: dict[str, str] | None = None,
        **spec: Any,
    ) -> None:
        """A pod for our scheduler and nodes, in a group of its own name unless told otherwise."""
        notes = {"scheduling.k8s.io/group-name": group or name, **(annotations or {})}
        container = {"name": "main", "image": "work", "resources": {"requests": {"cpu": cpu}}}
        document = {
            "metadata": {"name": name, "annotations": notes, "labels": labels or {}},
            "spec": {
                "schedulerName": self.name,
                "nodeSelector": {"pool": self.name},
                "terminationGracePeriodSeconds": 1,
                "containers": [container],
                **spec,
            },
        }
        self.admin.create(self._pods(namespace), document)

    def single(self, name: str, *, namespace: str = "", queue: str = "default", **pod: Any) -> None:
        """A pod with the group that a controller would make for it."""
        self.group(name, 1, namespace=namespace, queue=queue)
        self.pod(name, namespace=namespace, **pod)

    def gang(self, name: str, members: int, **pod: Any) -> list[str]:
        """A group of equal pods that start together; the names of the pods."""
        self.group(name, members)
        names = [f"{name}-{index}" for index in range(members)]
        for member in names:
            self.pod(member, group=name, **pod)
        return names

    def delete_pod(self, name: str, *, namespace: str = "", grace: int | None = None) -> None:
        query = {} if grace is None else {"gracePeriodSeconds": grace}
        self.admin.delete(f"{self._pods(namespace)}/{name}", **query)

    # What is so

    def pods(self, namespace: str = "") -> dict[str, Any]:
        return {pod["metadata"]["name"]: pod for pod in self.admin.list(self._pods(namespace))}

    def bound(self, namespace: str = "") -> dict[str, str]:
        """The pods that have a node, and which."""
        nodes = {name: pod["spec"].get("nodeName") for name, pod in self.pods(namespace).items()}
        return {name: node for name, node in nodes.items() if node}

    def group_of(self, name: str) -> Any:
        return self.admin.get(f"{GROUPS}/namespaces/{self.namespace}/podgroups/{name}")

    def reservations(self) -> list[Any]:
        return self.admin.list(RESERVATIONS)

    def events(self, reason: str, namespace: str = "") -> list[Any]:
        found = self.admin.list(f"/api/v1/namespaces/{namespace or self.namespace}/events")
        return [event for event in found if event["reason"] == reason]

    def lease(self) -> Any:
        path = f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{lease_name('scheduler', self.name)}"
        return self.admin.get(path)["spec"]

    def is_bound(self, *names: str, namespace: str = "") -> bool:
        return set(names) <= set(self.bound(namespace))

    def all_bound(self, names: Iterable[str], namespace: str = "", timeout: float = 30) -> dict[str, str]:
        """Wait until they are; returns where."""
        wanted = list(names)
        eventually(lambda: self.is_bound(*wanted, namespace=namespace), timeout=timeout)
        return {name: node for name, node in self.bound(namespace).items() if name in wanted}

    def assert_no_node_is_overfull(self) -> None:
        """A scheduler that forgot a bind would give its room away a second time."""
        used: dict[str, Fraction] = {}
        for pod in self.admin.list("/api/v1/pods"):
            node = pod["spec"].get("nodeName")
            if node and pod["status"]["phase"] not in ("Succeeded", "Failed"):
                for container in pod["spec"]["containers"]:
                    asked = container.get("resources", {}).get("requests", {}).get("cpu", "0")
                    used[node] = used.get(node, Fraction(0)) + _cpus(asked)
        for node in self.admin.list(NODES):
            name = node["metadata"]["name"]
            assert used.get(name, 0) <= _cpus(node["status"]["allocatable"]["cpu"]), f"{name} has {used[name]} CPUs"

    def history(self) -> History:
        history = History(self.admin, self.namespace)
        self._histories.append(history)
        return history

    def _pods(self, namespace: str) -> str:
        return f"/api/v1/namespaces/{namespace or self.namespace}/pods"


def condition(obj: Any, kind: str) -> Any:
    """A condition of an object's status; an empty one if it is not there."""
    conditions = obj.get("status", {}).get("conditions") or []
    return next((one for one in conditions if one["type"] == kind), {})


def remove_namespace(admin: Client, name: str) -> None:
    """What the controller-manager would do, so that no pod of an earlier test is seen by a later one's scheduler."""
    admin.delete(f"/api/v1/namespaces/{name}")
    groups = admin.get("/apis")["groups"]
    for root in ["/api/v1", *(f"/apis/{group['preferredVersion']['groupVersion']}" for group in groups)]:
        try:
            for kind in admin.get(root)["resources"]:
                if kind["namespaced"] and "deletecollection" in kind["verbs"]:
                    admin.delete(f"{root}/namespaces/{name}/{kind['name']}", gracePeriodSeconds=0)
        except Refused as refused:
            if refused.status != 404:  # else the kinds of this group were removed just now, and all their objects
                raise
    left = admin.get(f"/api/v1/namespaces/{name}")
    left["spec"]["finalizers"] = []
    admin.replace(f"/api/v1/namespaces/{name}/finalize", left)


def _cpus(quantity: str) -> Fraction:
    return Fraction(quantity[:-1]) / 1000 if quantity.endswith("m") else Fraction(quantity)
