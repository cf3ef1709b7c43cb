"""Affinity and anti-affinity between pods.

The rules for placing a pod on a node:

- every required affinity term of the pod needs a pod that it selects in the node's domain. The first pod of its kind
  would wait forever, so a term that selects no pod in the cluster, but does select the pod itself, is met everywhere;
- no required anti-affinity term of the pod may select a pod in the node's domain;
- no pod in the node's domain may have a required anti-affinity term that selects this pod.

A domain is all nodes with the same value of the term's topology key. A node without that label is in no domain, so
affinity is never met there and anti-affinity always is. Each term is evaluated on its own: two affinity terms may be
met by two pods.

Preferences work the same way in both directions: each pod that a term selects adds the term's weight to its domain
(anti-affinity subtracts it), and so does each pod in the domain with a term that selects this pod.
"""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Task
from stromboli.scheduling.callbacks import NodeFilter, NodeScore, ReasonIds, Scores
from stromboli.scheduling.explanation.node_reasons import EXCLUDED_BY_PODS, NEAR_EXCLUDED_PODS, NO_POD_TO_BE_NEAR
from stromboli.scheduling.session import Session

from .node_facts import LabelColumn, NodeFacts
from .pod_terms import PodTerms
from .population import Population, Tally


class PodAffinityFilter:
    """Required terms, in both directions."""

    def __init__(self, session: Session, facts: NodeFacts, population: Population) -> None:
        self._facts = facts
        self._terms = PodTerms(
            session,
            population,
            own=lambda says: says.required,
            of_others=lambda says: says.required and says.weight < 0,
        )
        self.key = self._terms.key
        self.has_key = self._terms.matter_for
        self._lonely = session.reason_id(NO_POD_TO_BE_NEAR)
        self._disliked = session.reason_id(NEAR_EXCLUDED_PODS)
        self._unwelcome = session.reason_id(EXCLUDED_BY_PODS)

    def prepare(self, task: Task) -> NodeFilter | None:
        terms = self._terms
        bearing = terms.bearing(task)
        if bearing.key is None:
            return None
        wanted: list[tuple[Tally, LabelColumn, bool]] = []
        unwanted: list[tuple[Tally, LabelColumn, int]] = []
        for bound, itself in zip(bearing.own, bearing.selects_itself, strict=True):
            column = self._facts.column(bound.topology)
            if bound.says.weight > 0:
                wanted.append((terms.meant(bound), column, itself))
            else:
                unwanted.append((terms.meant(bound), column, self._disliked))
        for bound in bearing.about:
            column = self._facts.column(bound.topology)
            unwanted.append((terms.carrying(bound), column, self._unwelcome))
        tallies = [tally for tally, _, _ in (*wanted, *unwanted)]

        def everywhere() -> ReasonIds:
            answers = np.zeros(len(self._facts), dtype=np.int32)
            for tally, column, reason in reversed(unwanted):
                answers[(tally.by_domain(column) > 0)[column.codes]] = reason
            for tally, column, itself in wanted:
                # Pods that the affinity is for may be there when the pod starts, even if they end some day.
                met = tally.by_domain(column, with_ending=True) > 0
                if itself and not met.any():
                    met[1:] = True
                answers[~met[column.codes]] = self._lonely
            return answers

        return terms.population.following(tallies, everywhere)


class PodAffinityScore:
    """Preferred terms, in both directions: 0 for the worst node, 100 for the best."""

    def __init__(self, session: Session, facts: NodeFacts, population: Population, *, weight: float) -> None:
        self._facts = facts
        self._weight = weight
        self._terms = PodTerms(
            session,
            population,
            own=lambda says: not says.required,
            of_others=lambda says: not says.required or says.weight > 0,
        )
        self.key = self._terms.key
        self.has_key = self._terms.matter_for

    def prepare(self, task: Task) -> NodeScore | None:
        terms = self._terms
        bearing = terms.bearing(task)
        if bearing.key is None:
            return None
        pulls = [(terms.meant(b), self._facts.column(b.topology), b.says.weight) for b in bearing.own]
        pulls += [(terms.carrying(b), self._facts.column(b.topology), b.says.weight) for b in bearing.about]

        def everywhere() -> Scores:
            raw = np.zeros(len(self._facts), dtype=np.float64)
            for tally, column, weight in pulls:
                raw += weight * tally.by_domain(column)[column.codes]
            low, high = (raw.min(), raw.max()) if len(raw) else (0.0, 0.0)
            if low == high:
                return np.zeros_like(raw)
            scores: Scores = (raw - low) * (100.0 * self._weight / (high - low))
            return scores

        return terms.population.following([tally for tally, _, _ in pulls], everywhere)
