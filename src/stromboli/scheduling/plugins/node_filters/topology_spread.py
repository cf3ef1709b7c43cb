"""Topology spread: pods are spread evenly over zones, racks or nodes.

A constraint counts the pods that its selector matches in each domain of its topology key. It limits how many more a
domain may have than the emptiest one (`maxSkew`), including the new pod if the selector matches it. Which nodes form
domains, and which pods are counted:

- only nodes that have the topology keys of *all* constraints of the pod (that are enforced in the same way);
- with `nodeAffinityPolicy: Honor` (the default) only nodes that match the pod's selector and affinity; with
  `nodeTaintsPolicy: Honor` only nodes whose taints it tolerates. With `Ignore` the others count, too;
- only pods of the same namespace that are not terminating: otherwise a rolling update would spread around pods that
  are about to be deleted.

With fewer domains than `minDomains` the minimum is 0, so pods wait for new domains instead of filling the existing
ones. `matchLabelKeys` restricts the selector to pods with the same values as this one.

DoNotSchedule is a filter, ScheduleAnyway is a score that prefers domains with few pods. There, counts are weighted by
the logarithm of the number of domains, as in kube-scheduler: otherwise a thousand hosts would outweigh three zones.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass

import msgspec
import numpy as np

from stromboli.api import TopologySpreadConstraint
from stromboli.api.selectors import spread_constraint_selects
from stromboli.cluster import Shape, Task
from stromboli.scheduling.callbacks import NodeFilter, NodeScore, ReasonIds, Scores
from stromboli.scheduling.explanation.node_reasons import NO_TOPOLOGY_LABEL, TOO_UNEVEN
from stromboli.scheduling.session import Session

from .node_facts import LabelColumn, Mask, NodeFacts
from .population import Counts, Population, Tally
from .reach import Reach, clue_of

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class _Spread:
    """One constraint of one kind of task, with its tally."""

    constraint: TopologySpreadConstraint
    column: LabelColumn
    among: Mask  # nodes that form domains
    domains: Mask  # by code: whether it is a domain
    tally: Tally
    means_itself: bool

    def counts(self) -> Counts:
        return self.tally.by_domain(self.column, self.among)


class TopologySpread:
    """The constraints with one value of `whenUnsatisfiable`."""

    def __init__(self, facts: NodeFacts, population: Population, *, when_unsatisfiable: str) -> None:
        self._facts = facts
        self._population = population
        self._when = when_unsatisfiable

    def constraints(self, task: Task) -> list[TopologySpreadConstraint]:
        constraints = task.shape.pod.spec.topology_spread_constraints
        return [c for c in constraints if c.when_unsatisfiable == self._when]

    def has_key(self, shape: Shape) -> bool:
        return shape.has_pod_terms

    def key(self, task: Task) -> Hashable:
        """What the answer depends on besides the shape; None for tasks without constraints."""
        if not task.shape.has_pod_terms:
            return None
        parts = tuple((_means(c, task, task), _narrowing(c, task)) for c in self.constraints(task))
        return (task.namespace, parts) if parts else None

    def _spreads(self, task: Task) -> tuple[list[_Spread], Mask]:
        """The task's constraints, and which nodes have all their topology keys."""
        facts = self._facts
        constraints = self.constraints(task)
        columns = [facts.column(constraint.topology_key) for constraint in constraints]
        labelled = np.ones(len(facts), dtype=np.bool_)
        for column in columns:
            labelled &= column.codes > 0
        spreads: list[_Spread] = []
        spec = task.shape.pod.spec
        for constraint, column in zip(constraints, columns, strict=True):
            among = labelled.copy()
            if constraint.node_affinity_policy != "Ignore":
                required = facts.required(spec)
                if required is not None:
                    among &= required
            if constraint.node_taints_policy == "Honor":
                among &= facts.welcoming(spec.tolerations)
            domains = np.zeros(column.width, dtype=np.bool_)
            domains[column.codes[among]] = True
            tally = self._tally(constraint, task)
            spreads.append(_Spread(constraint, column, among, domains, tally, _means(constraint, task, task)))
        return spreads, labelled

    def _tally(self, constraint: TopologySpreadConstraint, task: Task) -> Tally:
        selector = constraint.label_selector
        return self._population.tally(
            (task.namespace, _encode(selector), _narrowing(constraint, task)),
            lambda other: other.namespace == task.namespace and _means(constraint, task, other),
            Reach((task.namespace,), clue_of(selector)),
            with_leaving=False,
        )


class SpreadFilter(TopologySpread):
    """DoNotSchedule: no domain exceeds the emptiest one by more than `maxSkew`."""

    def __init__(self, session: Session, facts: NodeFacts, population: Population) -> None:
        super().__init__(facts, population, when_unsatisfiable="DoNotSchedule")
        self._missing = session.reason_id(NO_TOPOLOGY_LABEL)
        self._uneven = session.reason_id(TOO_UNEVEN)

    def prepare(self, task: Task) -> NodeFilter | None:
        if not self.constraints(task):
            return None
        spreads, labelled = self._spreads(task)

        def everywhere() -> ReasonIds:
            answers = np.zeros(len(labelled), dtype=np.int32)
            for spread in spreads:
                counts = spread.counts()
                skew = counts + spread.means_itself - _emptiest(spread, counts)
                answers[(skew > spread.constraint.max_skew)[spread.column.codes]] = self._uneven
            answers[~labelled] = self._missing
            return answers

        return self._population.following([spread.tally for spread in spreads], everywhere)


class SpreadScore(TopologySpread):
    """ScheduleAnyway: the emptier the domains of a node, the better; 0 to 100."""

    def __init__(self, facts: NodeFacts, population: Population, *, weight: float) -> None:
        super().__init__(facts, population, when_unsatisfiable="ScheduleAnyway")
        self._weight = weight

    def prepare(self, task: Task) -> NodeScore | None:
        if not self.constraints(task):
            return None
        spreads, labelled = self._spreads(task)
        if not labelled.any():
            return None
        weights = [math.log(np.count_nonzero(spread.domains) + 2) for spread in spreads]

        def everywhere() -> Scores:
            crowd = np.zeros(len(labelled), dtype=np.float64)
            for spread, weight in zip(spreads, weights, strict=True):
                counts = spread.counts()
                crowd += counts[spread.column.codes] * weight + (spread.constraint.max_skew - 1)
            low, high = crowd[labelled].min(), crowd[labelled].max()
            if high == 0:
                scores = np.full(len(labelled), 100.0)
            else:
                scores = 100.0 * (high + low - crowd) / high
            scores[~labelled] = 0.0
            weighted: Scores = scores * self._weight
            return weighted

        return self._population.following([spread.tally for spread in spreads], everywhere)


def _emptiest(spread: _Spread, counts: Counts) -> float:
    """The number of pods in the emptiest domain."""
    if np.count_nonzero(spread.domains) < (spread.constraint.min_domains or 1):
        return 0.0
    return float(counts[spread.domains].min())


def _means(constraint: TopologySpreadConstraint, task: Task, other: Task) -> bool:
    return spread_constraint_selects(constraint, own_labels=task.pod.metadata.labels, labels=other.pod.metadata.labels)


def _narrowing(constraint: TopologySpreadConstraint, task: Task) -> tuple[tuple[str, str], ...]:
    """The task's labels that `matchLabelKeys` refers to."""
    labels = task.pod.metadata.labels
    return tuple((label, labels[label]) for label in constraint.match_label_keys if label in labels)
