"""Groups for pods that nobody put into one.

The scheduler decides over groups, and a Deployment or a bare pod has none. Each pod of our scheduler
without a group gets one: pods with a controlling owner share a group per owner, a bare pod has its own. The
group is named after the owner's uid, so that two controllers that see the same pod, or one that sees it
again after a restart, arrive at the same group; and it is owned by what it was made for, which is also how
such a group is told from one that a user wrote (`is_generated`). A generated group is no gang: its pods
were never meant to start together unless an annotation says so.

Pods that already run get a group as well. Their room must count in their queue's share from the first
cycle.

A group goes when it can no longer be needed: it has no pods, and its owner is gone or wants none. An owner
we cannot see is judged by its pods alone.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stromboli.api import ObjectMeta, OwnerReference, Pod, PodGroup, PodGroupSpec, ReplicaSet, ResourceList, names
from stromboli.api.generated_groups import generated_name, is_generated
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import QuantityError, amounts, format_amount

from .changes import Change, Create, Delete, Objects, Update
from .pod_owners import (
    Owner,
    PodIndex,
    controlling_reference,
    find_owner,
    group_of,
    is_finished,
    is_visible_kind,
    reference_to,
)
from .refusals import Refusals


def reconcile(
    objects: Objects, pods: PodIndex, refusals: Refusals, now: float, *, scheduler_name: str
) -> list[Change]:
    groups = list(objects.list(PodGroup))
    # A pod that names a group which is not there waits for its user to make it, unless we should have: a crash may come
    # between the group and the annotation, and anybody may delete a group.
    present = {(group.metadata.namespace, group.metadata.name) for group in groups}
    waiting = pods.of_missing_groups(present)
    groupless = [
        *pods.without_group,
        *(pod for pod in waiting if group_of(pod) == generated_name(_owner_of(pod, objects))),
    ]
    changes: list[Change] = []
    created: set[str] = set()
    for pod in groupless:
        if pod.spec.scheduler_name in ("", scheduler_name) and not is_finished(pod):
            changes += _give_group(pod, objects, created)
    for group in groups:
        if not pods.has_pods(group) and is_generated(group) and not _is_awaited(group, objects):
            changes.append(Delete(group, reason="nothing is left that needs this group"))
        else:
            changes += refusals.of_group(group, now)
    return changes


def _give_group(pod: Pod, objects: Objects, created: set[str]) -> list[Change]:
    owner_reference = _owner_of(pod, objects)
    name = generated_name(owner_reference)
    changes: list[Change] = []
    group_key = f"{pod.metadata.namespace}/{name}"
    if group_key not in created and objects.get(PodGroup, group_key) is None:
        created.add(group_key)
        owner = find_owner(owner_reference, pod.metadata.namespace, objects)
        changes.append(Create(_group_for(pod, owner_reference, owner)))
    if not group_of(pod):
        annotations = {**pod.metadata.annotations, names.GROUP_NAME: name}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        changes.append(Update(msgspec.structs.replace(pod, metadata=metadata)))
    return changes


def _owner_of(pod: Pod, objects: Objects) -> OwnerReference:
    reference = controlling_reference(pod.metadata)
    if reference is None:
        return reference_to(pod)
    owner = find_owner(reference, pod.metadata.namespace, objects)
    return reference_to(owner) if owner is not None else reference


def _group_for(pod: Pod, owner_reference: OwnerReference, owner: Owner | None) -> PodGroup:
    of_owner = owner.metadata if owner is not None else ObjectMeta()
    said = {**pod.metadata.annotations, **of_owner.annotations}
    min_member = _min_member(said.get(names.GROUP_MIN_MEMBER, ""))
    return PodGroup(
        metadata=ObjectMeta(
            name=generated_name(owner_reference),
            namespace=pod.metadata.namespace,
            labels=_inherited({**of_owner.labels, **pod.metadata.labels}),
            annotations=_inherited({**of_owner.annotations, **pod.metadata.annotations}),
            # Nobody has to wait for a group to go, and to say so would need rights on every kind of owner there is.
            owner_references=[msgspec.structs.replace(owner_reference, block_owner_deletion=None)],
        ),
        spec=PodGroupSpec(
            min_member=min_member,
            queue=pod.metadata.annotations.get(names.QUEUE_NAME)
            or of_owner.annotations.get(names.QUEUE_NAME)
            or names.DEFAULT_QUEUE,
            priority_class_name=pod.spec.priority_class_name,
            min_resources=_stated_resources(said.get(names.GROUP_MIN_RESOURCES, "")) or _needed_by(pod, min_member),
        ),
    )


def _inherited(said: Mapping[str, str]) -> dict[str, str]:
    """What a pod or its owner says about how it wants to be scheduled holds for the group, too."""
    return {
        name: value for name, value in said.items() if name.startswith(names.VOLCANO_PREFIX) or name == names.ESTIMATE
    }


def _min_member(text: str) -> int:
    # Length-limited, because a number of a thousand digits would be read and then overflow everywhere else.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 1


def _stated_resources(text: str) -> ResourceList:
    """The amounts of an annotation in JSON; one that cannot be read says nothing."""
    if not text:
        return {}
    try:
        stated = msgspec.json.decode(text, type=ResourceList)
        amounts(stated)
    except (msgspec.DecodeError, QuantityError):
        return {}
    return stated


def _needed_by(pod: Pod, members: int) -> ResourceList:
    """What so many pods like this one ask for. API servers take requests that are too large for anybody to reckon with;
    such a pod is left out by the scheduler, and says nothing here."""
    try:
        asked = pod_requests(pod.spec)
    except QuantityError:
        return {}
    return {resource: format_amount(resource, value * members) for resource, value in asked.items() if members}


def _is_awaited(group: PodGroup, objects: Objects) -> bool:
    """Whether a group without pods may get some yet."""
    reference = controlling_reference(group.metadata)
    if reference is None or not is_visible_kind(reference):
        return False
    owner = find_owner(reference, group.metadata.namespace, objects)
    if owner is None or owner.metadata.uid != reference.uid:
        return False
    return not isinstance(owner, ReplicaSet) or owner.spec.replicas > 0
