"""Which nodes can run a pod, by the rules of Kubernetes.

The core checks resources, and whether a node is ready. This plugin checks the rest: cordons, node selectors and
affinity, taints, host ports, affinity between pods, topology spread, and volumes. A filter that does not apply to a
task returns None once and is not called again; for most pods of a batch cluster none applies. What depends on nodes
alone is computed once per session.

Each reason says whether evictions could help ("resolvable"): a port or a neighbour is gone with its pod, a taint or a
label is not.

The filters for volumes are registered only if some pod has claims: a cluster without claims pays nothing for them.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from stromboli.api.selectors import KEEPS_AWAY
from stromboli.cluster import Task
from stromboli.scheduling.callbacks import DependsOn, NodeFilter, ReasonIds, Scope
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation.node_reasons import CORDONED, NOT_SELECTED, tainted
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.plugins.node_filters.attach_limits import AttachLimitsFilter, ClaimInUseFilter
from stromboli.scheduling.plugins.node_filters.host_ports import HostPortsFilter
from stromboli.scheduling.plugins.node_filters.node_facts import NodeFacts
from stromboli.scheduling.plugins.node_filters.pod_affinity import PodAffinityFilter
from stromboli.scheduling.plugins.node_filters.population import Population
from stromboli.scheduling.plugins.node_filters.topology_spread import SpreadFilter
from stromboli.scheduling.plugins.node_filters.volume_filters import VolumeFilters
from stromboli.scheduling.session import Session
from stromboli.scheduling.volumes import VolumeChoices, read_volume_rules


class Predicates(Plugin):
    name = "predicates"

    def __init__(self, arguments: Arguments) -> None:
        self._node_affinity = arguments.boolean("predicate.NodeAffinityEnable", True)
        self._node_ports = arguments.boolean("predicate.NodePortsEnable", True)
        self._taints = arguments.boolean("predicate.TaintTolerationEnable", True)
        self._pod_affinity = arguments.boolean("predicate.PodAffinityEnable", True)
        self._spread = arguments.boolean("predicate.PodTopologySpreadEnable", True)
        self._volumes = read_volume_rules(arguments)

    def open(self, session: Session) -> None:
        facts = NodeFacts(session.nodes.nodes)
        population = Population(session)
        own = _NodeRules(session, facts)
        add_filter = partial(session.add_filter, depends_on=DependsOn.SHAPE, scope=Scope.STATIC)
        add_filter(own.cordons)
        if self._node_affinity:
            add_filter(own.affinity)
        if self._node_ports:
            session.add_filter(HostPortsFilter(session).prepare, depends_on=DependsOn.SHAPE, scope=Scope.NODE)
        if self._taints:
            add_filter(own.taints)
        if self._pod_affinity:
            between = PodAffinityFilter(session, facts, population)
            session.add_filter(between.prepare, scope=Scope.CLUSTER, depends_on=between.key, keyed=between.has_key)
        if self._spread:
            spread = SpreadFilter(session, facts, population)
            session.add_filter(spread.prepare, scope=Scope.CLUSTER, depends_on=spread.key, keyed=spread.has_key)
        if session.snapshot.volumes.matters:
            self._open_volumes(session, facts)

    def _open_volumes(self, session: Session, facts: NodeFacts) -> None:
        filters = VolumeFilters(session, facts, self._volumes)
        session.add_pre_filter(filters.refusal)
        session.add_filter(filters.constant, depends_on=filters.key, scope=Scope.STATIC, keys=filters.keys)
        if self._volumes.binding:
            choices = session.state(VolumeChoices)
            if choices.matter:
                session.add_filter(filters.changing, depends_on=filters.key, scope=Scope.CLUSTER, keys=filters.keys)
                session.add_handlers(allocate=choices.allocate, deallocate=choices.deallocate)
                session.points.outlook.add(choices.note)
            in_use = ClaimInUseFilter(session)
            session.add_filter(in_use.prepare, depends_on=filters.key, scope=Scope.CLUSTER, keys=filters.keys)
            session.points.close.add(in_use.explain)
        if self._volumes.limits and session.snapshot.volumes.csi_nodes:
            limits = AttachLimitsFilter(session)
            session.add_filter(
                limits.prepare, depends_on=filters.key, scope=Scope.NODE, keys=filters.keys, remaining=limits.remaining
            )


class _NodeRules:
    """Filters that need only the node and the pod's spec."""

    def __init__(self, session: Session, facts: NodeFacts) -> None:
        self._session = session
        self._facts = facts

    def cordons(self, task: Task) -> NodeFilter | None:
        rows = self._facts.cordoned_for(task.shape.pod.spec.tolerations)
        if not len(rows):
            return None
        answers = self._nothing()
        answers[rows] = self._session.reason_id(CORDONED)
        return answers.__getitem__

    def affinity(self, task: Task) -> NodeFilter | None:
        required = self._facts.required(task.shape.pod.spec)
        if required is None:
            return None
        answers = self._nothing()
        answers[~required] = self._session.reason_id(NOT_SELECTED)
        return answers.__getitem__

    def taints(self, task: Task) -> NodeFilter | None:
        answers = self._nothing()
        for taint, rows in self._facts.repelled_by(task.shape.pod.spec.tolerations, KEEPS_AWAY):
            answers[rows] = self._session.reason_id(tainted(taint.key))
        return answers.__getitem__ if answers.any() else None

    def _nothing(self) -> ReasonIds:
        return np.zeros(len(self._facts), dtype=np.int32)
