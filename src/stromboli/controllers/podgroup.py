"""PodGroups for pods that have none.

The scheduler schedules groups, and a Deployment or a bare pod has none. Each pod of our scheduler without a group gets
one: pods with a controlling owner share one group per owner, a bare pod gets its own. The group is named after the
owner's uid, so that two controllers that see the same pod, or one that sees it again after a restart, generate the same
name. The group has an owner reference to that owner, which also distinguishes it from a group that a user created
(`is_generated_group`). A generated group is not a gang: its pods need not start together unless an annotation says so.

Pods that already run get a group as well. Their requests must count in their queue's share from the first cycle.

A generated group is deleted when nothing needs it: it has no pods, and its owner is gone or has no replicas. If we
cannot see the owner, only the pods count.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from stromboli.api import (
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    PodGroupSpec,
    ReplicaSet,
    ResourceList,
    generated_group_name,
    group_name_of,
    is_generated_group,
    names,
)
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import QuantityError, amounts, format_amount

from .changes import Change, Create, Delete, Objects, Update
from .pod_index import PodIndex
from .pod_owners import Owner, controlling_reference, find_owner, is_finished, is_watched_kind, owner_reference_to
from .validator import Validator


def reconcile(
    objects: Objects, pods: PodIndex, validator: Validator, now: float, *, scheduler_name: str
) -> list[Change]:
    groups = list(objects.list(PodGroup))
    # A pod that names a missing group waits for its user to create it, unless the group is one that we generate: the
    # process may die between creating the group and annotating the pod, and anybody may delete a group.
    existing = {(group.metadata.namespace, group.metadata.name) for group in groups}
    waiting = pods.of_missing_groups(existing)
    groupless = [
        *pods.without_group,
        *(pod for pod in waiting if group_name_of(pod) == generated_group_name(_owner_of(pod, objects))),
    ]
    changes: list[Change] = []
    created: set[str] = set()
    for pod in groupless:
        if pod.spec.scheduler_name in ("", scheduler_name) and not is_finished(pod):
            changes += _assign_group(pod, objects, created)
    for group in groups:
        if not pods.has_pods(group) and is_generated_group(group) and not _may_get_pods(group, objects):
            changes.append(Delete(group, reason="no pod or owner needs this group"))
        else:
            changes += validator.review_group(group, now)
    return changes


def _assign_group(pod: Pod, objects: Objects, created: set[str]) -> list[Change]:
    owner_reference = _owner_of(pod, objects)
    name = generated_group_name(owner_reference)
    changes: list[Change] = []
    group_key = f"{pod.metadata.namespace}/{name}"
    if group_key not in created and objects.get(PodGroup, group_key) is None:
        created.add(group_key)
        owner = find_owner(owner_reference, pod.metadata.namespace, objects)
        changes.append(Create(_new_group(pod, owner_reference, owner)))
    if not group_name_of(pod):
        annotations = {**pod.metadata.annotations, names.GROUP_NAME: name}
        metadata = msgspec.structs.replace(pod.metadata, annotations=annotations)
        changes.append(Update(msgspec.structs.replace(pod, metadata=metadata)))
    return changes


def _owner_of(pod: Pod, objects: Objects) -> OwnerReference:
    reference = controlling_reference(pod.metadata)
    if reference is None:
        return owner_reference_to(pod)
    owner = find_owner(reference, pod.metadata.namespace, objects)
    return owner_reference_to(owner) if owner is not None else reference


def _new_group(pod: Pod, owner_reference: OwnerReference, owner: Owner | None) -> PodGroup:
    of_owner = owner.metadata if owner is not None else ObjectMeta()
    annotations = {**pod.metadata.annotations, **of_owner.annotations}
    min_member = _min_member(annotations.get(names.GROUP_MIN_MEMBER, ""))
    return PodGroup(
        metadata=ObjectMeta(
            name=generated_group_name(owner_reference),
            namespace=pod.metadata.namespace,
            labels=_inherited({**of_owner.labels, **pod.metadata.labels}),
            annotations=_inherited({**of_owner.annotations, **pod.metadata.annotations}),
            # No deletion has to wait for a group, and setting the field would need permissions on every kind of owner.
            owner_references=[msgspec.structs.replace(owner_reference, block_owner_deletion=None)],
        ),
        spec=PodGroupSpec(
            min_member=min_member,
            queue=pod.metadata.annotations.get(names.QUEUE_NAME)
            or of_owner.annotations.get(names.QUEUE_NAME)
            or names.DEFAULT_QUEUE,
            priority_class_name=pod.spec.priority_class_name,
            min_resources=_annotated_resources(annotations.get(names.GROUP_MIN_RESOURCES, ""))
            or _requests_of(pod, min_member),
        ),
    )


def _inherited(marks: Mapping[str, str]) -> dict[str, str]:
    """The scheduling labels or annotations of a pod and its owner, which hold for the group as well."""
    return {
        name: value for name, value in marks.items() if name.startswith(names.VOLCANO_PREFIX) or name == names.ESTIMATE
    }


def _min_member(text: str) -> int:
    # Limited in length, because a number of a thousand digits would be parsed here and overflow everywhere else.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 1


def _annotated_resources(text: str) -> ResourceList:
    """The amounts of an annotation in JSON; an annotation that cannot be parsed is ignored."""
    if not text:
        return {}
    try:
        resources = msgspec.json.decode(text, type=ResourceList)
        amounts(resources)
    except (msgspec.DecodeError, QuantityError):
        return {}
    return resources


def _requests_of(pod: Pod, members: int) -> ResourceList:
    """The requests of this many pods like this one. API servers accept requests that do not fit our integers; the
    scheduler ignores such a pod, and so do we."""
    try:
        requests = pod_requests(pod.spec)
    except QuantityError:
        return {}
    return {resource: format_amount(resource, value * members) for resource, value in requests.items() if members}


def _may_get_pods(group: PodGroup, objects: Objects) -> bool:
    """Whether the owner of a group without pods may still create some."""
    reference = controlling_reference(group.metadata)
    if reference is None or not is_watched_kind(reference):
        return False
    owner = find_owner(reference, group.metadata.namespace, objects)
    if owner is None or owner.metadata.uid != reference.uid:
        return False
    return not isinstance(owner, ReplicaSet) or owner.spec.replicas > 0
