"""The pods of each controller, sorted into those that run, those that are to be counted, and the rest.

A set of 50,000 pods changes 50,000 times while they start. If each visit of a set read all of its pods, the visits
would cost 2,500,000,000 reads. So each pod is read once for each of its changes, and a visit finds the numbers here.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

import msgspec

from stromboli.api.timestamps import parse_timestamp
from stromboli.embedded.store import Change, ObjectKey, Record, Store

FINISHED: Final = ("Succeeded", "Failed")
_OWNERS: Final = {("apps/v1", "ReplicaSet"): "replicasets.apps", ("batch/v1", "Job"): "jobs.batch"}
TRACKING: Final = "batch.kubernetes.io/job-tracking"
INDEX: Final = "batch.kubernetes.io/job-completion-index"


class _Terminated(msgspec.Struct, rename="camel"):
    finished_at: str | None = None


class _State(msgspec.Struct):
    terminated: _Terminated | None = None


class _Container(msgspec.Struct):
    state: _State | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct, rename="camel"):
    phase: str = ""
    conditions: list[_Condition] | None = None
    container_statuses: list[_Container] | None = None


class _Spec(msgspec.Struct, rename="camel"):
    node_name: str | None = None


class _Metadata(msgspec.Struct):
    annotations: dict[str, str] | None = None


class _Pod(msgspec.Struct):
    metadata: _Metadata
    spec: _Spec = msgspec.field(default_factory=_Spec)
    status: _Status = msgspec.field(default_factory=_Status)


_decoder: Final = msgspec.json.Decoder(_Pod)


@dataclass(frozen=True, slots=True)
class OwnedPod:
    key: ObjectKey
    uid: str
    phase: str
    created: float
    ended: float  # if it has finished
    index: int | None  # in an Indexed Job
    is_ready: bool
    has_node: bool
    is_active: bool  # neither finished nor going
    is_tracked: bool  # its Job has not counted it


@dataclass(slots=True)
class PodsOfOwner:
    active: dict[ObjectKey, OwnedPod] = field(default_factory=dict)
    tracked: dict[ObjectKey, OwnedPod] = field(default_factory=dict)
    to_count: dict[ObjectKey, OwnedPod] = field(default_factory=dict)
    ready: int = 0
    last_failure: float | None = None


class OwnedPods:
    def __init__(self, store: Store) -> None:
        self._store = store
        self._owners: dict[tuple[str, str], PodsOfOwner] = {}  # by namespace and uid
        for record in store.list("pods"):
            self.on_change(Change("ADDED", record, None))
        store.listen(self.on_change)

    def of(self, namespace: str, uid: str) -> PodsOfOwner:
        return self._owners.get((namespace, uid)) or PodsOfOwner()

    def on_change(self, change: Change) -> None:
        key = change.record.key
        if key.resource == "pods":
            if change.before is not None:
                for owner in _controllers(change.before):
                    self._remove(owner, key)
            if change.type != "DELETED":
                for owner in _controllers(change.record):
                    self._add(owner, _read(change.record))
        elif key.resource in _OWNERS.values() and change.type == "DELETED":
            self._forget((key.namespace, change.record.metadata.uid))

    def _add(self, owner: tuple[str, str], pod: OwnedPod) -> None:
        pods = self._owners.setdefault(owner, PodsOfOwner())
        if pod.is_active:
            pods.active[pod.key] = pod
            pods.ready += pod.is_ready
        if pod.is_tracked:
            pods.tracked[pod.key] = pod
            if not pod.is_active:
                pods.to_count[pod.key] = pod
        if pod.phase == "Failed":
            pods.last_failure = max(pod.ended, pods.last_failure or pod.ended)

    def _remove(self, owner: tuple[str, str], key: ObjectKey) -> None:
        pods = self._owners.get(owner)
        if pods is None:
            return
        active = pods.active.pop(key, None)
        pods.ready -= active is not None and active.is_ready
        pods.tracked.pop(key, None)
        pods.to_count.pop(key, None)
        if pods.last_failure is None or self._store.by_uid(owner[1]) is None:
            self._forget(owner)

    def _forget(self, owner: tuple[str, str]) -> None:
        """Nobody asks when a pod of it failed."""
        pods = self._owners.get(owner)
        if pods is not None and not (pods.active or pods.tracked):
            del self._owners[owner]


def deletion_rank(pod: OwnedPod) -> tuple[bool, bool, bool, float]:
    """Whom a smaller set loses first: pods without a node, then those that are not ready, then the youngest."""
    return pod.has_node, pod.phase == "Running", pod.is_ready, -pod.created


def _controllers(record: Record) -> Iterator[tuple[str, str]]:
    """An owner of another namespace is none."""
    return (
        (record.key.namespace, owner.uid)
        for owner in record.metadata.owner_references
        if owner.controller and (owner.api_version, owner.kind) in _OWNERS
    )


def _read(record: Record) -> OwnedPod:
    pod, metadata = _decoder.decode(record.data), record.metadata
    created = parse_timestamp(metadata.creation_timestamp) if metadata.creation_timestamp else 0.0
    index = (pod.metadata.annotations or {}).get(INDEX, "")
    is_finished = pod.status.phase in FINISHED
    return OwnedPod(
        key=record.key,
        uid=metadata.uid,
        phase=pod.status.phase,
        created=created,
        ended=max(_ends(pod), default=created) if is_finished else 0.0,
        index=int(index) if index.isascii() and index.isdigit() and len(index) < 10 else None,
        is_ready=any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions or ()),
        has_node=bool(pod.spec.node_name),
        is_active=not is_finished and metadata.deletion_timestamp is None,
        is_tracked=TRACKING in metadata.finalizers,
    )


def _ends(pod: _Pod) -> Iterator[float]:
    for one in pod.status.container_statuses or ():
        terminated = one.state.terminated if one.state is not None else None
        if terminated is not None and terminated.finished_at:
            with suppress(ValueError):
                yield parse_timestamp(terminated.finished_at)
