"""Inter-pod affinity terms, as somebody carries them.

A term in a pod's spec is not yet a statement about other pods: it may mean "in my namespace" and "with the same value
of this label as mine". `BoundTerm` is a term together with those facts of its carrier. Bound terms are interned, so
the thousand pods of a gang, which differ in name and index only, carry one and the same, and it is counted once.

Terms of both directions matter. A pod looks at its neighbours by its own terms, and its neighbours' terms look at it:
those "about" a task are found by a label their selector insists on, because trying all terms of a cluster against all
of its pending tasks would be a product of two large numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import msgspec

from stromboli.api import Pod, PodAffinityTerm
from stromboli.api.selectors import affinity_term_selects
from stromboli.cluster import Task, TaskKey
from stromboli.scheduling.session import Session

from .population import Clue, Population, Tally, clue_of

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label every namespace has by itself."""

REQUIRED_WEIGHT = 1
"""What a neighbour's required affinity is worth, as a preference, to the pod it asks for."""

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term as the spec says it. The weight is negative for anti-affinity."""

    term: PodAffinityTerm
    required: bool
    weight: int
    code: bytes  # equal codes, equal terms


@dataclass(frozen=True, slots=True, eq=False)
class BoundTerm:
    """A term and the facts of its carrier that it refers to; equal ones are one object."""

    mark: int
    says: PodTerm
    namespace: str
    labels: Mapping[str, str]  # the carrier's, as far as the term refers to them
    clue: Clue | None

    @property
    def topology(self) -> str:
        return self.says.term.topology_key


@dataclass(frozen=True, slots=True)
class Bearing:
    """Which terms decide where a task may go: its own, and those of others about it."""

    own: tuple[BoundTerm, ...] = ()
    selects_itself: tuple[bool, ...] = ()  # for each of its own: would another pod like it be meant?
    about: tuple[BoundTerm, ...] = ()
    key: Hashable = field(default=None, compare=False)


NO_BEARING = Bearing()


class PodTerms:
    """The terms of all tasks of a session, and whom they mean."""

    def __init__(
        self,
        session: Session,
        population: Population,
        *,
        own: Callable[[PodTerm], bool],
        of_others: Callable[[PodTerm], bool],
    ) -> None:
        """`own` and `of_others`: which terms of a task, and which of its neighbours, the asker cares for."""
        self._session = session
        self._own = own
        self._of_others = of_others
        self._of_shape: dict[int, tuple[PodTerm, ...]] = {}
        self._bound: dict[Hashable, BoundTerm] = {}
        self._bearings: dict[TaskKey, Bearing] = {}
        self._by_clue: dict[tuple[str, str], list[BoundTerm]] | None = None
        self._without_clue: list[BoundTerm] = []
        self.population = population
        population.mark_by(self._marks)

    def bearing(self, task: Task) -> Bearing:
        known = self._bearings.get(task.key)
        if known is None:
            known = self._bearings[task.key] = self._find_bearing(task)
        return known

    def key(self, task: Task) -> Hashable:
        """What, beside its shape, decides which terms bear on a task; None if none do."""
        return self.bearing(task).key

    def meant(self, bound: BoundTerm) -> Tally:
        """Counts the tasks a term means."""
        return self.population.tally(bound.mark, lambda task: self._selects(bound, task), clue=bound.clue)

    def carrying(self, bound: BoundTerm) -> Tally:
        """Counts the tasks that carry a term."""
        return self.population.carrying(bound.mark)

    # -- finding terms ------------------------------------------------------------------------------------------

    def _find_bearing(self, task: Task) -> Bearing:
        own = tuple(self._bind(task, says) for says in self._terms(task) if self._own(says))
        about = tuple(self._about(task))
        if not own and not about:
            return NO_BEARING
        itself = tuple(self._selects(bound, task) for bound in own)
        key = (tuple(b.mark for b in own), itself, tuple(b.mark for b in about))
        return Bearing(own, itself, about, key)

    def _about(self, task: Task) -> list[BoundTerm]:
        if self._by_clue is None:
            self._by_clue = {}
            self._collect(self._by_clue)
        candidates = list(self._without_clue)
        if self._by_clue:
            for pair in task.pod.metadata.labels.items():
                candidates.extend(self._by_clue.get(pair, ()))
        chosen = {bound.mark: bound for bound in candidates if self._selects(bound, task)}
        return [chosen[mark] for mark in sorted(chosen)]

    def _collect(self, by_clue: dict[tuple[str, str], list[BoundTerm]]) -> None:
        """All terms carried by anybody: pods on nodes, and those that may be placed in this session."""
        found: dict[int, BoundTerm] = {}
        places = (*(node.tasks for node in self._session.nodes.nodes), *(job.tasks for job in self._session.jobs))
        for tasks in places:
            for task in tasks.values():
                if task.shape.has_pod_terms:
                    for says in self._terms(task):
                        if self._of_others(says):
                            bound = self._bind(task, says)
                            found[bound.mark] = bound
        for bound in found.values():
            if bound.clue is None:
                self._without_clue.append(bound)
            else:
                label, values = bound.clue
                for value in dict.fromkeys(values):
                    by_clue.setdefault((label, value), []).append(bound)

    def _marks(self, task: Task) -> list[Hashable]:
        return [self._bind(task, says).mark for says in self._terms(task) if self._of_others(says)]

    def _terms(self, task: Task) -> tuple[PodTerm, ...]:
        shape = task.shape
        if not shape.has_pod_terms:
            return ()
        known = self._of_shape.get(shape.id)
        if known is None:
            known = self._of_shape[shape.id] = _terms_of(shape.pod)
        return known

    def _bind(self, task: Task, says: PodTerm) -> BoundTerm:
        term = says.term
        own = task.pod.metadata.labels
        referred = {label: own[label] for label in (*term.match_label_keys, *term.mismatch_label_keys) if label in own}
        identity = (says.code, task.namespace, tuple(referred.items()))
        bound = self._bound.get(identity)
        if bound is None:
            bound = BoundTerm(len(self._bound) + 1, says, task.namespace, referred, clue_of(term.label_selector))
            self._bound[identity] = bound
        return bound

    def _selects(self, bound: BoundTerm, task: Task) -> bool:
        namespace = self._session.namespaces.get(task.namespace)
        return affinity_term_selects(
            bound.says.term,
            own_namespace=bound.namespace,
            own_labels=bound.labels,
            namespace=task.namespace,
            labels=task.pod.metadata.labels,
            namespace_labels={NAMESPACE_NAME: task.namespace, **(namespace.labels if namespace else {})},
        )


def _terms_of(pod: Pod) -> tuple[PodTerm, ...]:
    affinity = pod.spec.affinity
    if affinity is None:
        return ()
    found: list[PodTerm] = []

    def add(term: PodAffinityTerm, required: bool, weight: int) -> None:
        if required or weight:
            found.append(PodTerm(term, required, weight, _encode((required, weight, term))))

    for side, sign in ((affinity.pod_affinity, +1), (affinity.pod_anti_affinity, -1)):
        if side is not None:
            for term in side.required_during_scheduling_ignored_during_execution:
                add(term, True, sign * REQUIRED_WEIGHT)
            for preferred in side.preferred_during_scheduling_ignored_during_execution:
                add(preferred.pod_affinity_term, False, sign * preferred.weight)
    return tuple(found)
