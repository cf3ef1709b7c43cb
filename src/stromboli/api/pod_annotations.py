"""Marks on a pod that several packages read."""

from __future__ import annotations

from . import names
from .kinds.pods import Pod


def group_name_of(pod: Pod) -> str:
    """The name of the pod's PodGroup; "" if it has none."""
    annotations = pod.metadata.annotations
    return annotations.get(names.GROUP_NAME) or annotations.get(names.GROUP_NAME_VOLCANO, "")


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
