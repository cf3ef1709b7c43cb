"""Annotations of a pod that several packages read."""

from __future__ import annotations

from . import names
from .kinds.pods import Pod


def group_name_of(pod: Pod) -> str:
    """The name of the pod's PodGroup; "" if it has none."""
    annotations = pod.metadata.annotations
    return annotations.get(names.GROUP_NAME) or annotations.get(names.GROUP_NAME_VOLCANO, "")


def is_backfill(pod: Pod) -> bool:
    """Whether the pod was placed on resources that are lent by another gang."""
    annotations = pod.metadata.annotations
    return any(annotations.get(name, "").lower() == "true" for name in names.BACKFILL_NAMES)
