"""Fill domains up before opening new ones, so that large domains stay whole for the groups that need them.

Without a tree of domains it does nothing. The score of a domain is how full it would be with the pods in it: the mean
over the resources that they request, by weight. For a group that must be close together, this chooses among domains of
one tier that have enough room. A pod of any other group gets the scores of all domains around a node, the tiers above
the lowest counting less and less; as of the beginning of the cycle, which ranks nodes and costs nothing more.

    weight: 10                                times 0..100; 0 disables the plugin
    hypernode.binpack.cpu: 5                  the weight of CPU; 1 by default, as for memory
    hypernode.binpack.resources: nvidia.com/gpu, foo      other resources that count
    hypernode.binpack.resources.nvidia.com/gpu: 2         and their weights
    hypernode.binpack.normal-pod.enable: true pods of other groups are packed, too
    hypernode.binpack.normal-pod.fading: 0.8  how much a tier counts of the one below it
    topologyKeys: [zone, rack]                labels that make domains, if there are no HyperNodes
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stromboli.cluster import Task, Vector
from stromboli.cluster.topology import Tree
from stromboli.scheduling.callbacks import DependsOn, NodeScore, Rows, Scope, Scores
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session


class NetworkTopologyAware(Plugin):
    name = "network-topology-aware"

    def __init__(self, arguments: Arguments) -> None:
        def weight(key: str, default: float = 1) -> float:
            stated = arguments.number(key, default)
            return stated if stated >= 0 else default  # as Volcano does, so that its files remain valid

        prefix = "hypernode.binpack"
        listed = arguments.text(f"{prefix}.resources", "").split(",")
        others = [name for name in dict.fromkeys(item.strip() for item in listed) if name]
        self._weight = weight("weight")
        self._weights = {"cpu": weight(f"{prefix}.cpu"), "memory": weight(f"{prefix}.memory")}
        self._weights |= {name: weight(f"{prefix}.resources.{name}") for name in others}
        self._packs_all = arguments.boolean(f"{prefix}.normal-pod.enable", True)
        self._fading = weight(f"{prefix}.normal-pod.fading", 0.8)
        arguments.texts("topologyKeys")  # the session reads it from the configuration

    def open(self, session: Session) -> None:
        tree = session.topology
        if not tree or not self._weight:
            return
        fullness = _Fullness(session, self._weights)
        session.points.domain_score.add(
            lambda tree, domains, tasks: self._weight * fullness.of(tree, domains, _whole(session, tasks))
        )
        if self._packs_all:
            session.add_score(
                lambda task: self._around(tree, fullness, task), depends_on=DependsOn.SHAPE, scope=Scope.STATIC
            )

    def _around(self, tree: Tree, fullness: _Fullness, task: Task) -> NodeScore:
        """By row: the fading mean of the domains that have the node."""
        total, weights = np.zeros(tree.size), np.zeros(tree.size)
        for step, tier in enumerate(tree.tiers):
            index, factor = tree.of_rows(tier), self._fading**step
            scores = fullness.of(tree, np.arange(len(tree.domains), dtype=np.int64), task.request)
            inside = index >= 0
            total[inside] += factor * scores[index[inside]]
            weights[inside] += factor
        scores = self._weight * np.divide(total, weights, out=np.zeros(tree.size), where=weights > 0)
        return scores.__getitem__


class _Fullness:
    """How full domains would be, as of the first question in a session."""

    def __init__(self, session: Session, weights: dict[str, float]) -> None:
        self._session = session
        axis = session.axis
        self._weights = {axis.index[name]: weight for name, weight in weights.items() if name in axis.index and weight}
        self._offered: dict[tuple[Tree, int], Rows] = {}  # by column, what each domain has; nodes are what they are

    def of(self, tree: Tree, domains: Rows, request: Vector) -> Scores:
        """0 to 100, for domains by their indices; more where more is requested than there is: of domains that have no
        room for all, too, the fuller one is filled."""
        total = np.zeros(len(domains), dtype=np.float64)
        columns = [column for column in self._weights if request[column] > 0]
        for column in columns:
            used, offered = self._used(tree, domains, column), self._offers(tree, column)[domains]
            part = np.divide(used + request[column], offered, out=np.zeros(len(domains)), where=offered > 0)
            total += 100.0 * self._weights[column] * part
        weight = sum(self._weights[column] for column in columns)
        return total / weight if weight else total

    def _used(self, tree: Tree, domains: Rows, column: int) -> Rows:
        return _sums(tree, tree.tiers_of(domains), self._session.nodes.used[:, column])[domains]

    def _offers(self, tree: Tree, column: int) -> Rows:
        known = self._offered.get((tree, column))
        if known is None:
            offered = self._session.nodes.allocatable[:, column]
            known = self._offered[tree, column] = _sums(tree, tree.tiers, offered)
        return known


def _sums(tree: Tree, tiers: Sequence[int], by_row: Rows) -> Rows:
    """By the index of a domain of these tiers."""
    sums = np.zeros(len(tree.domains), dtype=np.int64)
    for tier in tiers:
        sums += tree.sums(tier, by_row)
    return sums


def _whole(session: Session, tasks: Sequence[tuple[Task, int]]) -> Vector:
    whole: Vector = sum((first.request * number for first, number in tasks), session.axis.zeros())
    return whole
