"""Inter-pod affinity terms, together with the pod that has them.

What a term in a pod's spec selects depends on that pod: it may say "in my namespace" and "with my value of this label".
`BoundTerm` is a term with these facts of its pod. Bound terms are interned: the thousand pods of a gang, which differ
in name and index only, share one, and it is counted once.

Terms of both directions matter: those of the pod, and those of other pods that select it. The latter are found by their
reach. Trying all terms of a cluster for each pending task would take too long.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

import msgspec

from stromboli.api import Pod, PodAffinityTerm
from stromboli.api.selectors import affinity_term_selects
from stromboli.cluster import Shape, Task, TaskKey
from stromboli.scheduling.session import Session

from .population import Population, Tally
from .reach import ByReach, Reach, clue_of

NAMESPACE_NAME = "kubernetes.io/metadata.name"
"""The label that every namespace has by default."""

REQUIRED_WEIGHT = 1
"""The weight, as a preference, of another pod's required affinity for this pod."""

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True, slots=True)
class PodTerm:
    """A term of a spec. The weight is negative for anti-affinity."""

    term: PodAffinityTerm
    required: bool
    weight: int
    code: bytes  # equal for equal terms


@dataclass(frozen=True, slots=True, eq=False)
class BoundTerm:
    """A term and the facts of its pod that it refers to. Equal ones are the same object."""

    mark: int
    says: PodTerm
    namespace: str
    labels: Mapping[str, str]  # those of its pod that the term refers to
    reach: Reach

    @property
    def topology(self) -> str:
        return self.says.term.topology_key


@dataclass(frozen=True, slots=True)
class Bearing:
    """The terms that decide where a task can run: its own, and those of other pods that select it."""

    own: tuple[BoundTerm, ...] = ()
    selects_itself: tuple[bool, ...] = ()  # for each of its own: does it select the task itself?
    about: tuple[BoundTerm, ...] = ()
    key: Hashable = field(default=None, compare=False)


NO_BEARING = Bearing()


class PodTerms:
    """The terms of all tasks of a session, and the tasks that they select."""

    def __init__(
        self,
        session: Session,
        population: Population,
        *,
        own: Callable[[PodTerm], bool],
        of_others: Callable[[PodTerm], bool],
    ) -> None:
        """`own` and `of_others`: which terms of a task, and which of other pods, the caller needs."""
        self._session = session
        self._own = own
        self._of_others = of_others
        self._of_shape: dict[int, tuple[PodTerm, ...]] = {}
        self._bound: dict[Hashable, BoundTerm] = {}
        self._bearings: dict[TaskKey, Bearing] = {}
        self._by_reach: ByReach[BoundTerm] | None = None  # those of other pods
        self.population = population
        population.mark_by(self._marks)

    def matter_for(self, shape: Shape) -> bool:
        """Whether terms can apply to tasks of this shape. Most clusters have no such terms at all."""
        if self._by_reach is None:
            self._by_reach = self._collect()
        return bool(shape.has_pod_terms or self._by_reach)

    def bearing(self, task: Task) -> Bearing:
        if not self.matter_for(task.shape):
            return NO_BEARING
        known = self._bearings.get(task.key)
        if known is None:
            known = self._bearings[task.key] = self._find_bearing(task)
        return known

    def key(self, task: Task) -> Hashable:
        """What decides, besides the shape, which terms apply to a task; None if none do."""
        return self.bearing(task).key

    def meant(self, bound: BoundTerm) -> Tally:
        """Counts the tasks that a term selects."""
        return self.population.tally(bound.mark, lambda task: self._selects(bound, task), bound.reach)

    def carrying(self, bound: BoundTerm) -> Tally:
        """Counts the tasks that have a term."""
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
        assert self._by_reach is not None
        chosen = [bound for bound in self._by_reach.about(task) if self._selects(bound, task)]
        return sorted(chosen, key=lambda bound: bound.mark)

    def _collect(self) -> ByReach[BoundTerm]:
        """All terms of pods on nodes and of pods that may be placed in this session."""
        by_reach = ByReach[BoundTerm]()
        if not self._session.snapshot.has_pod_terms:
            return by_reach
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
            by_reach.add(bound, bound.reach)
        return by_reach

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
            bound = BoundTerm(len(self._bound) + 1, says, task.namespace, referred, _reach(term, task.namespace))
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


def _reach(term: PodAffinityTerm, own_namespace: str) -> Reach:
    clue = clue_of(term.label_selector)
    if term.namespace_selector is not None:
        return Reach(None, clue)
    return Reach(tuple(term.namespaces) or (own_namespace,), clue)


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
