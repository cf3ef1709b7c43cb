"""Which volumes the tasks of a session take.

An open claim gets the smallest existing volume that fits and can be reached from the node. Two claims must not get the
same one, so a choice counts from the moment in which the task is placed, also if that is undone later. If no volume
exists, the class has to make one there.

Several pods may use one open claim. Its volume is made for the node of the first of them, and the others must be able
to reach it from theirs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from itertools import permutations
from typing import Final

from stromboli.api import PersistentVolume, PersistentVolumeClaim, key
from stromboli.api.volumes.claims import requested_size
from stromboli.api.volumes.topology import reaches
from stromboli.cluster import Node, Status, Task, TaskKey, View
from stromboli.scheduling.callbacks import Objection
from stromboli.scheduling.session import Session

from .claim_states import ClaimState, ClaimStates
from .free_volumes import FreeVolumes, order
from .provisioning import can_provision, class_of, same_topology

_IN_PROSPECT: Final = frozenset({Status.RESERVED, Status.CONDITIONAL})
_FEW: Final = 4  # so many claims of a pod choose their volumes in any order


class VolumeChoices:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = session.snapshot.volumes
        self._states = session.state(ClaimStates)
        self._zones = self._states.rules.zones
        self._changes = 0
        self._taken: dict[str, str] = {
            volume: claim for held in session.ledger.held.values() for claim, volume in held.volumes.items()
        }  # the claim that has a volume since this session, or waits for it
        self._volume_of: dict[str, str] = {claim: volume for volume, claim in self._taken.items()}
        self._uses: Counter[str] = Counter()  # how many tasks have a volume in `_of_task`
        self._free: dict[int, FreeVolumes] = {}  # by what claims ask for
        self._free_with: dict[str, list[FreeVolumes]] = {}  # by volume: those of them that it is among
        self.settled: set[str] = set()  # claims for which this session has decided on a volume or a node
        self._of_task: dict[TaskKey, dict[str, str]] = {}
        self._nodes: dict[str, dict[TaskKey, Node]] = {}  # of tasks with an open claim that they share

    @property
    def matter(self) -> bool:
        """Whether placing a task can change where others may go."""
        index = self._index
        if any(name in index.free for name, known in index.classes.items() if known.volume_binding_mode != "Immediate"):
            return True
        return any(self._states.of(claim).is_open for claim in index.shared)

    @property
    def any(self) -> bool:
        """Whether an existing volume was chosen for some placed task."""
        return bool(self._of_task)

    def of(self, task: Task) -> dict[str, str]:
        """The existing volumes chosen for a placed task, by claim."""
        return self._of_task.get(task.key, {})

    def selected(self, claim: str) -> Node | None:
        """The node that the volume of a shared claim is made for, as far as this session has decided it."""
        placed = self._nodes.get(claim)
        return next(iter(placed.values())) if placed else None

    # -- handlers -----------------------------------------------------------------------------------------------

    def allocate(self, task: Task) -> None:
        if not self._take(task):
            raise Objection

    def note(self, task: Task) -> None:
        """Of a task for which room is set aside, or that counts on room of others, or that did so."""
        if task.status in _IN_PROSPECT:
            self._take(task)
        else:
            self.deallocate(task)

    def _take(self, task: Task) -> bool:
        """Choose volumes for the open claims of a task on its node; False if there are none."""
        if not task.volumes.claims or task.node is None:
            return True
        open_claims = self._states.open_claims(task)
        if not open_claims:
            return True
        self.deallocate(task)  # what it had in prospect, perhaps on another node
        chosen = self.choose(open_claims, task.node)
        if chosen is None:
            return False
        if chosen:
            self._of_task[task.key] = chosen
            for claim, volume in chosen.items():
                self._uses[volume] += 1
                self._taken[volume], self._volume_of[claim] = claim, volume
                for free in self._free_with.get(volume, ()):
                    free.take(volume)
        for claim in task.volumes.claims:
            if claim in self._index.shared and self._states.of(claim).is_open:
                self._nodes.setdefault(claim, {})[task.key] = task.node
        return True

    def view(self) -> View:
        """Of the choices that were made and undone."""
        return View(lambda: self._changes)

    def deallocate(self, task: Task) -> None:
        if not task.volumes.claims:
            return
        self._changes += 1
        for claim, volume in self._of_task.pop(task.key, {}).items():
            self._uses[volume] -= 1
            if self._taken.get(volume) == claim and not self._uses[volume]:
                del self._taken[volume]
                self._volume_of.pop(claim, None)
                for free in self._free_with.get(volume, ()):
                    free.give_back(volume)
        for claim in task.volumes.claims:
            self._nodes.get(claim, {}).pop(task.key, None)

    # -- choosing -----------------------------------------------------------------------------------------------

    def choose(self, open_claims: Iterable[ClaimState], node: Node) -> dict[str, str] | None:
        """The existing volume for each of these claims on a node, without those that have to be made; None if one can
        have neither. The smallest claim chooses first; if that leaves nothing for another, they choose in other
        orders."""
        states = sorted(open_claims, key=_by_size)
        for one_after_the_other in permutations(states) if len(states) <= _FEW else (states,):
            chosen = self._choose(one_after_the_other, node)
            if chosen is not None:
                return chosen
        return None

    def _choose(self, states: Iterable[ClaimState], node: Node) -> dict[str, str] | None:
        chosen: dict[str, str] = {}
        for state in states:
            assert state.claim is not None
            claim_key = key(state.claim)
            if state.named_by is not None:
                if not self._reaches(state.named_by, node):
                    return None
                chosen[claim_key] = state.named_by.metadata.name
                continue
            volume = self._smallest(state, claim_key, node, set(chosen.values()))
            if volume is not None:
                chosen[claim_key] = volume.metadata.name
            elif not self._can_make(state, claim_key, node):
                return None
        return chosen

    def _smallest(self, state: ClaimState, claim: str, node: Node, besides: set[str]) -> PersistentVolume | None:
        free = self.free(state)
        if free is None:
            return None
        found, own = free.smallest(node, besides), self.shared_volume(state)
        if own is None:
            return found
        if claim in self._index.shared or found is None or order(own) < order(found):
            # Another pod takes it for the same claim: it is the one to share, if it can be shared there.
            return own if self._reaches(own, node) else None
        return found

    def free(self, state: ClaimState) -> FreeVolumes | None:
        """The existing volumes that an open claim could have; None if there are none."""
        volumes = self._states.free_volumes(state)
        if not volumes or state.claim is None:
            return None
        kind = self._index.kinds[key(state.claim)]
        known = self._free.get(kind)
        if known is None:
            known = self._free[kind] = FreeVolumes(volumes, self._index.reaches, zones=self._zones)
            for volume in volumes:
                name = volume.metadata.name
                self._free_with.setdefault(name, []).append(known)
                if name in self._taken:
                    known.take(name)
        return known

    def shared_volume(self, state: ClaimState) -> PersistentVolume | None:
        """The existing volume that another pod takes for the same claim."""
        free = self.free(state)
        assert state.claim is not None
        name = self._volume_of.get(key(state.claim))
        return free.get(name) if name is not None and free is not None and name in free else None

    def _reaches(self, volume: PersistentVolume, node: Node) -> bool:
        return reaches(volume, node.labels, node.name, zones=self._zones)

    def _can_make(self, state: ClaimState, claim: str, node: Node) -> bool:
        assert state.claim is not None
        if not can_provision(self._index, state.claim, node.labels):
            return False
        return self.may_reach(state.claim, state.selected or _name(self.selected(claim)), node)

    def may_reach(self, claim: PersistentVolumeClaim, selected: str, node: Node) -> bool:
        """Whether a volume that is made for the selected node can be reached from another. If nobody says, only pods
        that share a claim try it: the first of them has its node, and the others need theirs."""
        if not selected or selected == node.name:
            return True
        wanted = self.topology_of(claim, selected)
        if wanted is None:
            return key(claim) in self._index.shared
        return all(node.labels.get(label, "") == value for label, value in wanted.items())

    def topology_of(self, claim: PersistentVolumeClaim, selected: str) -> dict[str, str] | None:
        """The labels by which a volume made for a node is placed; None if nobody says."""
        storage_class = class_of(self._index, claim)
        if storage_class is None:
            return None
        return same_topology(self._index, storage_class.provisioner, selected, self._session.nodes.by_name)


def _by_size(state: ClaimState) -> tuple[int, str]:
    assert state.claim is not None
    return requested_size(state.claim), key(state.claim)


def _name(node: Node | None) -> str:
    return "" if node is None else node.name
