"""The objects of a world, as users write them."""

from __future__ import annotations

from typing import Any, Final

NAMESPACE: Final = "team"
JOBS: Final = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/jobs"
COMMANDS: Final = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{NAMESPACE}/commands"
PODS: Final = f"/api/v1/namespaces/{NAMESPACE}/pods"
NODES: Final = "/api/v1/nodes"
QUEUES: Final = "/apis/scheduling.volcano.sh/v1beta1/queues"
GROUPS: Final = f"/apis/scheduling.volcano.sh/v1beta1/namespaces/{NAMESPACE}/podgroups"
RESERVATIONS: Final = "/apis/scheduling.volcano.sh/v1alpha1/reservations"
REPLICA_SETS: Final = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
VOLUMES: Final = "/api/v1/persistentvolumes"
CLAIMS: Final = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims"
BUDGETS: Final = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"

Document = dict[str, Any]


def node(name: str, cpu: int) -> Document:
    amounts = {"cpu": str(cpu), "memory": "32Gi", "pods": "20"}
    return {
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def queue(name: str, **spec: Any) -> Document:
    return {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec}


def priority_class(name: str, value: int) -> Document:
    return {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": value,
    }  # fmt: skip


def pod_spec(cpu: float, priority: str = "", grace: int = 1) -> Document:
    spec: Document = {
        "schedulerName": "volcano", "terminationGracePeriodSeconds": grace,
        "containers": [{"name": "main", "image": "x", "resources": {"requests": {"cpu": str(cpu)}}}],
    }  # fmt: skip
    if priority:
        spec["priorityClassName"] = priority
    return spec


def job(
    name: str, queue: str, replicas: int, least: int, cpu: float, *, run: float | None, priority: str = "",
    grace: int = 1, fails: bool = False, labels: dict[str, str] | None = None, policies: list[Document] | None = None,
) -> Document:  # fmt: skip
    annotations = {"sim.stromboli.io/grace": f"{grace}s"}
    if run is not None:
        annotations["sim.stromboli.io/run"] = f"{run:.1f}s"
    if fails:
        annotations["sim.stromboli.io/exit-code"] = "3"
    template = {
        "metadata": {"annotations": annotations, "labels": labels or {}},
        "spec": {**pod_spec(cpu, priority, grace), "restartPolicy": "Never"},
    }
    spec: Document = {
        "schedulerName": "volcano", "queue": queue, "minAvailable": least, "maxRetry": 3,
        "tasks": [{"name": "work", "replicas": replicas, "template": template}],
    }  # fmt: skip
    if priority:
        spec["priorityClassName"] = priority
    if policies:
        spec["policies"] = policies
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec,
    }  # fmt: skip


def pod(
    name: str, cpu: float, *, run: float | None, priority: str = "", labels: dict[str, str] | None = None,
    claim: str = "",
) -> Document:  # fmt: skip
    annotations = {} if run is None else {"sim.stromboli.io/run": f"{run:.1f}s"}
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": annotations, "labels": labels or {}}
    spec = pod_spec(cpu, priority)
    if claim:
        spec["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def storage_class(name: str, provisioner: str) -> Document:
    return {
        "apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "provisioner": provisioner,
        "volumeBindingMode": "WaitForFirstConsumer",
        "metadata": {"name": name, "annotations": {"sim.stromboli.io/provision": "1s"}},
    }  # fmt: skip


def volume(name: str, node: str) -> Document:
    """A disk of a node."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "10Gi"}, "storageClassName": "local",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}}, "local": {"path": "/disk"},
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def claim(name: str, storage: str) -> Document:
    spec = {
        "accessModes": ["ReadWriteOnce"], "storageClassName": storage, "resources": {"requests": {"storage": "5Gi"}},
    }  # fmt: skip
    metadata = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def service(name: str, replicas: int, cpu: float, priority: str = "") -> Document:
    labels = {"app": name}
    template = {
        "metadata": {"labels": labels, "annotations": {"scheduling.volcano.sh/queue-name": "q-a"}},
        "spec": pod_spec(cpu, priority),
    }
    return {
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }  # fmt: skip


def budget(name: str, app: str, least: int) -> Document:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"minAvailable": least, "selector": {"matchLabels": {"app": app}}},
    }  # fmt: skip


def reservation(name: str, app: str, cpu: float, *, once: bool, ttl: str, priority: str = "") -> Document:
    template = {"metadata": {"namespace": NAMESPACE}, "spec": pod_spec(cpu, priority)}
    owners = [{"labelSelector": {"matchLabels": {"app": app}}, "namespaces": [NAMESPACE]}]
    spec: Document = {"template": template, "owners": owners, "allocateOnce": once, "ttl": ttl}
    return {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def command(name: str, action: str, job: str, uid: str) -> Document:
    target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job, "uid": uid, "controller": True}
    return {
        "apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command", "action": action, "target": target,
        "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [target]},
    }  # fmt: skip


CONFIGURATION: Final = """
actions: "enqueue, reclaim, allocate, preempt, reserve, backfill"
configurations:
- name: reserve
  arguments: {starvingJobTimeThreshold: 20}
tiers:
- plugins:
  - name: priority
  - name: gang
  - name: conformance
  - name: pdb
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: proportion
  - name: nodeorder
  - name: node_reservation
    arguments: {maxReservedPercent: 50}
  - name: reservation
"""

POLICY: Final = """
apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
deschedulingInterval: 11s
profiles:
- name: room
  pluginConfig:
  - name: Defragmentation
    args: {ResourceType: cpu, forPending: true, minPendingTime: 3, coolDownTime: 10}
  plugins: {balance: {enabled: [Defragmentation]}}
"""
