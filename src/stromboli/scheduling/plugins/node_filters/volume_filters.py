"""Whether a pod can have its volumes on a node.

Tasks are alike if their claims are: of the same class and size, or with volumes in the same place. So pods with a claim
each are still filtered once. What placements in the same session change (which existing volumes are left, and where the
volume of a shared claim is made) is asked again after each placement; most claims do not need that.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import reduce

import numpy as np

from stromboli.api import PersistentVolume
from stromboli.api import key as object_key
from stromboli.cluster import JointView, LogView, Task
from stromboli.scheduling.callbacks import NodeFilter, ReasonIds, Refusal, Rows
from stromboli.scheduling.explanation.node_reasons import NO_VOLUME, TOO_FEW_NEAR, VOLUME_ELSEWHERE, without_claims
from stromboli.scheduling.session import Session
from stromboli.scheduling.volumes import ClaimStates, VolumeChoices, VolumeRules
from stromboli.scheduling.volumes.claim_states import ClaimState
from stromboli.scheduling.volumes.free_volumes import FreeVolumes

from .node_facts import Mask, NodeFacts
from .shared_volumes import SharedVolumes
from .volume_masks import VolumeMasks


@dataclass(slots=True)
class _Reached:
    groups: Rows  # by row: how many groups of volumes with one that is left it reaches
    changes: LogView[tuple[int, int]]  # of these groups


class VolumeFilters:
    def __init__(self, session: Session, facts: NodeFacts, rules: VolumeRules) -> None:
        self._session = session
        self._rules = rules
        self._nodes = session.nodes.nodes
        self._index = session.snapshot.volumes
        self._states = session.state(ClaimStates)
        self._choices = session.state(VolumeChoices)
        self._masks = VolumeMasks(self._index, facts)
        self._shared = SharedVolumes(session)
        self._reach_of_free: dict[FreeVolumes, _Reached] = {}
        self._kinds: dict[int, int] = {}  # the signatures of claims that are alike

    def key(self, task: Task) -> Hashable:
        """What the answers depend on; None for tasks without volumes."""
        # Most pods have one claim, of their own. There may be ten thousand of them, and few kinds of claims.
        kind = task.claim_kind
        if kind is None:
            return self._key(task)
        known = self._kinds.get(kind)
        if known is None:
            known = self._kinds[kind] = self._states.of(task.claim).signature
        return known

    def keys(self, tasks: Sequence[Task]) -> set[Hashable]:
        """The distinct keys of many tasks."""
        return set(map(self.key, self._states.one_of_each_kind(tasks)))

    def _key(self, task: Task) -> Hashable:
        volumes = task.volumes
        if task.pod.spec.resource_claims:
            return task.key
        if not volumes.claims:
            return volumes.inline or None
        if volumes.ephemeral and (problem := self._states.problem(task)) is not None:
            return problem.subject
        signature = self._states.signature
        if self._index.shared and task.job is not None and task.job.min_available > 1 and self._shares_open(task):
            # Whether there is room for all that share a claim depends on the gang.
            return (task.job.key, volumes.inline, *[signature(claim) for claim in volumes.claims])
        if len(volumes.claims) == 1 and not volumes.inline:
            return signature(volumes.claims[0])
        return (volumes.inline, *[signature(claim) for claim in volumes.claims])

    def _shares_open(self, task: Task) -> bool:
        shared = self._index.shared
        return any(claim in shared and self._states.of(claim).is_open for claim in task.volumes.claims)

    def refusal(self, task: Task) -> Refusal | None:
        return self._states.problem(task) if task.volumes.claims or task.pod.spec.resource_claims else None

    # -- what does not change in a session ------------------------------------------------------------------------

    def constant(self, task: Task) -> NodeFilter | None:
        problem = self.refusal(task)
        if problem is None and not task.volumes.claims:
            return None
        answers: ReasonIds = np.zeros(len(self._nodes), dtype=np.int32)
        if problem is not None:
            answers[:] = self._session.reason_id(without_claims(problem.code))
            return answers.__getitem__
        for claim in task.volumes.claims:
            state = self._states.of(claim)
            if state.volume is not None:
                reached = self._reached(state)
                answers[(answers == 0) & ~reached] = self._session.reason_id(VOLUME_ELSEWHERE)
        if self._rules.binding:
            for state in self._states.open_claims(task):
                if not self._changes(state):
                    answers[(answers == 0) & ~self._settled(state)] = self._session.reason_id(NO_VOLUME)
        return answers.__getitem__ if answers.any() else None

    def _reached(self, state: ClaimState) -> Mask:
        assert state.volume is not None
        mask = self._masks.everywhere()
        if self._rules.binding:
            mask = mask & self._masks.by_affinity(state.volume)
        return mask & self._masks.by_zones(state.volume) if self._rules.zones else mask

    def _settled(self, state: ClaimState) -> Mask:
        """Where an open claim can have its volume, if that does not depend on other tasks."""
        assert state.claim is not None
        if state.named_by is not None:
            return self._reaching(state.named_by)
        mask = self._masks.provisioning(state.claim)
        return mask & self._near(state, state.selected) if state.selected else mask

    def _near(self, state: ClaimState, selected: str) -> Mask:
        """Nodes that will reach a volume made for the selected node."""
        assert state.claim is not None
        labels = self._choices.topology_of(state.claim, selected)
        if labels is not None:
            return self._masks.with_labels(labels)
        if object_key(state.claim) in self._index.shared:
            return self._masks.everywhere()  # it is checked again before the bind
        mask = self._masks.nowhere()
        mask[self._session.nodes.by_name[selected].row] = True
        return mask

    # -- what placements change ---------------------------------------------------------------------------------

    def _changes(self, state: ClaimState) -> bool:
        if state.selected or state.named_by is not None:
            return False
        assert state.claim is not None
        return bool(self._states.free_volumes(state)) or object_key(state.claim) in self._index.shared

    def changing(self, task: Task) -> NodeFilter | None:
        if not task.volumes.claims or not self._rules.binding or self.refusal(task) is not None:
            return None
        states = [state for state in self._states.open_claims(task) if self._changes(state)]
        if not states:
            return None
        keys = [object_key(state.claim) for state in states if state.claim is not None]
        shared = [claim for claim in keys if claim in self._index.shared]
        reason, narrow = self._session.reason_id(NO_VOLUME), self._session.reason_id(TOO_FEW_NEAR)
        view = JointView(self._choices.view(), *([self._session.ledger.views.rows()] if shared else []))
        answers: ReasonIds = np.zeros(len(self._nodes), dtype=np.int32)

        def judge(rows: Rows) -> ReasonIds:
            if view.changed():
                answers[:] = np.where(self._possible(states), 0, reason)
                for claim in shared:
                    if self._choices.selected(claim) is None:
                        mask = self._shared.too_narrow(task, claim)
                        if mask is not None:
                            answers[(answers == 0) & mask] = narrow
            return answers[rows]

        return judge

    def _possible(self, states: list[ClaimState]) -> Mask:
        masks = [self._possible_for(state) for state in states]
        mask = reduce(np.logical_and, masks)
        if sum(bool(self._states.free_volumes(state)) for state in states) > 1:
            # Two claims of one pod must not count on the same volume.
            for row in np.flatnonzero(mask).tolist():
                mask[row] = self._choices.choose(states, self._nodes[row]) is not None
        return mask

    def _possible_for(self, state: ClaimState) -> Mask:
        assert state.claim is not None
        claim = object_key(state.claim)
        made = self._masks.provisioning(state.claim)
        selected = self._choices.selected(claim)
        mask = made & self._near(state, selected.name) if selected is not None else made.copy()
        if claim in self._index.shared and (own := self._choices.shared_volume(state)) is not None:
            return self._reaching(own)
        free = self._choices.free(state)
        return mask if free is None else mask | self._left(free)

    def _left(self, free: FreeVolumes) -> Mask:
        """Nodes that reach a volume which is left. Only groups that ran out, or got one back, are looked at again."""
        known = self._reach_of_free.get(free)
        if known is None:
            groups = free.any_of_each_group()
            counts = np.zeros(len(self._nodes), dtype=np.int64)
            for _, volume in groups:
                counts += self._reaching(volume)
            known = self._reach_of_free[free] = _Reached(counts, free.view())
            known.changes.renew()
        for reach, change in known.changes.news():
            known.groups += change * self._reaching(free.one_of(reach))
        return np.asarray(known.groups > 0)

    def _reaching(self, volume: PersistentVolume) -> Mask:
        mask = self._masks.by_affinity(volume)
        return mask & self._masks.by_zones(volume) if self._rules.zones else mask
