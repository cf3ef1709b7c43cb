"""What is known of a claim: it has a volume, it waits for its first pod, or nothing can be done with it.

A claim of a class with the mode Immediate gets its volume from others, whatever pod uses it. If it has none, the pod
waits. A claim of a class with the mode WaitForFirstConsumer is open: its volume follows from the node of the pod.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass

from stromboli.api import PersistentVolume, PersistentVolumeClaim
from stromboli.api import key as key_of
from stromboli.api.volumes.claims import (
    DELAYED,
    LOST,
    is_bound,
    is_for,
    selected_at,
    selected_node,
    suits,
)
from stromboli.api.volumes.topology import EVERYWHERE, reach_key
from stromboli.cluster import Job, JobKey, Task, TaskKey
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation import volume_reasons as reasons
from stromboli.scheduling.session import Session

from .chosen_nodes import ChosenNodes
from .free_volumes import order
from .volume_checks import VolumeRules, volume_rules


@dataclass(slots=True)
class ClaimState:
    """Exactly one of `problem` and `claim` is set. Without `volume` the claim is open. Not frozen, because there is one
    for each claim: that would take longer."""

    problem: Refusal | None = None
    claim: PersistentVolumeClaim | None = None
    volume: PersistentVolume | None = None
    # Of an open claim: the volume that names it already, or the node that its volume is being made for.
    named_by: PersistentVolume | None = None
    selected: str = ""
    signature: int = -1  # equal for claims that can have their volumes on the same nodes

    @property
    def is_open(self) -> bool:
        return self.claim is not None and self.volume is None


class ClaimStates:
    """The states of all claims in a session; each is found once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._index = session.snapshot.volumes
        rules = volume_rules(session.configuration)
        self.rules = rules if rules is not None else VolumeRules(False, False, False, 0.0)
        self._chosen = session.state(ChosenNodes)
        self._known: dict[str, ClaimState] = {}
        self._reopened: set[str] = set()
        self._free: dict[int, list[PersistentVolume]] = {}  # by what a claim asks for
        self._drivers: dict[int, tuple[str, ...]] = {}  # of these volumes
        self._signatures: dict[Hashable, int] = {}
        self._plain: dict[int, ClaimState] = {}  # of the first of claims that are alike
        self._uniform: dict[JobKey, bool] = {}  # whether the tasks of a job have one claim each, and these are alike
        self._open_kinds: dict[int, bool] = {}  # whether claims that are alike are open
        self._fine_kinds: set[int | None] = set()  # of claims without a problem
        self._delayed: dict[str, bool] = {}  # whether claims of a class wait for their first pod

    def of(self, claim: str) -> ClaimState:
        state = self._known.get(claim)
        if state is None:
            state = self._known[claim] = self._find(claim)
        return state

    def reopen(self, claim: str) -> None:
        """What was settled about an open claim is taken back in this session."""
        self._reopened.add(claim)
        self._known.pop(claim, None)

    def reconsider(self, claim: str) -> None:
        """A node was selected for a claim in this session."""
        self._known.pop(claim, None)

    def one_of_each_kind(self, tasks: Sequence[Task]) -> Collection[Task]:
        """Enough of these tasks of a job to find out about the claims of all. There may be ten thousand of them, and
        few kinds; those of a job are mostly of one."""
        job = tasks[0].job
        assert job is not None
        uniform = self._uniform.get(job.key)
        if uniform is None:
            kinds = {task.claim_kind for task in job.tasks.values()}
            uniform = self._uniform[job.key] = len(kinds) == 1 and None not in kinds
        if uniform:
            return tasks[:1]
        one_of = {task.claim_kind: task for task in tasks}
        return tasks if None in one_of else one_of.values()

    def bound_to_places(self, job: Job, tasks: Sequence[Task]) -> list[TaskKey]:
        """The tasks of a job that have a volume somewhere, or one is being made for them, unless all are alike."""
        if len(self.one_of_each_kind(tasks)) == 1:
            return []
        return [task.key for task in tasks if any(self._has_place(claim) for claim in task.volumes.claims)]

    def _has_place(self, claim: str) -> bool:
        state = self.of(claim)
        volume = state.volume or state.named_by
        return bool(state.selected) or (volume is not None and reach_key(volume) != EVERYWHERE)

    def open_claims(self, task: Task) -> list[ClaimState]:
        return [state for claim in task.volumes.claims if (state := self.of(claim)).is_open]

    def signature(self, claim: str) -> int:
        """Equal for claims that can have their volumes on the same nodes."""
        index = self._index
        alike = index.alike.get(claim)
        if alike is None or claim in index.shared or claim in index.for_one_pod:
            return self.of(claim).signature
        state = self._plain.get(alike)
        if state is None:
            state = self._plain[alike] = self.of(claim)
        return state.signature

    def any_open(self, tasks: Iterable[Task]) -> bool:
        """Whether one of these tasks has an open claim."""
        return any(self._is_open(claim) for task in tasks for claim in task.volumes.claims)

    def all_select_nodes(self, tasks: Iterable[Task]) -> bool:
        """Whether each of these tasks has one claim, of its own, that is open, and nothing is settled about it yet."""
        return all(task.claim_kind is not None and self._is_open(task.claim) for task in tasks)

    def _is_open(self, claim: str) -> bool:
        alike = self._index.alike.get(claim)
        if alike is None:
            return self.of(claim).is_open
        known = self._open_kinds.get(alike)
        if known is None:
            known = self._open_kinds[alike] = self.of(claim).is_open
        return known

    def problem(self, task: Task) -> Refusal | None:
        """Why the task can run nowhere, whatever the nodes are."""
        if task.claim_kind in self._fine_kinds:
            return None
        problem = self._find_problem(task)
        if problem is None and task.claim_kind is not None:
            self._fine_kinds.add(task.claim_kind)
        return problem

    def _find_problem(self, task: Task) -> Refusal | None:
        if task.pod.spec.resource_claims:
            return _refusal(Code.RESOURCE_CLAIMS_UNSUPPORTED, reasons.resource_claims_unsupported(task.key))
        if not self.rules.binding:
            return None
        for claim in task.volumes.claims:
            state = self.of(claim)
            if state.problem is not None:
                return state.problem
            assert state.claim is not None
            if claim in task.volumes.ephemeral and not _owns(task, state.claim):
                return _refusal(Code.CLAIM_MISSING, reasons.claim_of_another(claim, task.key))
        return None

    def free_volumes(self, state: ClaimState) -> list[PersistentVolume]:
        """Existing volumes that an open claim could have, wherever they are, smallest first."""
        claim = state.claim
        if claim is None or state.selected or state.named_by is not None:
            return []
        free = self._index.free.get(claim.spec.storage_class_name or "")
        if not free:
            return []
        kind = self._index.kinds[key_of(claim)]
        found = self._free.get(kind)
        if found is None:
            found = self._free[kind] = sorted([volume for volume in free.values() if suits(volume, claim)], key=order)
        return found

    def free_drivers(self, state: ClaimState) -> tuple[str, ...]:
        """Of existing volumes that an open claim could have."""
        volumes = self.free_volumes(state)
        if not volumes or state.claim is None:
            return ()
        kind = self._index.kinds[key_of(state.claim)]
        known = self._drivers.get(kind)
        if known is None:
            found = dict.fromkeys([volume.spec.csi.driver for volume in volumes if volume.spec.csi is not None])
            known = self._drivers[kind] = tuple(found)
        return known

    # -- one claim ----------------------------------------------------------------------------------------------

    def _find(self, key: str) -> ClaimState:
        claim = self._index.claims.get(key)
        if claim is None:
            return self._problem(Code.CLAIM_MISSING, reasons.claim_missing(key))
        if claim.metadata.deletion_timestamp is not None:
            return self._problem(Code.CLAIM_MISSING, reasons.claim_deleted(key))
        if claim.status.phase == LOST:
            return self._problem(Code.CLAIM_UNBOUND, reasons.claim_lost(key, claim.spec.volume_name))
        if claim.spec.volume_name:
            return self._with_volume(key, claim)
        class_name = claim.spec.storage_class_name or ""
        if not self._is_delayed(class_name):
            if class_name and class_name not in self._index.classes:
                return self._problem(Code.CLAIM_UNBOUND, reasons.class_missing(key, class_name))
            return self._problem(Code.CLAIM_UNBOUND, reasons.claim_unbound(key, class_name))
        naming = None if key in self._reopened else self._index.naming.get(key)
        named_by = None if naming is None else next((v for v in naming.values() if is_for(v, claim)), None)
        selected = "" if named_by is not None else self._selected(key, claim)
        which = None if named_by is None else named_by.metadata.name
        same = (self._index.kinds[key], which, selected, self._own(key))
        return ClaimState(None, claim, None, named_by, selected, self._signature(same))

    def _is_delayed(self, class_name: str) -> bool:
        known = self._delayed.get(class_name)
        if known is None:
            found = self._index.classes.get(class_name)
            known = self._delayed[class_name] = found is not None and found.volume_binding_mode == DELAYED
        return known

    def _with_volume(self, key: str, claim: PersistentVolumeClaim) -> ClaimState:
        name = claim.spec.volume_name
        volume = self._index.volumes.get(name)
        if not is_bound(claim):
            return self._problem(Code.CLAIM_UNBOUND, reasons.claim_binding(key, name))
        if volume is None:
            return self._problem(Code.CLAIM_UNBOUND, reasons.claim_lost(key, name))
        driver = "" if volume.spec.csi is None else volume.spec.csi.driver
        same = ("bound", self._index.reaches[name], driver, self._own(key))
        return ClaimState(None, claim, volume, None, "", self._signature(same))

    def _signature(self, same: Hashable) -> int:
        return self._signatures.setdefault(same, len(self._signatures))

    def _problem(self, code: str, sentence: str) -> ClaimState:
        return ClaimState(_refusal(code, sentence), signature=self._signature(sentence))

    def _own(self, key: str) -> str:
        """The claim itself, if it matters which one it is: tasks with the same claim affect each other."""
        return key if key in self._index.shared or key in self._index.for_one_pod else ""

    def _selected(self, key: str, claim: PersistentVolumeClaim) -> str:
        """The node that the claim's volume is made for; "" if there is no such node, if no pod can use it any more, or
        if it took too long."""
        if key in self._chosen.moved:
            return self._chosen.moved[key]
        node = self._index.selecting.get(key, "")
        if not node or node not in self._session.nodes.by_name or key in self._reopened:
            return ""
        since = selected_at(claim)
        is_ours = since is not None or not selected_node(claim)
        if is_ours and self._chosen.is_lost(key, node):
            return ""
        return "" if since is not None and self._session.now > since + self.rules.timeout else node


def _refusal(code: str, sentence: str) -> Refusal:
    return Refusal(code, subject=sentence)


def _owns(task: Task, claim: PersistentVolumeClaim) -> bool:
    return any(owner.kind == "Pod" and owner.uid == task.uid for owner in claim.metadata.owner_references)
