"""Makes and binds volumes where nobody else does: in simulations, and beside hollow nodes.

It stands for three parts of a real cluster. The volume controller binds claims to existing volumes, and completes what
the scheduler began. A provisioner makes a volume for a claim, once the class says so: at once, or when a node is
selected. And the controller of ephemeral volumes creates the claims that pods bring with them. The annotations of the
class say how long it takes and whether it fails (`stromboli.api.volumes.provisioning`).

All it has to remember is in the objects. A claim has the time since which its volume is made, and the number of
attempts that failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from stromboli.api import (
    ApiError,
    CSINode,
    CSIPersistentVolumeSource,
    KObject,
    Node,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    ObjectMeta,
    OwnerReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    Pod,
    StorageClass,
    VolumeNodeAffinity,
    key,
    names,
)
from stromboli.api.timestamps import parse_timestamp
from stromboli.api.volumes.claims import (
    DELAYED,
    LOST,
    claim_of,
    is_bound,
    is_for,
    reference_to,
    selected_at,
    selected_node,
    suits,
    volume_size,
)
from stromboli.api.volumes.pod_volumes import ephemeral_claim_name
from stromboli.api.volumes.provisioning import ATTEMPTS, Provisioning, failed_attempts, provisioning
from stromboli.api.volumes.topology import driver_on
from stromboli.cluster import VolumeIndex

from .changes import Change, Create, Delete, Notify, Objects, Update
from .work_queue import WorkQueue

_POD: Final = "pod:"  # the prefix of the keys of pods in the work queue
_PROTECTION: Final = ("kubernetes.io/pvc-protection", "kubernetes.io/pv-protection")
_RETRY: Final = 10.0  # seconds until a claim that no pod selects a node for is tried again


class VolumeProvisioner:
    observes: Sequence[type[KObject]] = (PersistentVolumeClaim, PersistentVolume, StorageClass, Pod)

    def __init__(self) -> None:
        self._queue = WorkQueue()
        self._index = VolumeIndex()
        self._waiting = _WaitingClaims()
        self._candidates: dict[int, _Candidates] = {}  # by what claims ask for

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        obj = after if after is not None else before
        assert obj is not None
        if isinstance(obj, Pod):
            if after is not None and any(volume.get("ephemeral") for volume in obj.spec.volumes):
                self._queue.add(_POD + key(obj))
            return
        for version in (before, after):
            if isinstance(version, PersistentVolume) and claim_of(version):
                self._queue.add(claim_of(version))
            elif isinstance(version, PersistentVolumeClaim) and version.spec.volume_name:
                self._queue.add(key(version))
        if after is None:
            self._index.delete(obj)
        else:
            self._index.apply(obj)
        match obj:
            case PersistentVolumeClaim():
                self._queue.add(key(obj))
                self._waiting.note(key(obj), after if isinstance(after, PersistentVolumeClaim) else None)
            case PersistentVolume():
                self._queue.add_all(self._waiting.for_volume(obj.metadata.name))
                if obj.metadata.name in self._index.free.get(obj.spec.storage_class_name, {}):
                    self._waiting.call(obj.spec.storage_class_name)
                    self._candidates.clear()
            case _:
                self._waiting.call_all()

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        self._queue.add_all(self._waiting.take_called())
        for visited in self._queue.take(now):
            if visited.startswith(_POD):
                found = list(self._ephemeral_claims(objects, visited.removeprefix(_POD)))
            else:
                found = list(self._visit(objects, visited, now))
            if found:
                self._queue.add(visited)
                # One volume must not go to two claims in the same pass, so the others are visited in the next.
                changes += found
                if any(isinstance(change, Update) and isinstance(change.object, PersistentVolume) for change in found):
                    for change in found:
                        if not isinstance(change, Notify | Delete):
                            self._index.apply(change.object)
        return changes

    def next_due(self, now: float) -> float | None:
        return self._queue.next_due(now)

    # -- one claim ----------------------------------------------------------------------------------------------

    def _visit(self, objects: Objects, claim_key: str, now: float) -> Iterator[Change]:
        claim = objects.get(PersistentVolumeClaim, claim_key)
        self._queue.set_due(claim_key, None)
        for volume in list(self._index.naming.get(claim_key, {}).values()):
            if volume.metadata.deletion_timestamp is not None:
                yield from _without_protection(volume)
            elif claim is None or not is_for(volume, claim):
                yield from _released(volume)
        if claim is None:
            return
        if claim.metadata.deletion_timestamp is not None:
            yield from _without_protection(claim)
            return
        if claim.spec.volume_name:
            yield from self._complete(claim, objects.get(PersistentVolume, claim.spec.volume_name))
            return
        named = next((v for v in self._index.naming.get(claim_key, {}).values() if is_for(v, claim)), None)
        if named is not None:
            yield from self._complete(claim, named)
            return
        if claim.spec.storage_class_name is None and (default := self._default_class()) is not None:
            yield Update(replace(claim, spec=replace(claim.spec, storage_class_name=default)))
            return
        yield from self._make(objects, claim, now)

    def _make(self, objects: Objects, claim: PersistentVolumeClaim, now: float) -> Iterator[Change]:
        """A volume for a claim that has none: an existing one, or a new one."""
        storage_class = self._index.classes.get(claim.spec.storage_class_name or "")
        node = selected_node(claim)
        if storage_class is not None and storage_class.volume_binding_mode == DELAYED:
            if not node:
                return  # the scheduler chooses an existing volume, or a node
        elif (volume := self._smallest(claim)) is not None:
            yield Update(replace(volume, spec=replace(volume.spec, claim_ref=reference_to(claim))))
            return
        if storage_class is None or storage_class.provisioner == names.NO_PROVISIONER:
            return
        try:
            how = provisioning(storage_class.metadata.annotations)
        except ApiError:
            how = Provisioning()
        attempts = failed_attempts(claim)
        started = selected_at(claim) if node else None
        if started is None:
            started = _created(claim) + (attempts * _RETRY if not node else 0.0)
        if now < started + how.seconds:
            self._queue.set_due(key(claim), started + how.seconds)
            return
        if how.fails(node, attempts):
            yield from _give_up(claim, node, attempts)
        else:
            yield Create(self._new_volume(objects, claim, storage_class, node))

    def _complete(self, claim: PersistentVolumeClaim, volume: PersistentVolume | None) -> Iterator[Change]:
        """Make both sides name each other."""
        if volume is None:
            if is_bound(claim) and claim.status.phase != LOST:
                yield Update(replace(claim, status=replace(claim.status, phase=LOST)))
            return
        if not is_for(volume, claim):
            if volume.spec.claim_ref is None:
                yield Update(replace(volume, spec=replace(volume.spec, claim_ref=reference_to(claim))))
            return
        if volume.status.phase != "Bound" or not (volume.spec.claim_ref and volume.spec.claim_ref.uid):
            named = replace(volume.spec, claim_ref=reference_to(claim))
            yield Update(replace(volume, spec=named, status=PersistentVolumeStatus(phase="Bound")))
        if claim.status.phase != "Bound" or names.BIND_COMPLETED not in claim.metadata.annotations:
            done = {names.BIND_COMPLETED: "yes"}
            if not claim.spec.volume_name:
                done[names.BOUND_BY_CONTROLLER] = "yes"
            meta = replace(claim.metadata, annotations={**claim.metadata.annotations, **done})
            status = replace(
                claim.status, phase="Bound", capacity=volume.spec.capacity, access_modes=volume.spec.access_modes
            )
            spec = replace(claim.spec, volume_name=volume.metadata.name)
            yield Update(replace(claim, metadata=meta, spec=spec, status=status))

    def _smallest(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        free = self._index.free.get(claim.spec.storage_class_name or "", {})
        kind = self._index.kinds[key(claim)]
        known = self._candidates.get(kind)
        if known is None:
            fitting = [volume for volume in free.values() if suits(volume, claim)]
            known = self._candidates[kind] = _Candidates(fitting)
        return known.first(free)

    def _default_class(self) -> str | None:
        marked = [
            name
            for name, known in self._index.classes.items()
            if known.metadata.annotations.get(names.DEFAULT_CLASS) == "true"
        ]
        return min(marked, default=None)

    def _new_volume(
        self, objects: Objects, claim: PersistentVolumeClaim, storage_class: StorageClass, node: str
    ) -> PersistentVolume:
        name = f"pvc-{claim.metadata.uid}"
        labels = self._place(objects, storage_class, node)
        requirements = [NodeSelectorRequirement(key=k, operator="In", values=[v]) for k, v in sorted(labels.items())]
        affinity = None
        if requirements:
            term = NodeSelectorTerm(match_expressions=requirements)
            affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=[term]))
        spec = PersistentVolumeSpec(
            capacity=dict(claim.spec.resources.requests),
            access_modes=list(claim.spec.access_modes),
            claim_ref=reference_to(claim),
            storage_class_name=storage_class.metadata.name,
            volume_mode=claim.spec.volume_mode or "Filesystem",
            node_affinity=affinity,
            csi=CSIPersistentVolumeSource(driver=storage_class.provisioner, volume_handle=name),
            persistent_volume_reclaim_policy=storage_class.reclaim_policy or "Delete",
        )
        return PersistentVolume(metadata=ObjectMeta(name=name), spec=spec, status=PersistentVolumeStatus(phase="Bound"))

    def _place(self, objects: Objects, storage_class: StorageClass, node: str) -> dict[str, str]:
        """The labels of nodes that reach the volume: by the topology of the driver, or else the zone of the node."""
        known = objects.get(Node, node) if node else None
        if known is None:
            terms = storage_class.allowed_topologies
            return {one.key: one.values[0] for one in terms[0].match_label_expressions if one.values} if terms else {}
        driver = driver_on(objects.get(CSINode, node), storage_class.provisioner)
        wanted = driver.topology_keys if driver is not None else [names.ZONE]
        labels = known.metadata.labels
        return {label: labels[label] for label in wanted if label in labels}

    # -- ephemeral volumes --------------------------------------------------------------------------------------

    def _ephemeral_claims(self, objects: Objects, pod_key: str) -> Iterator[Change]:
        pod = objects.get(Pod, pod_key)
        if pod is None or pod.metadata.deletion_timestamp is not None or pod.status.phase in ("Succeeded", "Failed"):
            return
        for volume in pod.spec.volumes:
            template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
            name = ephemeral_claim_name(pod.metadata.name, volume.get("name"))
            if template is None or objects.get(PersistentVolumeClaim, f"{pod.metadata.namespace}/{name}") is not None:
                continue
            owner = OwnerReference(
                api_version="v1", kind="Pod", name=pod.metadata.name, uid=pod.metadata.uid, controller=True
            )
            meta = ObjectMeta(name=name, namespace=pod.metadata.namespace, owner_references=[owner])
            try:
                spec = msgspec.convert(template.get("spec", {}), PersistentVolumeClaimSpec)
            except msgspec.ValidationError as error:
                yield Notify(pod, "InvalidClaim", f"The claim of volume {volume.get('name')}: {error}.", warning=True)
                continue
            yield Create(PersistentVolumeClaim(metadata=meta, spec=spec))


class _WaitingClaims:
    """Claims that are not bound, and which of them may have something to do. There may be thousands of claims and of
    volumes, so a volume that becomes free calls those of its class once, in the next pass."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[str, str]] = {}  # by claim: its class, and the volume that it names
        self._by_class: dict[str, dict[str, None]] = {}
        self._by_volume: dict[str, dict[str, None]] = {}
        self._called: dict[str, None] = {}

    def note(self, claim_key: str, claim: PersistentVolumeClaim | None) -> None:
        """None if it is gone."""
        class_name, volume = self._known.pop(claim_key, ("", ""))
        self._by_class.get(class_name, {}).pop(claim_key, None)
        self._by_volume.get(volume, {}).pop(claim_key, None)
        if claim is not None and not is_bound(claim):
            spec = claim.spec
            self._known[claim_key] = (spec.storage_class_name or "", spec.volume_name)
            self._by_class.setdefault(spec.storage_class_name or "", {})[claim_key] = None
            if spec.volume_name:
                self._by_volume.setdefault(spec.volume_name, {})[claim_key] = None

    def for_volume(self, volume: str) -> list[str]:
        """Those that name a volume."""
        return list(self._by_volume.get(volume, ()))

    def call(self, class_name: str) -> None:
        self._called[class_name] = None

    def call_all(self) -> None:
        self._called.update(dict.fromkeys(self._by_class))

    def take_called(self) -> list[str]:
        called, self._called = self._called, {}
        return [claim_key for class_name in called for claim_key in self._by_class.get(class_name, ())]


class _Candidates:
    """Volumes for claims that ask for the same, smallest first."""

    def __init__(self, volumes: Sequence[PersistentVolume]) -> None:
        self._volumes = sorted(volumes, key=lambda volume: (volume_size(volume), volume.metadata.name))
        self._next = 0  # those before it are taken

    def first(self, free: Mapping[str, PersistentVolume]) -> PersistentVolume | None:
        """The first one that is still free."""
        while self._next < len(self._volumes):
            found = free.get(self._volumes[self._next].metadata.name)
            if found is not None:
                return found
            self._next += 1
        return None


def _without_protection(obj: PersistentVolume | PersistentVolumeClaim) -> Iterator[Change]:
    """An API server marks claims and volumes so that they are not deleted while they are in use; somebody has to remove
    the mark."""
    kept = [finalizer for finalizer in obj.metadata.finalizers if finalizer not in _PROTECTION]
    if kept != obj.metadata.finalizers:
        yield Update(replace(obj, metadata=replace(obj.metadata, finalizers=kept)))


def _released(volume: PersistentVolume) -> Iterator[Change]:
    """The claim of a volume is gone."""
    if volume.spec.claim_ref is None or not volume.spec.claim_ref.uid:
        return  # it waits for a claim of that name
    if volume.spec.persistent_volume_reclaim_policy == "Delete":
        yield Delete(volume, reason="its claim was deleted")
    elif volume.status.phase != "Released":
        yield Update(replace(volume, status=PersistentVolumeStatus(phase="Released")))


def _give_up(claim: PersistentVolumeClaim, node: str, attempts: int) -> Iterator[Change]:
    """As other provisioners do, it leaves alone what schedulers write beside the node: one that has just started sees
    from it that a volume was to be made."""
    annotations = dict(claim.metadata.annotations)
    annotations.pop(names.SELECTED_NODE, None)
    annotations[ATTEMPTS] = str(attempts + 1)
    yield Update(replace(claim, metadata=replace(claim.metadata, annotations=annotations)))
    where = f" for node {node}" if node else ""
    yield Notify(claim, "ProvisioningFailed", f"Attempt {attempts + 1} to make a volume{where} failed.", warning=True)


def _created(claim: PersistentVolumeClaim) -> float:
    created = claim.metadata.creation_timestamp
    return 0.0 if created is None else parse_timestamp(created)
