"""The DaemonSet controller: one pod on each node that it fits (`daemon_pods`), from the present template (`renewal`).

Pods that are lost are made again at once, also in a simulation: the node has room for them, or nobody needs them there.
A visit looks at all nodes, so what of a node concerns nobody (its heartbeat, what it offers) is no reason for one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from stromboli.api import ControllerRevision, DaemonSet, Node, key
from stromboli.controllers.changes import Change, Create, Delete, Objects, Update
from stromboli.controllers.workloads.dependents import Dependents
from stromboli.controllers.workloads.owned_pods import OwnedPod, OwnedPods
from stromboli.controllers.workloads.pod_names import PodNames
from stromboli.controllers.workloads.replica_sets import stand_in
from stromboli.controllers.workloads.revisions import Revisions, revisions_of
from stromboli.controllers.workloads.surroundings import Surroundings
from stromboli.controllers.workloads.workload_controller import WorkloadController

from .daemon_pods import daemon_pod, fits
from .renewal import OnNode, renewed


@dataclass(slots=True)
class _Found:
    """What a visit finds on the nodes."""

    wanted: list[str] = field(default_factory=list)  # nodes that should have a pod
    nodes: dict[str, OnNode] = field(default_factory=dict)  # those of them that have one, in the order of names
    surplus: list[OwnedPod] = field(default_factory=list)  # where none should be, and second ones
    finished: list[OwnedPod] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)  # nodes that get a pod now
    waiting: int = 0  # nodes that get one when their last one has gone
    misplaced: int = 0  # nodes that have a pod and should not
    next_at: float | None = None  # when another pod becomes available


class DaemonSetController(WorkloadController[DaemonSet]):
    kind = DaemonSet

    def __init__(self, pods: OwnedPods, surroundings: Surroundings) -> None:
        super().__init__(pods, surroundings)
        self._revisions = Dependents(ControllerRevision, DaemonSet)
        self._known: dict[str, None] = {}  # keys of all DaemonSets
        self._nodes: dict[str, Node] = {}  # by name, as they were when what decides which pods fit changed last

    def changed(self, obj: DaemonSet, *, exists: bool) -> None:
        super().changed(obj, exists=exists)
        if exists:
            self._known[key(obj)] = None
        else:
            self._known.pop(key(obj), None)

    def revision_changed(self, revision: ControllerRevision, *, exists: bool) -> None:
        self._queue.add_all(self._revisions.update(revision, exists=exists))

    def node_changed(self, node: Node, *, exists: bool) -> None:
        known = self._nodes.get(node.metadata.name)
        if exists and known is not None and _facts(known) == _facts(node):
            return
        self._queue.add_all(self._known)
        if exists:
            self._nodes[node.metadata.name] = node
        else:
            self._nodes.pop(node.metadata.name, None)

    def _visit(self, owner: DaemonSet, objects: Objects, most: int, now: float) -> Iterable[Change]:
        if owner.metadata.deletion_timestamp is not None:
            return
        revisions = revisions_of(owner, list(self._revisions.of(owner, objects)), objects)
        if revisions.collisions is not None:
            yield Update(replace(owner, status=replace(owner.status, collision_count=revisions.collisions)))
            return
        yield from revisions.changes
        mark = revisions.present.removeprefix(f"{owner.metadata.name}-")
        found = self._find(owner, mark, now)
        gone, second = renewed(owner, found.nodes, len(found.empty) + found.waiting)
        self._queue.set_due(key(owner), found.next_at)
        names = PodNames(owner, self._pods_of(owner).pods.values(), objects, self._in)
        here = sorted([*found.empty, *second])[:most]
        revision = revisions.named(revisions.present)
        pods = [daemon_pod(owner, name, node, revision, mark) for node, name in zip(here, names.names(), strict=False)]
        yield from self._tell(owner, found, names, mark)
        reasons = (
            ("it has finished, and its DaemonSet makes it again", found.finished),
            ("its DaemonSet wants none there", found.surplus),
            ("its DaemonSet has a new template", gone),
        )
        leaving = [(why, pod) for why, several in reasons for pod in several]
        for why, pod in leaving[:most]:
            yield Delete(stand_in(pod), reason=why)
        for made in pods:
            yield Create(made, owner.spec.template)
        yield from _beyond(owner, revisions, self._pods_of(owner).pods.values())

    def _find(self, owner: DaemonSet, mark: str, now: float) -> _Found:
        found = _Found()
        by_node: dict[str, list[OwnedPod]] = {}
        for pod in self._pods_of(owner).pods.values():
            by_node.setdefault(pod.node, []).append(pod)
        for name, node in sorted(self._nodes.items()):
            here = by_node.pop(name, [])
            is_wanted, stays = fits(owner, node)
            if is_wanted:
                found.wanted.append(name)
            if not stays:
                found.misplaced += any(pod.is_active for pod in here)
                found.surplus += [pod for pod in here if pod.is_active]
                continue
            if not is_wanted:
                found.misplaced += any(pod.is_active for pod in here)
                continue  # it stays where it is, and a new one would not come
            self._sort(owner, here, name, mark, now, found)
        for name in sorted(by_node):  # nodes that are gone
            found.surplus += [pod for pod in by_node[name] if pod.is_active]
        return found

    def _sort(self, owner: DaemonSet, here: list[OwnedPod], node: str, mark: str, now: float, found: _Found) -> None:
        """The pods on one node that should have one."""
        is_left = any(pod.is_terminating for pod in here)
        kept = [pod for pod in here if pod.is_kept]
        if self._in.is_virtual:
            here = [pod for pod in here if pod.is_active or pod.is_kept]
        else:
            found.finished += kept
            here = [pod for pod in here if pod.is_active]
        here.sort(key=lambda pod: (pod.created, pod.key))
        new = [pod for pod in here if _is_new(pod, mark, is_virtual=self._in.is_virtual)]
        old = [pod for pod in here if pod not in new]
        found.surplus += [*new[1:], *old[1:]]
        if not new and not old:
            if is_left:
                found.waiting += 1
            else:
                found.empty.append(node)
            return
        found.nodes[node] = OnNode(
            new=new[0] if new else None,
            old=old[:1],
            new_counts=any(self._is_available(owner, one, now, found) for one in new[:1]),
            old_counts=any(self._is_available(owner, one, now, found) for one in old[:1]),
        )

    def _is_available(self, owner: DaemonSet, pod: OwnedPod, now: float, found: _Found) -> bool:
        """If it only has to be ready for longer, `found` says until when."""
        at = pod.ready_since + owner.spec.min_ready_seconds
        is_up = pod.is_ready or (self._in.is_virtual and pod.is_kept)
        if is_up and at > now:
            found.next_at = at if found.next_at is None else min(at, found.next_at)
        return is_up and at <= now

    def _tell(self, owner: DaemonSet, found: _Found, names: PodNames, mark: str) -> Iterable[Change]:
        wanted, nodes = len(found.wanted), found.nodes.values()
        ready = sum(any(pod.is_ready for pod in (one.new, *one.old) if pod is not None) for one in nodes)
        available = sum(one.new_counts or one.old_counts for one in nodes)
        status = replace(
            owner.status,
            current_number_scheduled=len(nodes),
            number_misscheduled=found.misplaced,
            desired_number_scheduled=wanted,
            number_ready=ready,
            observed_generation=owner.metadata.generation,
            updated_number_scheduled=sum(one.new is not None for one in nodes),
            number_available=available,
            number_unavailable=wanted - available,
        )
        annotations = names.annotations()
        if status != owner.status or annotations != owner.metadata.annotations:
            yield Update(replace(owner, metadata=replace(owner.metadata, annotations=annotations), status=status))


def _facts(node: Node) -> object:
    return node.metadata.uid, node.metadata.labels, node.spec.taints, node.spec.unschedulable


def _is_new(pod: OwnedPod, mark: str, *, is_virtual: bool) -> bool:
    """From the present template. A pod that a scenario has made says nothing, and is taken to be."""
    return pod.revision == mark or (is_virtual and not pod.revision)


def _beyond(owner: DaemonSet, revisions: Revisions, pods: Iterable[OwnedPod]) -> Iterable[Change]:
    live = {revisions.present, *(f"{owner.metadata.name}-{pod.revision}" for pod in pods)}
    return revisions.beyond(owner.spec.revision_history_limit, live)
