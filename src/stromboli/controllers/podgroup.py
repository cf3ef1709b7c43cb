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
from typing import ClassVar

import msgspec

from stromboli import plain_json
from stromboli.api import (
    Job,
    KObject,
    Namespace,
    ObjectMeta,
    OwnerReference,
    Pod,
    PodGroup,
    PodGroupSpec,
    ReplicaSet,
    ResourceList,
    StatefulSet,
    generated_group_name,
    group_name_of,
    is_generated_group,
    key,
    names,
)
from stromboli.api.namespace_queue import queue_in_namespace
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import LARGEST_AMOUNT, QuantityError, amounts, format_amount
from stromboli.api.upstream import UpstreamGroup
from stromboli.api.validation import limits

from .changes import Change, Create, Delete, Objects, Update
from .pod_index import PodIndex, group_of
from .pod_owners import (
    Owner,
    controlling_reference,
    find_owner,
    is_finished,
    is_watched_kind,
    owner_reference_to,
    refers_to_job,
)
from .validator import Validator
from .work_queue import WorkQueue

_STARTED = frozenset({"Running", "Unknown", "Completed"})  # phases of a group
OwnerKey = tuple[str, str, str]
"""Kind, namespace and name."""


class PodGroupController:
    observes: ClassVar = (PodGroup, ReplicaSet, StatefulSet, Job, Pod, Namespace)

    def __init__(self, pods: PodIndex, validator: Validator, *, scheduler_name: str, visits: int | None = None) -> None:
        """`visits`: how many pods, and how many groups, one pass looks at."""
        self._visits = visits
        self.unfinished = False  # whether the last pass left some for the next one
        self._pods_by = pods
        self._validator = validator
        self._scheduler_name = scheduler_name
        self._pods = WorkQueue()  # those that may need a group
        self._groups = WorkQueue()
        self._groups_by_owner: dict[OwnerKey, set[str]] = {}  # generated groups whose owners we can see
        self._groups_in: dict[str, set[str]] = {}  # by namespace

    # -- what changed -------------------------------------------------------------------------------------------

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        match after if after is not None else before:
            case Pod() as pod:
                self._observe_pod(pod, before, exists=after is not None)
            case PodGroup() as group:
                self._observe_group(group, before, after)
            case ReplicaSet() | StatefulSet() | Job() as owner:
                self._observe_owner(owner, before, after)
            case Namespace() as namespace:
                self._groups.add_all(self._groups_in.get(namespace.metadata.name, ()))
            case _:
                pass

    def _observe_pod(self, pod: Pod, before: KObject | None, *, exists: bool) -> None:
        if exists:
            self._pods.add(key(pod))
        group = group_of(pod)
        group_before = group_of(before) if isinstance(before, Pod) else None
        if group_before is not None and (not exists or group != group_before):
            self._groups.add("/".join(group_before))

    def _observe_group(self, group: PodGroup, before: KObject | None, after: KObject | None) -> None:
        group_key = key(group)
        if after is not None:
            self._groups.add(group_key)
            self._groups_in.setdefault(group.metadata.namespace, set()).add(group_key)
        else:
            self._groups_in[group.metadata.namespace].discard(group_key)
            members = self._pods_by.of_group(group.metadata.namespace, group.metadata.name)
            self._pods.add_all(key(pod) for pod in members)
        old, new = _watched_owner(before), _watched_owner(after)
        if old is not None and old != new:
            self._groups_by_owner[old].discard(group_key)
            if not self._groups_by_owner[old]:
                del self._groups_by_owner[old]
        if new is not None:
            self._groups_by_owner.setdefault(new, set()).add(group_key)

    def _observe_owner(self, owner: Owner, before: KObject | None, after: KObject | None) -> None:
        owner_key = (owner.kind, owner.metadata.namespace, owner.metadata.name)
        self._groups.add_all(self._groups_by_owner.get(owner_key, ()))
        if before is None or after is None or before.metadata.uid != after.metadata.uid:
            # The name of a generated group follows from the owner's uid.
            self._pods.add_all(key(pod) for pod in self._pods_by.of_owner(owner))

    # -- a pass -------------------------------------------------------------------------------------------------

    def next_due(self, now: float) -> float | None:
        return None

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        created: set[str] = set()
        self.unfinished = self._visits is not None and max(len(self._pods), len(self._groups)) > self._visits
        for pod in self._groupless_pods(objects, now):
            is_static = names.MIRROR in pod.metadata.annotations
            if pod.spec.scheduler_name in ("", self._scheduler_name) and not is_static and not is_finished(pod):
                changes += _assign_group(pod, objects, created)
                self._pods.add(key(pod))
        for group_key in self._groups.take(now, self._visits):
            group = objects.get(PodGroup, group_key)
            if group is not None:
                of_group = self._changes_of(group, objects, now)
                if of_group:
                    self._groups.add(group_key)
                changes += of_group
        return changes

    def _groupless_pods(self, objects: Objects, now: float) -> list[Pod]:
        """Pods that name no group, and pods that name a missing group which we generate: the process may die between
        creating the group and annotating the pod, and anybody may delete a group. A pod that names another missing
        group waits for its user to create it."""
        without_group: list[Pod] = []
        waiting: list[tuple[str, Pod]] = []
        for pod_key in self._pods.take(now, self._visits):
            pod = objects.get(Pod, pod_key)
            if pod is None:
                continue
            group = group_of(pod)
            if group is None:
                without_group.append(pod)
            elif objects.get(PodGroup, "/".join(group)) is None and _is_generated_for(pod, group[1], objects):
                waiting.append((key(self._pods_by.of_group(*group)[0]), pod))
        # Group by group, in the order of their first pods.
        waiting.sort(key=lambda item: item[0])
        return [*without_group, *(pod for _, pod in waiting)]

    def _changes_of(self, group: PodGroup, objects: Objects, now: float) -> list[Change]:
        if isinstance(group, UpstreamGroup):
            return []  # the scheduler chooses its queue, and the API server has judged it
        has_pods = self._pods_by.has_pods(group.metadata.namespace, group.metadata.name)
        if not has_pods and is_generated_group(group) and not _may_get_pods(group, objects):
            return [Delete(group, reason="no pod or owner needs this group")]
        moved = self._into_queue_of_namespace(group, objects)
        return moved or self._validator.review_group(group, now)

    def _into_queue_of_namespace(self, group: PodGroup, objects: Objects) -> list[Change]:
        """A group that somebody else made, and whose pods have not started. Jobs write their own groups."""
        owner = controlling_reference(group.metadata)
        if group.status.phase in _STARTED or is_generated_group(group) or (owner is not None and refers_to_job(owner)):
            return []
        queue = queue_in_namespace(group.spec.queue, objects.get(Namespace, group.metadata.namespace))
        members = self._pods_by.of_group(group.metadata.namespace, group.metadata.name)
        if queue == (group.spec.queue or names.DEFAULT_QUEUE) or any(pod.spec.node_name for pod in members):
            return []
        spec = msgspec.structs.replace(group.spec, queue=queue)
        return [Update(msgspec.structs.replace(group, spec=spec))]


def _watched_owner(group: KObject | None) -> OwnerKey | None:
    reference = controlling_reference(group.metadata) if group is not None else None
    if group is None or reference is None or not is_watched_kind(reference):
        return None
    return reference.kind, group.metadata.namespace, reference.name


def _assign_group(pod: Pod, objects: Objects, created: set[str]) -> list[Change]:
    owner_reference = _owner_of(pod, objects)
    name = generated_group_name(owner_reference)
    changes: list[Change] = []
    group_key = f"{pod.metadata.namespace}/{name}"
    if group_key not in created and objects.get(PodGroup, group_key) is None:
        created.add(group_key)
        owner = find_owner(owner_reference, pod.metadata.namespace, objects)
        changes.append(Create(_new_group(pod, owner_reference, owner, objects)))
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


def _is_generated_for(pod: Pod, group_name: str, objects: Objects) -> bool:
    return group_name == generated_group_name(_owner_of(pod, objects))


def _new_group(pod: Pod, owner_reference: OwnerReference, owner: Owner | None, objects: Objects) -> PodGroup:
    of_owner = owner.metadata if owner is not None else ObjectMeta()
    named = pod.metadata.annotations.get(names.QUEUE_NAME) or of_owner.annotations.get(names.QUEUE_NAME) or ""
    queue = queue_in_namespace(named, objects.get(Namespace, pod.metadata.namespace))
    annotations = {**pod.metadata.annotations, **of_owner.annotations}
    min_member = _min_member(annotations.get(names.GROUP_MIN_MEMBER, ""))
    return PodGroup(
        metadata=ObjectMeta(
            name=generated_group_name(owner_reference),
            namespace=pod.metadata.namespace,
            labels=_inherited({**of_owner.labels, **pod.metadata.labels}),
            annotations=_inherited({**of_owner.annotations, **pod.metadata.annotations}) | _submitter(pod),
            # No deletion has to wait for a group, and setting the field would need permissions on every kind of owner.
            owner_references=[msgspec.structs.replace(owner_reference, block_owner_deletion=None)],
        ),
        spec=PodGroupSpec(
            min_member=min_member,
            queue=queue,
            priority_class_name=pod.spec.priority_class_name,
            min_resources=_annotated_resources(annotations.get(names.GROUP_MIN_RESOURCES, ""))
            or _requests_of(pod, min_member),
        ),
    )


def _submitter(pod: Pod) -> dict[str, str]:
    """Who created the pod. An owner may be of a kind on which everybody may write it."""
    named = pod.metadata.annotations.get(names.SUBMITTER, "")
    return {names.SUBMITTER: named} if named else {}


def _inherited(marks: Mapping[str, str]) -> dict[str, str]:
    """The scheduling labels or annotations of a pod and its owner, which hold for the group as well."""
    return {
        name: value
        for name, value in marks.items()
        if (name.startswith(names.VOLCANO_PREFIX) or name == names.ESTIMATE) and len(value) <= limits.MAX_ANNOTATION
    }


def _min_member(text: str) -> int:
    # Limited in length, because a number of a thousand digits would be parsed here and overflow everywhere else.
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 9 else 1


def _annotated_resources(text: str) -> ResourceList:
    """The amounts of an annotation in JSON; an annotation that cannot be parsed is ignored."""
    if not text:
        return {}
    try:
        resources = plain_json.decode(text, ResourceList)
        amounts(resources)
    except (msgspec.DecodeError, QuantityError):
        return {}
    return limits.fits_in_list(resources)


def _requests_of(pod: Pod, members: int) -> ResourceList:
    """The requests of this many pods like this one. API servers accept requests that do not fit our integers; the
    scheduler ignores such a pod, and so do we."""
    try:
        requests = pod_requests(pod.spec)
    except QuantityError:
        return {}
    whole = {name: value * members for name, value in requests.items()}
    if not members or max(whole.values(), default=0) > LARGEST_AMOUNT:
        return {}
    return limits.fits_in_list({name: format_amount(name, value) for name, value in whole.items()})


def _may_get_pods(group: PodGroup, objects: Objects) -> bool:
    """Whether the owner of a group without pods may still create some."""
    reference = controlling_reference(group.metadata)
    if reference is None or not is_watched_kind(reference):
        return False
    owner = find_owner(reference, group.metadata.namespace, objects)
    if owner is None or owner.metadata.uid != reference.uid:
        return False
    return isinstance(owner, Job) or owner.spec.replicas > 0
