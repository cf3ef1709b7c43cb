"""Marks on a pod that several packages read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec.structs import replace

from . import names
from .errors import quote
from .kinds.pods import Pod, PodSchedulingGate
from .upstream import SUFFIX


def group_name_of(pod: Pod) -> str:
    """The name of the pod's PodGroup; "" if it has none. One of scheduling.k8s.io has the suffix of such names."""
    annotations = pod.metadata.annotations
    named = annotations.get(names.GROUP_NAME) or annotations.get(names.GROUP_NAME_VOLCANO, "")
    group = pod.spec.scheduling_group
    if "@" in named or len(named) > names.LONGEST:
        return quote(named)  # no object has such a name; one with the suffix is in `spec.schedulingGroup` only
    if named or group is None or not group.pod_group_name:
        return named
    return f"{group.pod_group_name}{SUFFIX}"


def names_two_groups(pod: Pod) -> bool:
    """Whether it names a group of each kind. Nobody can tell then which of them is to start as a whole."""
    group = pod.spec.scheduling_group
    if group is None or not group.pod_group_name:
        return False
    return any(pod.metadata.annotations.get(name) for name in names.GROUP_NAMES)


def is_backfill(pod: Pod) -> bool:
    """Whether the pod was placed on resources that are lent by another gang. That is in its status, which its owner
    cannot write: without the mark, the pod would stay when the resources are needed. Who writes the annotation lends
    its own pod to others."""
    if pod.spec.node_name and is_marked_lent(pod):
        return True
    annotations = pod.metadata.annotations
    return any(annotations.get(name, "").lower() == "true" for name in names.BACKFILL_NAMES)


def is_marked_lent(pod: Pod) -> bool:
    """Whether its status says so. For a pod without a node that means nothing: its bind did not happen."""
    return any(one.type == names.LENT_CONDITION and one.status == "True" for one in pod.status.conditions)


# -- the gate of queues -----------------------------------------------------------------------------------------------
#
# Autoscalers add nodes for pods that are unschedulable. A pod that waits for its queue needs no node, but looks the
# same. One that opts in gets a scheduling gate when it is created, so they pass it over, and the scheduler removes the
# gate. Kubernetes lets nobody add one later.

QUEUE_GATE_OPTED_IN: Final = "true"
"""The value of the annotation; the gate has the name of the annotation."""


def opts_in_to_queue_gate(annotations: Mapping[str, str]) -> bool:
    return annotations.get(names.QUEUE_ALLOCATION_GATE) == QUEUE_GATE_OPTED_IN


def awaits_queue(pod: Pod) -> bool:
    """Whether nothing but its queue keeps the pod from being scheduled: it opted in, and has no other gate."""
    gates = pod.spec.scheduling_gates
    if len(gates) != 1 or gates[0].name != names.QUEUE_ALLOCATION_GATE:
        return False
    return opts_in_to_queue_gate(pod.metadata.annotations)


def with_queue_gate(pod: Pod) -> Pod:
    """A pod that is about to be created, with the gate if it opts in. One that has a node needs none."""
    gates = pod.spec.scheduling_gates
    if pod.spec.node_name or not opts_in_to_queue_gate(pod.metadata.annotations):
        return pod
    if any(gate.name == names.QUEUE_ALLOCATION_GATE for gate in gates):
        return pod
    gated = [*gates, PodSchedulingGate(name=names.QUEUE_ALLOCATION_GATE)]
    return replace(pod, spec=replace(pod.spec, scheduling_gates=gated))


def without_queue_gate(pod: Pod) -> Pod:
    left = [gate for gate in pod.spec.scheduling_gates if gate.name != names.QUEUE_ALLOCATION_GATE]
    return replace(pod, spec=replace(pod.spec, scheduling_gates=left))
