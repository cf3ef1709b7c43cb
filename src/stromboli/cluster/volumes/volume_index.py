"""Claims, volumes and storage classes as the scheduler knows them, and which tasks use which claim."""

from __future__ import annotations

from collections.abc import Hashable

from stromboli.api import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    KObject,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimSpec,
    StorageClass,
    key,
    names,
)
from stromboli.api.volumes.claims import (
    LOST,
    ONE_POD,
    claim_of,
    is_bound,
    is_for,
    is_free,
    requested_size,
    selected_node,
)
from stromboli.api.volumes.topology import reach_key
from stromboli.cluster.model import Task, TaskKey


class VolumeIndex:
    def __init__(self) -> None:
        self.claims: dict[str, PersistentVolumeClaim] = {}
        self.volumes: dict[str, PersistentVolume] = {}
        self.classes: dict[str, StorageClass] = {}
        self.csi_nodes: dict[str, CSINode] = {}
        self.limits: dict[str, dict[str, int]] = {}  # by driver and node: how many volumes can be attached
        self.drivers: dict[str, CSIDriver] = {}
        self.capacities: dict[str, CSIStorageCapacity] = {}
        # What claims ask for: equal for claims that ask for the same. Thousands do, so it is found out once for each.
        self.kinds: dict[str, int] = {}
        self._kind_ids: dict[Hashable, int] = {}
        self._claim_specs: dict[str, PersistentVolumeClaimSpec] = {}
        self.for_one_pod: set[str] = set()  # ReadWriteOncePod
        # Equal for claims that are bound in the same place, or ask for the same and wait; others are not in here.
        # Tasks whose only claim this is, and that do not share it, have it as `claim_kind`.
        self.alike: dict[str, int] = {}
        self._alike_ids: dict[Hashable, int] = {}
        # Claims that had a selected node at some time: a provisioner that gives up removes it, perhaps at once.
        self.selected: set[str] = set()
        # The selected nodes of claims that are not bound yet, also if only we know of them so far; those that we have
        # removed; and those that somebody else has removed: a provisioner that gave up.
        self.selecting: dict[str, str] = {}
        self.unselecting: set[str] = set()
        self.given_up: dict[str, str] = {}
        # From where volumes can be reached: equal for volumes that are alike in this.
        self.reaches: dict[str, int] = {}
        self._reach_ids: dict[Hashable, int] = {}
        # Volumes that any claim may have, by class and name.
        self.free: dict[str, dict[str, PersistentVolume]] = {}
        # The volumes that name a claim, by the key of the claim.
        self.naming: dict[str, dict[str, PersistentVolume]] = {}
        # The tasks that use a claim; and the claims that several tasks use.
        self.users: dict[str, dict[TaskKey, Task]] = {}
        self.shared: dict[str, None] = {}
        # How many volumes a task has at most.
        self.most_of_a_task = 1
        # Tasks that need devices of dynamic resource allocation.
        self.with_devices: dict[TaskKey, Task] = {}

    @property
    def matters(self) -> bool:
        """Whether any task has claims or volumes of drivers, or needs devices."""
        return bool(self.users or self.with_devices)

    # -- objects ------------------------------------------------------------------------------------------------

    def apply(self, obj: KObject) -> None:
        match obj:
            case PersistentVolumeClaim():
                self._apply_claim(obj)
            case PersistentVolume():
                self._forget_volume(obj.metadata.name)
                self.volumes[obj.metadata.name] = obj
                reach = reach_key(obj)
                self.reaches[obj.metadata.name] = self._reach_ids.setdefault(reach, len(self._reach_ids))
                if is_free(obj):
                    self.free.setdefault(obj.spec.storage_class_name, {})[obj.metadata.name] = obj
                elif named := claim_of(obj):
                    self.naming.setdefault(named, {})[obj.metadata.name] = obj
                    self._compare(named)
            case StorageClass():
                self.classes[obj.metadata.name] = obj
            case CSINode():
                self._forget_limits(obj.metadata.name)
                self.csi_nodes[obj.metadata.name] = obj
                for driver in obj.spec.drivers:
                    if driver.allocatable is not None and driver.allocatable.count is not None:
                        self.limits.setdefault(driver.name, {})[obj.metadata.name] = driver.allocatable.count
            case CSIDriver():
                self.drivers[obj.metadata.name] = obj
            case CSIStorageCapacity():
                self.capacities[key(obj)] = obj

    def _apply_claim(self, claim: PersistentVolumeClaim) -> None:
        claim_key = key(claim)
        self.claims[claim_key] = claim
        self._note_selected(claim_key, claim)
        before = self._claim_specs.get(claim_key)
        if before is None or before != claim.spec:
            self._claim_specs[claim_key] = spec = claim.spec
            selector = None if spec.selector is None else repr(spec.selector)
            modes, size = tuple(spec.access_modes), requested_size(claim)
            same = (spec.storage_class_name or "", size, modes, spec.volume_mode, selector)
            self.kinds[claim_key] = self._kind_ids.setdefault(same, len(self._kind_ids))
            (self.for_one_pod.add if ONE_POD in modes else self.for_one_pod.discard)(claim_key)
        self._compare(claim_key)

    def _note_selected(self, claim_key: str, claim: PersistentVolumeClaim) -> None:
        node = selected_node(claim)
        if is_bound(claim):
            self._forget_selected(claim_key)
        elif node:
            self.selecting[claim_key] = node
            self.given_up.pop(claim_key, None)
        elif claim_key in self.selected:  # it was seen, and is gone
            before = self.selecting.pop(claim_key, "")
            if before and claim_key not in self.unselecting:
                self.given_up[claim_key] = before
            self.unselecting.discard(claim_key)
        # A provisioner that gives up removes the node only, perhaps while no scheduler runs.
        if node or names.SELECTED_AT in claim.metadata.annotations:
            self.selected.add(claim_key)

    def _forget_selected(self, claim_key: str) -> None:
        self.selecting.pop(claim_key, None)
        self.unselecting.discard(claim_key)
        self.given_up.pop(claim_key, None)

    def selection_failed(self, task: Task) -> None:
        """A selected node could not be written: what the claims say counts."""
        for claim_key in task.volumes.claims:
            claim = self.claims.get(claim_key)
            if self.selecting.pop(claim_key, "") and claim is not None and (node := selected_node(claim)):
                self.selecting[claim_key] = node

    def _compare(self, claim_key: str) -> None:
        """Find out which claims this one is like."""
        same = self._what_matters(claim_key)
        if same is None:
            self.alike.pop(claim_key, None)
        else:
            self.alike[claim_key] = self._alike_ids.setdefault(same, len(self._alike_ids))
        if claim_key in self.users and claim_key not in self.shared:
            self._compare_user(claim_key)

    def _what_matters(self, claim_key: str) -> Hashable:
        """Equal for claims that are alike."""
        claim = self.claims.get(claim_key)
        if claim is None or claim.metadata.deletion_timestamp is not None or claim.status.phase == LOST:
            return None
        name = claim.spec.volume_name
        if not name:
            return None if claim_key in self.naming or selected_node(claim) else ("open", self.kinds[claim_key])
        volume = self.volumes.get(name)
        if volume is None or not is_bound(claim) or not is_for(volume, claim):
            return None
        return ("bound", self.reaches[name], "" if volume.spec.csi is None else volume.spec.csi.driver)

    def _compare_user(self, claim_key: str) -> None:
        """Of a claim that one task uses."""
        task = next(iter(self.users[claim_key].values()))
        special = claim_key in self.for_one_pod or bool(task.pod.spec.resource_claims)
        task.claim_kind = None if special or task.claim != claim_key else self.alike.get(claim_key)

    def delete(self, obj: KObject) -> None:
        name = obj.metadata.name
        match obj:
            case PersistentVolumeClaim():
                self.claims.pop(key(obj), None)
                self.selected.discard(key(obj))
                self._forget_selected(key(obj))
                self.kinds.pop(key(obj), None)
                self._claim_specs.pop(key(obj), None)
                self.for_one_pod.discard(key(obj))
                self._compare(key(obj))
            case PersistentVolume():
                self._forget_volume(name)
            case StorageClass():
                self.classes.pop(name, None)
            case CSINode():
                self._forget_limits(name)
                self.csi_nodes.pop(name, None)
            case CSIDriver():
                self.drivers.pop(name, None)
            case CSIStorageCapacity():
                self.capacities.pop(key(obj), None)

    def _forget_limits(self, node: str) -> None:
        known = self.csi_nodes.get(node)
        for driver in known.spec.drivers if known is not None else ():
            self.limits.get(driver.name, {}).pop(node, None)

    def _forget_volume(self, name: str) -> None:
        before = self.volumes.pop(name, None)
        if before is None:
            return
        del self.reaches[name]
        for index, group in ((self.free, before.spec.storage_class_name), (self.naming, claim_of(before))):
            known = index.get(group)
            if known is not None and known.pop(name, None) is not None and not known:
                del index[group]
        if named := claim_of(before):
            self._compare(named)

    # -- tasks --------------------------------------------------------------------------------------------------

    def add(self, task: Task) -> None:
        self.most_of_a_task = max(self.most_of_a_task, len(task.volumes.claims) + len(task.volumes.inline))
        for claim in task.volumes.claims:
            users = self.users.setdefault(claim, {})
            users[task.key] = task
            if len(users) == 1:
                self._compare_user(claim)
            else:
                self.shared[claim] = None
                for user in users.values() if len(users) == 2 else (task,):
                    user.claim_kind = None
        if task.volumes.inline:
            self.users.setdefault(INLINE, {})[task.key] = task
        if task.pod.spec.resource_claims:
            self.with_devices[task.key] = task

    def remove(self, task: Task) -> None:
        for claim in (*task.volumes.claims, INLINE):
            users = self.users.get(claim)
            if users is not None and users.pop(task.key, None) is not None:
                if len(users) < 2:
                    self.shared.pop(claim, None)
                if not users:
                    del self.users[claim]
                elif len(users) == 1 and claim != INLINE:
                    self._compare_user(claim)
        self.with_devices.pop(task.key, None)


INLINE = ""
"""The key in `users` of tasks with volumes of drivers that have no claim."""
