"""Which of the nodes that can run a pod is the best one.

Several scores, each 0 to 100 times its weight, are added up; a weight of 0 disables a score. Those that follow from
amounts (least used, most used, balanced) change with every placement, so the kernels compute them. The others are
vectors over nodes, computed once per kind of task. Most tasks need none of them.

Scores are normalised over all nodes, not only over those that passed the filters. The best node is the same, and the
vector need not be computed again whenever a node fills up.

The reserve action uses another order: the idle share of the node, in which devices count twice as much as CPU and
memory together, because large jobs mostly wait for devices.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from stromboli.cluster import CPU, MEMORY, PODS, Task
from stromboli.scheduling.callbacks import DependsOn, NodeScore, ResourceScore, Scope, Scores
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.plugins.node_filters.image_locality import ImageLocality
from stromboli.scheduling.plugins.node_filters.node_facts import NodeFacts
from stromboli.scheduling.plugins.node_filters.pod_affinity import PodAffinityScore
from stromboli.scheduling.plugins.node_filters.population import Population
from stromboli.scheduling.plugins.node_filters.topology_spread import SpreadScore
from stromboli.scheduling.session import Session


class Nodeorder(Plugin):
    name = "nodeorder"

    def __init__(self, arguments: Arguments) -> None:
        def weight(score: str, default: float) -> float:
            return arguments.number(f"{score}.weight", default, minimum=0)

        self._amounts = ResourceScore(
            least=weight("leastrequested", 1),
            most=weight("mostrequested", 0),
            balanced=weight("balancedresource", 1),
        )
        self._node_affinity = weight("nodeaffinity", 2)
        self._pod_affinity = weight("podaffinity", 2)
        self._taints = weight("tainttoleration", 3)
        self._images = weight("imagelocality", 1)
        self._spread = weight("podtopologyspread", 2)

    def open(self, session: Session) -> None:
        facts = NodeFacts(session.nodes.nodes)
        population = Population(session)
        session.add_resource_score(self._amounts)
        add_score = partial(session.add_score, depends_on=DependsOn.SHAPE, scope=Scope.STATIC)
        if self._node_affinity:
            add_score(lambda task: _node_affinity(facts, task, self._node_affinity))
        if self._taints:
            add_score(lambda task: _taints(facts, task, self._taints))
        if self._images:
            add_score(ImageLocality(session, weight=self._images).prepare)
        if self._pod_affinity:
            between = PodAffinityScore(session, facts, population, weight=self._pod_affinity)
            session.add_score(between.prepare, scope=Scope.CLUSTER, depends_on=between.key, keyed=between.has_key)
        if self._spread:
            spread = SpreadScore(facts, population, weight=self._spread)
            session.add_score(spread.prepare, scope=Scope.CLUSTER, depends_on=spread.key, keyed=spread.has_key)
        session.add_node_order_on_resource(lambda task: idle_share(session, task), depends_on=DependsOn.SHAPE)


def _node_affinity(facts: NodeFacts, task: Task, weight: float) -> NodeScore | None:
    """The node that matches most of the pod's preferences, by weight, gets 100."""
    satisfied = facts.preferred(task.shape.pod.spec)
    if satisfied is None or not satisfied.any():
        return None
    scores: Scores = satisfied * (100.0 * weight / satisfied.max())
    return scores.__getitem__


def _taints(facts: NodeFacts, task: Task, weight: float) -> NodeScore | None:
    """A node without PreferNoSchedule taints that the pod does not tolerate gets 100, the one with most of them 0."""
    counts = facts.discouraged(task.shape.pod.spec.tolerations)
    if counts is None:
        return None
    scores: Scores = (1.0 - counts / counts.max()) * (100.0 * weight)
    return scores.__getitem__


def idle_share(session: Session, task: Task) -> Scores:
    """By row: one third of the mean idle percentage of CPU and memory, plus two thirds of the mean over the other
    resources that the task requests and the node has."""
    nodes = session.nodes
    devices = np.zeros(len(nodes), dtype=np.float64)
    kinds = np.zeros(len(nodes), dtype=np.float64)
    for _, column in session.axis.by_name():
        if column not in (CPU, MEMORY, PODS) and task.request[column] > 0:
            has = nodes.allocatable[:, column] > 0
            devices += np.where(has, _idle_percentage(session, column), 0.0)
            kinds += has
    devices /= np.maximum(kinds, 1.0)
    basics = (_idle_percentage(session, CPU) + _idle_percentage(session, MEMORY)) / 2.0
    scores: Scores = (basics + 2.0 * devices) / 3.0
    return scores


def _idle_percentage(session: Session, column: int) -> Scores:
    allocatable = session.nodes.allocatable[:, column].astype(np.float64)
    used = session.nodes.used[:, column].astype(np.float64)
    share = np.divide(used, allocatable, out=np.ones_like(used), where=allocatable > 0)
    percentage: Scores = 100.0 * (1.0 - np.clip(share, 0.0, 1.0))
    return percentage
