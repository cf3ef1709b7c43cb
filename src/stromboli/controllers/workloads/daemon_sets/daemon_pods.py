"""The pods of a DaemonSet: each is for one node.

A pod is pinned to its node by node affinity, so that the scheduler places it, and nobody else has to know which pods
are those of DaemonSets. They tolerate what befalls their node: they are the ones that look after it.

    wanted on a node    it matches the pod's selector and affinity, and has no taint that the pod does not tolerate
    stays on a node     the same, but only taints with the effect NoExecute drive it away
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stromboli.api import (
    Affinity,
    ControllerRevision,
    DaemonSet,
    Node,
    NodeAffinity,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodSpec,
    Taint,
    Toleration,
)
from stromboli.api.selectors import CORDON, KEEPS_AWAY, matches_required_node, untolerated
from stromboli.controllers.workloads.owned_pods import REVISION
from stromboli.controllers.workloads.pod_template import pod_from_template

_TROUBLES: Final = (
    ("not-ready", "NoExecute"), ("unreachable", "NoExecute"), ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"), ("pid-pressure", "NoSchedule"), ("unschedulable", "NoSchedule"),
)  # fmt: skip
_EVICTS: Final = frozenset({"NoExecute"})


def tolerations_of(spec: PodSpec) -> list[Toleration]:
    """Those of the template, and those that every DaemonSet has."""
    troubles = (*_TROUBLES, ("network-unavailable", "NoSchedule")) if spec.host_network else _TROUBLES
    added = [Toleration(key=f"node.kubernetes.io/{name}", operator="Exists", effect=what) for name, what in troubles]
    return [*spec.tolerations, *(one for one in added if one not in spec.tolerations)]


def fits(owner: DaemonSet, node: Node) -> tuple[bool, bool]:
    """Whether a pod is wanted on a node, and whether one that is there stays."""
    spec = owner.spec.template.spec
    if spec.node_name not in ("", node.metadata.name) or not matches_required_node(spec, node):
        return False, False
    tolerations = tolerations_of(spec)
    taints: list[Taint] = [*node.spec.taints, *([CORDON] if node.spec.unschedulable else [])]
    return untolerated(tolerations, taints, KEEPS_AWAY) is None, untolerated(tolerations, taints, _EVICTS) is None


def daemon_pod(owner: DaemonSet, name: str, node: str, revision: ControllerRevision | None, mark: str) -> Pod:
    pod = pod_from_template(owner, name, revision)
    return replace(
        pod,
        metadata=replace(pod.metadata, labels=pod.metadata.labels | {REVISION: mark}),
        spec=replace(pod.spec, affinity=_pinned(pod.spec.affinity, node), tolerations=tolerations_of(pod.spec)),
    )


def _pinned(affinity: Affinity | None, node: str) -> Affinity:
    """Required is the one node; that it matches all else is known."""
    only = NodeSelectorRequirement(key="metadata.name", operator="In", values=[node])
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[only])])
    of_node = (affinity.node_affinity if affinity is not None else None) or NodeAffinity()
    pinned = replace(of_node, required_during_scheduling_ignored_during_execution=selector)
    return replace(affinity or Affinity(), node_affinity=pinned)
