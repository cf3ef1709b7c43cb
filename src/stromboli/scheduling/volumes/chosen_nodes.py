"""Whether the nodes that volumes are made for can still take the pods that wait for them.

Between the choice of a node and the bind a volume is made, which may take minutes. Meanwhile the node can be cordoned,
tainted, relabelled, made smaller or lost. A pod that nobody would place there now is not bound there either: it gives
its place up and is placed again.

A claim whose volume is made for such a node is free again, if none of its pods can use the node. Its pods are then
placed as if nothing had been selected. If another of them waits for the claim elsewhere, the volume is made for that
one. Otherwise the selected node is removed at the end of the cycle, unless a new one has been written by then: a
provisioner must not make a volume that no pod can reach. All this follows from the claims, pods and nodes alone, so a
scheduler that has just started does the same.
"""

from __future__ import annotations

from typing import Final

from stromboli.api import PodSpec, names
from stromboli.api.selectors import CORDON, KEEPS_AWAY, matches_required_node, tolerates, untolerated
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Node, Task
from stromboli.scheduling.decisions import SelectNode, UnselectNode
from stromboli.scheduling.explanation import volume_reasons as reasons
from stromboli.scheduling.session import Session

from .volume_checks import VolumeRules, volume_rules

GIVEN_BACK: Final = "VolumesNotReady"
"""The reason of the event of a pod that gives up its place before its volumes are there."""

_RETRY: Final = 5.0  # seconds until a selected node is removed again, if that failed


class ChosenNodes:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._rules = volume_rules(session.configuration)
        self._index = session.snapshot.volumes
        self._known: dict[tuple[int, str], str] = {}
        # Claims whose selected node is given up in this cycle; and those that got the node of another pod instead.
        self.freed: dict[str, None] = {}
        self.moved: dict[str, str] = {}
        self.selected: set[str] = set()  # claims that got a node in this cycle

    def why_not(self, task: Task, node: str) -> str:
        """Why a task cannot run on a node, whatever else runs there; "" if it can."""
        key = (task.shape.id, node)
        why = self._known.get(key)
        if why is None:
            why = self._known[key] = self._look(task, node)
        return why

    def _look(self, task: Task, name: str) -> str:
        node = self._session.nodes.by_name.get(name)
        if node is None:
            return reasons.node_is_gone(name)
        if not node.ready:
            return reasons.node_not_ready(name)
        if bool((task.shape.request > self._session.nodes.allocatable[node.row]).any()):
            return reasons.node_too_small(name)
        return "" if self._rules is None else _by_predicates(self._rules, task.shape.pod.spec, node)

    def is_lost(self, claim: str, node: str) -> bool:
        """Whether none of the pods that use a claim can run on the node that its volume is made for."""
        users = self._index.users.get(claim)
        if not users:
            return False
        for task in users.values():  # noqa: SIM110 - for each claim in every cycle, and a generator takes longer
            if not self.why_not(task, node):
                return False
        return True

    def free(self) -> None:
        """Give up the selected nodes that no pod can use. Pods that were held there have left them already."""
        selecting = self._index.selecting
        for claim in sorted([claim for claim, node in selecting.items() if self.is_lost(claim, node)]):
            if not self._is_ours(claim):
                continue
            heir = self._heir(claim)
            if heir is None:
                self.freed[claim] = None
            else:
                self._move(claim, heir)

    def _is_ours(self, claim: str) -> bool:
        """Whether no other scheduler selected the node."""
        return names.SELECTED_AT in self._index.claims[claim].metadata.annotations

    def _heir(self, claim: str) -> Task | None:
        """A pod that waits for the claim elsewhere."""
        held = self._session.ledger.held
        users = self._index.users[claim].values()
        waiting = [task for task in users if task.key in held and claim in held[task.key].waits_for]
        return min(waiting, key=_by_key, default=None)

    def _move(self, claim: str, heir: Task) -> None:
        held, now = self._session.ledger.held[heir.key], self._session.now
        held.since = now
        self.moved[claim] = held.node
        self.select(SelectNode(claim, held.node, heir.key, heir.uid, format_timestamp(now)))

    def select(self, decision: SelectNode) -> None:
        claim = decision.claim
        self.freed.pop(claim, None)
        self.selected.add(claim)
        self._index.selected.discard(claim)
        if claim in self._index.selecting:
            self._index.selecting[claim] = decision.node  # as the claim will soon say
        self._session.cycle.decisions.append(decision)

    def select_ahead(self, decision: SelectNode) -> None:
        """For a pod that does not have its place yet. Until the claim says so, only we know."""
        self._index.selecting[decision.claim] = decision.node
        self.select(decision)

    def close(self) -> None:
        """Remove the selected nodes that were given up, if no others were written instead."""
        for claim in self.freed:
            self._index.unselecting.add(claim)
            self._session.cycle.decisions.append(UnselectNode(claim))
            self._session.due(self._session.now + _RETRY)


def _by_predicates(rules: VolumeRules, spec: PodSpec, node: Node) -> str:
    """What the plugin `predicates` has against a node, of all that depends on the node and the pod's spec alone."""
    if not node.schedulable and not tolerates(spec.tolerations, CORDON):
        return reasons.node_cordoned(node.name)
    taint = untolerated(spec.tolerations, node.object.spec.taints, KEEPS_AWAY) if rules.taints else None
    if taint is not None:
        return reasons.node_tainted(node.name, taint.key)
    if rules.node_affinity and not matches_required_node(spec, node.object):
        return reasons.node_not_selected(node.name)
    return ""


def _by_key(task: Task) -> str:
    return task.key
