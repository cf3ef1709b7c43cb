"""The pods of each owner, sorted into those that run, those that are to be counted, and the rest.

A set of 50,000 pods changes 50,000 times while they start. If each visit of a set read all of its pods, the visits
would cost 2,500,000,000 reads. So each pod is read once for each of its changes, and a visit finds the numbers here.
What is kept of a pod is what controllers ask for, not the pod.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from stromboli.api import Pod, key
from stromboli.api.timestamps import parse_timestamp
from stromboli.controllers.pod_owners import controlling_reference, is_finished, is_terminating, was_evicted

TRACKING: Final = "batch.kubernetes.io/job-tracking"
"""The finalizer of pods that their Job has not counted."""
INDEX: Final = "batch.kubernetes.io/job-completion-index"
REVISION: Final = "controller-revision-hash"
_OWNERS: Final = {
    ("apps/v1", "ReplicaSet"), ("apps/v1", "StatefulSet"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job"),
}  # fmt: skip

Place = tuple[str, str, str]
"""Kind and namespace of an owner, and what identifies it: its uid or its name."""


@dataclass(frozen=True, slots=True)
class OwnedPod:
    key: str
    uid: str
    phase: str
    number: int  # at the end of its name; -1 without one
    created: float
    ended: float  # if it has finished
    ready_since: float  # if it is ready
    index: int | None  # in an Indexed Job
    node: str  # that it is on, or is made for
    revision: str
    is_ready: bool
    has_node: bool
    is_active: bool  # neither finished nor going
    is_terminating: bool
    is_kept: bool  # it has finished, and is neither going nor evicted
    is_tracked: bool  # its Job has not counted it
    restarts: int  # of its containers

    @property
    def rank(self) -> tuple[bool, bool, bool, float, int, str]:
        """Whom a smaller set loses first: pods without a node, then those that do not run or are not ready, then the
        youngest."""
        return self.has_node, self.phase == "Running", self.is_ready, -self.created, -self.number, self.key


@dataclass(slots=True)
class PodsOfOwner:
    pods: dict[str, OwnedPod] = field(default_factory=dict)
    active: dict[str, OwnedPod] = field(default_factory=dict)
    tracked: dict[str, OwnedPod] = field(default_factory=dict)
    to_count: dict[str, OwnedPod] = field(default_factory=dict)
    unfinished: int = 0  # those that run or may still run, also when they are going
    kept: int = 0
    ready: int = 0
    restarts: int = 0  # of containers in active pods
    last_failure: float | None = None

    def available(self, min_ready: int, now: float) -> tuple[int, float | None]:
        """How many have been ready for so many seconds, and when there will be more of them."""
        if not min_ready:
            return self.ready, None
        since = [pod.ready_since + min_ready for pod in self.active.values() if pod.is_ready]
        return sum(at <= now for at in since), min((at for at in since if at > now), default=None)


_NOBODY: Final = PodsOfOwner()


class OwnedPods:
    def __init__(self, *, by_name: bool) -> None:
        """`by_name`: an owner is identified by its kind and name, not by its uid."""
        self._by_name = by_name
        self._owners: dict[Place, PodsOfOwner] = {}
        self._places: dict[str, tuple[Place, str]] = {}  # by pod: that of its owner, and the name of its owner
        self._gone: set[Place] = set()  # owners that were deleted before their pods
        self._uids: dict[Place, set[str]] = {}  # of all owners that have had a name

    def of(self, kind: str, namespace: str, name: str, uid: str) -> PodsOfOwner:
        """Must not be changed."""
        return self._owners.get((kind, namespace, name if self._by_name else uid)) or _NOBODY

    def others(self, kind: str, namespace: str, name: str, uid: str) -> list[str]:
        """The uids of other owners that had this name and still have pods."""
        known = self._uids.get((kind, namespace, name), set()) - {uid}
        return sorted(other for other in known if (kind, namespace, other) in self._owners)

    def update(self, pod: Pod, *, exists: bool) -> Iterator[tuple[str, str, OwnedPod]]:
        """A pod was created, changed or deleted. The kinds and keys of the owners that it had and has, with the pod as
        it was and is."""
        pod_key = key(pod)
        found = []
        known = self._places.pop(pod_key, None)
        if known is not None:
            place, name = known
            found.append((place[0], f"{place[1]}/{name}", self._remove(place, pod_key)))
            self._forget_uid(place, name)
        reference = controlling_reference(pod.metadata) if exists else None
        if reference is not None and (reference.api_version or "apps/v1", reference.kind) in _OWNERS:
            namespace = pod.metadata.namespace
            place = (reference.kind, namespace, reference.name if self._by_name else reference.uid)
            self._places[pod_key] = (place, reference.name)
            if not self._by_name:
                self._uids.setdefault((reference.kind, namespace, reference.name), set()).add(reference.uid)
            owned = read_pod(pod)
            self._add(place, owned)
            found.append((reference.kind, f"{namespace}/{reference.name}", owned))
        yield from found

    def owner_deleted(self, kind: str, namespace: str, name: str, uid: str) -> None:
        place = (kind, namespace, name if self._by_name else uid)
        if place in self._owners:
            self._gone.add(place)
            self._forget(place)
        self._forget_uid(place, name)

    def _forget_uid(self, place: Place, name: str) -> None:
        """Of an owner that is gone and has no pods any more."""
        kind, namespace, uid = place
        uids = self._uids.get((kind, namespace, name))
        if uids is None or place in self._owners:
            return
        uids.discard(uid)
        if not uids:
            del self._uids[kind, namespace, name]

    def _add(self, place: Place, pod: OwnedPod) -> None:
        pods = self._owners.setdefault(place, PodsOfOwner())
        pods.pods[pod.key] = pod
        pods.unfinished += pod.phase not in ("Succeeded", "Failed")
        pods.kept += pod.is_kept
        if pod.is_active:
            pods.active[pod.key] = pod
            pods.ready += pod.is_ready
            pods.restarts += pod.restarts
        if pod.is_tracked:
            pods.tracked[pod.key] = pod
            if not pod.is_active:
                pods.to_count[pod.key] = pod
        if pod.phase == "Failed":
            pods.last_failure = max(pod.ended, pods.last_failure or pod.ended)

    def _remove(self, place: Place, pod_key: str) -> OwnedPod:
        pods = self._owners[place]
        pod = pods.pods.pop(pod_key)
        pods.unfinished -= pod.phase not in ("Succeeded", "Failed")
        pods.kept -= pod.is_kept
        if pods.active.pop(pod_key, None) is not None:
            pods.ready -= pod.is_ready
            pods.restarts -= pod.restarts
        pods.tracked.pop(pod_key, None)
        pods.to_count.pop(pod_key, None)
        if place in self._gone:
            self._forget(place)
        return pod

    def _forget(self, place: Place) -> None:
        """Nobody asks when a pod of it failed."""
        pods = self._owners.get(place)
        if pods is not None and not pods.pods:
            del self._owners[place]
            self._gone.discard(place)


def read_pod(pod: Pod) -> OwnedPod:
    metadata, phase = pod.metadata, pod.status.phase
    created = _time(metadata.creation_timestamp, 0.0)
    conditions = [one for one in pod.status.conditions if one.type == "Ready"]
    # Where nobody writes that condition, a pod that runs is ready.
    is_ready = phase == "Running" and all(one.status == "True" for one in conditions)
    since = conditions[0].last_transition_time if conditions else pod.status.start_time
    stays = not is_terminating(pod) and not was_evicted(pod)
    index = metadata.annotations.get(INDEX, "")
    return OwnedPod(
        key=key(pod),
        uid=metadata.uid,
        phase=phase,
        number=number_in(metadata.name),
        created=created,
        ended=max(_ends(pod), default=created) if is_finished(pod) else 0.0,
        ready_since=_time(since, created) if is_ready else 0.0,
        index=_natural(index),
        node=pod.spec.node_name or _pinned_to(pod),
        revision=metadata.labels.get(REVISION, ""),
        is_ready=is_ready,
        has_node=bool(pod.spec.node_name),
        is_active=not is_finished(pod) and not is_terminating(pod),
        is_terminating=is_terminating(pod),
        is_kept=is_finished(pod) and stays,
        is_tracked=TRACKING in metadata.finalizers,
        restarts=sum(one.restart_count for one in pod.status.container_statuses),
    )


def number_in(name: str) -> int:
    """The number at the end of a pod's name."""
    number = _natural(name.rpartition("-")[2])
    return -1 if number is None else number


def _natural(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _pinned_to(pod: Pod) -> str:
    """The one node that a pod of a DaemonSet is for."""
    affinity = pod.spec.affinity
    node = affinity.node_affinity if affinity is not None else None
    required = node.required_during_scheduling_ignored_during_execution if node is not None else None
    for term in required.node_selector_terms if required is not None else ():
        for field_ in term.match_fields:
            if field_.key == "metadata.name" and field_.operator == "In" and len(field_.values) == 1:
                return field_.values[0]
    return ""


def _ends(pod: Pod) -> Iterator[float]:
    for status in pod.status.container_statuses:
        terminated = status.state.terminated
        if terminated is not None and terminated.finished_at:
            with suppress(ValueError):
                yield parse_timestamp(terminated.finished_at)


def _time(stamp: str | None, otherwise: float) -> float:
    with suppress(ValueError):
        return parse_timestamp(stamp) if stamp else otherwise
    return otherwise
