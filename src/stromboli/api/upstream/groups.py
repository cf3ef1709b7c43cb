"""The translation of a group.

There may be a PodGroup of both kinds with one name in a namespace. So the name that the program uses for one of
`scheduling.k8s.io` has a suffix that no name of an object can have. Only `as_written` and `plain_name` take it off.

    gang.minCount                 minMember
    basic                         minMember 1, and each pod is on its own
    priority                      its own; priorityClassName counts only while the server has filled in none
    disruptionMode: all           the group goes whole, with the pods above its minimum
    annotation of the queue       spec.queue, unless the queue is fixed already (`conditions`)
"""

from __future__ import annotations

from collections.abc import Container
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from stromboli.api import names
from stromboli.api.kinds.batch import PodGroup, PodGroupSpec
from stromboli.api.kinds.workloads import (
    CompositePodGroup,
    GangSchedulingPolicy,
    PodGroupSchedulingPolicy,
    WorkloadPodGroup,
)

from .reading import queue_in_force, read_status

SUFFIX = "@scheduling.k8s.io"
COMPOSITE_SUFFIX = "@composite.scheduling.k8s.io"

Written = WorkloadPodGroup | CompositePodGroup
T = TypeVar("T")


class Part(NamedTuple):
    """Groups inside a composite one whose pods start together, or must be in one domain."""

    title: str  # "PodGroup x", "CompositePodGroup y"
    groups: tuple[tuple[str, int], ...]  # PodGroups by name, and how many pods each has at least when it starts
    topology_key: str  # "" if they may run wherever the composite may
    needed: bool  # the composite does not start without them


class UpstreamGroup(PodGroup):
    """A PodGroup or CompositePodGroup of `scheduling.k8s.io` as one of ours. Made by `as_pod_group` only."""

    written: WorkloadPodGroup | CompositePodGroup | None = None
    parts: tuple[Part, ...] = ()  # of a composite one

    @property
    def original(self) -> WorkloadPodGroup | CompositePodGroup:
        assert self.written is not None
        return self.written

    @property
    def is_composite(self) -> bool:
        return isinstance(self.written, CompositePodGroup)

    @property
    def is_basic(self) -> bool:
        """Whether its pods, or its children, start one by one."""
        return self.original.spec.scheduling_policy.gang is None

    @property
    def least(self) -> int:
        """How many pods, or how many children, it needs to start."""
        group = self.original
        if isinstance(group, CompositePodGroup):
            children = group.spec.scheduling_policy.gang
            return 1 if children is None else max(1, children.min_group_count)
        pods = group.spec.scheduling_policy.gang
        return 1 if pods is None else max(1, pods.min_count)

    @property
    def goes_whole(self) -> bool:
        mode = self.original.spec.disruption_mode
        return mode is not None and mode.all is not None

    @property
    def priority(self) -> int | None:
        """None while the server has filled in none."""
        return self.original.spec.priority

    @property
    def topology_key(self) -> str:
        """The label whose values are the domains; "" if it may run anywhere."""
        constraints = self.original.spec.scheduling_constraints
        return "" if constraints is None or not constraints.topology else constraints.topology[0].key

    @property
    def parent(self) -> str:
        """The key of the composite group that it is part of; "" if it is on its own."""
        name = self.original.spec.parent_composite_pod_group_name
        return f"{self.metadata.namespace}/{name}{COMPOSITE_SUFFIX}" if name else ""


def as_pod_group(group: Written) -> UpstreamGroup:
    meta = group.metadata
    annotations = {name: value for name, value in meta.annotations.items() if name != names.GOES_WHOLE}
    suffix = COMPOSITE_SUFFIX if isinstance(group, CompositePodGroup) else SUFFIX
    found = UpstreamGroup(
        metadata=replace(meta, name=f"{meta.name}{suffix}", annotations=annotations),
        spec=PodGroupSpec(queue=queue_in_force(group), priority_class_name=group.spec.priority_class_name),
        status=read_status(group.status.conditions),
        written=group,
    )
    found.spec.min_member = found.least
    if found.goes_whole:
        annotations[names.GOES_WHOLE] = "true"
    return found


def with_minimum(group: PodGroup, pods: int) -> PodGroup:
    """The group if so many of its pods had to start together. It is not composite."""
    changed: PodGroup = replace(group, spec=replace(group.spec, min_member=pods))
    if not isinstance(changed, UpstreamGroup) or not isinstance(changed.written, WorkloadPodGroup):
        return changed
    policy = PodGroupSchedulingPolicy(gang=GangSchedulingPolicy(min_count=pods))
    written = replace(changed.written, spec=replace(changed.written.spec, scheduling_policy=policy))
    return replace(changed, written=written)


def translated(obj: T) -> T | UpstreamGroup:
    """The object as the rest of the program knows it."""
    return as_pod_group(obj) if isinstance(obj, WorkloadPodGroup | CompositePodGroup) else obj


def translated_place(kind: type, key: str) -> tuple[type, str]:
    """Where an object of this kind is, for the rest of the program."""
    if issubclass(kind, CompositePodGroup):
        return UpstreamGroup, f"{key}{COMPOSITE_SUFFIX}"
    return (UpstreamGroup, f"{key}{SUFFIX}") if issubclass(kind, WorkloadPodGroup) else (kind, key)


def as_written(obj: T) -> T | WorkloadPodGroup | CompositePodGroup:
    """The object as its user wrote it, with what has become of its metadata since."""
    if not isinstance(obj, UpstreamGroup):
        return obj
    original = obj.original
    meta = replace(obj.metadata, name=original.metadata.name, annotations=original.metadata.annotations)
    return replace(original, metadata=meta)


def written_type(key: str) -> type[WorkloadPodGroup | CompositePodGroup] | None:
    """The kind of a group with this name or key; None if it is none of these."""
    if key.endswith(COMPOSITE_SUFFIX):
        return CompositePodGroup
    return WorkloadPodGroup if key.endswith(SUFFIX) else None


def plain_name(key: str) -> str:
    """A name or key as users know it."""
    return key.removesuffix(COMPOSITE_SUFFIX).removesuffix(SUFFIX)


def shown_key(key: str, known: Container[str]) -> str:
    """The key as users know it, unless a group of another kind has that name."""
    plain = plain_name(key)
    if plain in known or (key.endswith(COMPOSITE_SUFFIX) and f"{plain}{SUFFIX}" in known):
        return key
    return plain
