"""Marks on a pod that several packages read."""

from __future__ import annotations

from . import names
from .errors import quote
from .kinds.pods import Pod
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
