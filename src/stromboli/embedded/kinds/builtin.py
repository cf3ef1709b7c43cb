"""The built-in kinds that this server has."""

from __future__ import annotations

from typing import Final

from stromboli.embedded.schema import object_schema

from . import batch_jobs, cluster_kinds, other_kinds, pod_groups, policies, workloads
from .definitions import DefinitionStrategy
from .pods import PodStrategy
from .strategy import ResourceType, ScalePaths, Strategy

_ALL: Final = ("all",)


def builtin_resources() -> list[ResourceType]:
    return [
        _core("pods", "Pod", PodStrategy(), short=("po",), categories=_ALL, has_status=True),
        _core("nodes", "Node", cluster_kinds.NodeStrategy(), short=("no",), namespaced=False, has_status=True),
        _core(
            "namespaces", "Namespace", cluster_kinds.NamespaceStrategy(), short=("ns",), namespaced=False,
            has_status=True,
        ),
        _core("configmaps", "ConfigMap", other_kinds.ConfigMapStrategy(), short=("cm",)),
        _core("secrets", "Secret", other_kinds.SecretStrategy()),
        _core("services", "Service", other_kinds.ServiceStrategy(), short=("svc",), categories=_ALL, has_status=True),
        _core("endpoints", "Endpoints", other_kinds.PlainStrategy(), short=("ep",)),
        _core("serviceaccounts", "ServiceAccount", other_kinds.ServiceAccountStrategy(), short=("sa",)),
        _core("events", "Event", other_kinds.EventStrategy(), short=("ev",)),
        _core("resourcequotas", "ResourceQuota", other_kinds.QuotaStrategy(), short=("quota",), has_status=True),
        _core("limitranges", "LimitRange", other_kinds.PlainStrategy(), short=("limits",)),
        _core(
            "persistentvolumeclaims", "PersistentVolumeClaim", other_kinds.ClaimStrategy(), short=("pvc",),
            has_status=True,
        ),
        _core(
            "persistentvolumes", "PersistentVolume", other_kinds.PlainStrategy(), short=("pv",), namespaced=False,
            has_status=True,
        ),
        _in_group(
            "apps", "v1", "replicasets", "ReplicaSet", workloads.ReplicaSetStrategy(), short=("rs",), categories=_ALL,
            has_status=True, scale=workloads.REPLICA_SCALE,
        ),
        _in_group(
            "apps", "v1", "statefulsets", "StatefulSet", workloads.StatefulSetStrategy(), short=("sts",),
            categories=_ALL, has_status=True, scale=workloads.REPLICA_SCALE,
        ),
        _in_group(
            "apps", "v1", "daemonsets", "DaemonSet", workloads.DaemonSetStrategy(), short=("ds",), categories=_ALL,
            has_status=True,
        ),
        _in_group("apps", "v1", "controllerrevisions", "ControllerRevision", workloads.RevisionStrategy()),
        _in_group("batch", "v1", "jobs", "Job", batch_jobs.JobStrategy(), categories=_ALL, has_status=True),
        _in_group(
            "batch", "v1", "cronjobs", "CronJob", batch_jobs.CronJobStrategy(), short=("cj",), categories=_ALL,
            has_status=True,
        ),
        _in_group(
            "policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget", workloads.BudgetStrategy(), short=("pdb",),
            has_status=True,
        ),
        # The only version that kubectl knows before 1.21.
        _in_group(
            "policy", "v1beta1", "poddisruptionbudgets", "PodDisruptionBudget", workloads.BudgetStrategy(),
            short=("pdb",), has_status=True, storage_version="v1",
        ),
        _in_group(
            "scheduling.k8s.io", "v1", "priorityclasses", "PriorityClass", cluster_kinds.PriorityClassStrategy(),
            short=("pc",), namespaced=False,
        ),
        _in_group(
            "scheduling.k8s.io", "v1beta1", "podgroups", "PodGroup", pod_groups.PodGroupStrategy(), has_status=True,
        ),
        _in_group(
            "scheduling.k8s.io", "v1alpha3", "compositepodgroups", "CompositePodGroup",
            pod_groups.CompositePodGroupStrategy(), has_status=True,
        ),
        _in_group(
            "storage.k8s.io", "v1", "storageclasses", "StorageClass", other_kinds.StorageClassStrategy(), short=("sc",),
            namespaced=False,
        ),
        _in_group("storage.k8s.io", "v1", "csinodes", "CSINode", other_kinds.PlainStrategy(), namespaced=False),
        _in_group("storage.k8s.io", "v1", "csidrivers", "CSIDriver", other_kinds.PlainStrategy(), namespaced=False),
        _in_group("storage.k8s.io", "v1", "csistoragecapacities", "CSIStorageCapacity", other_kinds.PlainStrategy()),
        _in_group("coordination.k8s.io", "v1", "leases", "Lease", cluster_kinds.LeaseStrategy()),
        _in_group("networking.k8s.io", "v1", "networkpolicies", "NetworkPolicy", Strategy(), short=("netpol",)),
        _policy("validatingadmissionpolicies", "ValidatingAdmissionPolicy", policies.ValidatingPolicyStrategy()),
        _policy("validatingadmissionpolicybindings", "ValidatingAdmissionPolicyBinding", policies.BindingStrategy()),
        _policy("mutatingadmissionpolicies", "MutatingAdmissionPolicy", policies.MutatingPolicyStrategy()),
        _policy("mutatingadmissionpolicybindings", "MutatingAdmissionPolicyBinding", policies.BindingStrategy()),
        _role("roles", "Role"),
        _role("rolebindings", "RoleBinding"),
        _role("clusterroles", "ClusterRole", namespaced=False),
        _role("clusterrolebindings", "ClusterRoleBinding", namespaced=False),
        _in_group(
            "apps", "v1", "deployments", "Deployment", workloads.DeploymentStrategy(), short=("deploy",),
            categories=_ALL, has_status=True, scale=workloads.REPLICA_SCALE,
        ),
        _in_group(
            "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition",
            DefinitionStrategy(), short=("crd", "crds"), namespaced=False, has_status=True,
        ),
    ]  # fmt: skip


def _policy(plural: str, kind: str, strategy: Strategy) -> ResourceType:
    is_validating = kind == "ValidatingAdmissionPolicy"
    return _in_group(
        "admissionregistration.k8s.io", "v1", plural, kind, strategy, namespaced=False, has_status=is_validating
    )


def _role(plural: str, kind: str, *, namespaced: bool = True) -> ResourceType:
    """Stored, and nobody acts on it: who has the token may do everything."""
    strategy = other_kinds.RoleStrategy()
    return _in_group("rbac.authorization.k8s.io", "v1", plural, kind, strategy, namespaced=namespaced)


def _core(
    plural: str, kind: str, strategy: Strategy, *, short: tuple[str, ...] = (), categories: tuple[str, ...] = (),
    namespaced: bool = True, has_status: bool = False,
) -> ResourceType:  # fmt: skip
    return _in_group(
        "", "v1", plural, kind, strategy, short=short, categories=categories, namespaced=namespaced,
        has_status=has_status,
    )  # fmt: skip


def _in_group(
    group: str, version: str, plural: str, kind: str, strategy: Strategy, *, short: tuple[str, ...] = (),
    categories: tuple[str, ...] = (), namespaced: bool = True, has_status: bool = False,
    scale: ScalePaths | None = None, storage_version: str = "", warning: str = "",
) -> ResourceType:  # fmt: skip
    return ResourceType(
        group=group,
        version=version,
        plural=plural,
        kind=kind,
        namespaced=namespaced,
        schema=object_schema(kind),
        strategy=strategy,
        short_names=short,
        categories=categories,
        has_status=has_status,
        scale=scale,
        storage_version=storage_version,
        warning=warning,
    )
