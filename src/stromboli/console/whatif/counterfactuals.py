"""What would start a waiting job: changes that were tried, and started it.

Reasons suggest which changes to try: a selector is worth trying if nodes do not match it. Each is tried on a copy, and
only those that started the job are reported. So nothing here is a guess, and nothing is complete, either: there may be
other ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from stromboli.api import KObject, Node, Pod, PodSpec, group_name_of, key
from stromboli.api.quantity import amount
from stromboli.cluster.object_fields import ends_by_itself
from stromboli.insight import JobExplanation, JobPicture, Picture, State
from stromboli.scheduling.configuration import Configuration
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.registry import Registry
from stromboli.simulation.rehearsal import Outcome, Rehearsal

from .possible_changes import (
    Capability,
    Change,
    Ended,
    Minimum,
    OtherQueue,
    QueueOpened,
    SmallerRequest,
    Uncordoned,
    WithoutGates,
    WithoutNodeAffinity,
    WithoutSelector,
    WithToleration,
)
from .target import Target, target_of

NOW_SECONDS: Final = 5.0
"""A job that starts within so many cycles, one for each second, starts now: it has to be admitted, its pods have to be
created, and others may have to be evicted."""
FAR_SECONDS: Final = 7 * 86_400.0
MOST_TRIALS: Final = 40
LEAST_TRIALS: Final = 8
_OBJECTS_IN_ALL_TRIALS: Final = 150_000
"""A trial loads all objects, about five thousand in a second. So the larger the cluster, the fewer trials."""
_MOST_OF_A_KIND: Final = 4
_MOST_ENDING: Final = 8
_OF_QUEUES: Final = frozenset({
    Code.QUEUE_CLOSED, Code.QUEUE_OVER_QUOTA, Code.QUEUE_OVER_DESERVED, Code.QUEUE_NOT_LEAF, Code.NO_QUEUE,
    Code.QUEUE_FIRST_IN_LINE, Code.NODE_LOCKED_BY_QUEUE, Code.NAMESPACE_SHARE_AHEAD,
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """A change that starts the job. `evicts`: pods that have to leave for it."""

    sentence: str
    change: Change
    evicts: list[str] = field(default_factory=list)
    at: float | None = None  # when it is expected to happen by itself

    @property
    def is_an_end(self) -> bool:
        """It happens by itself once other jobs end."""
        return isinstance(self.change, Ended)


@dataclass(frozen=True, slots=True)
class Prospects:
    starts_now: bool  # without any change
    expected_start: float | None  # if everything runs as long as it says
    after: list[str]  # jobs whose ends start it then
    without_end: int  # running jobs that do not say how long they run
    counterfactuals: list[Counterfactual]


@dataclass(frozen=True, slots=True)
class Progress:
    """Of trials that are still made."""

    trying: str  # what is tried now
    tried: int  # before it
    most: int  # trials altogether
    found: Sequence[Counterfactual]  # so far


Tell = Callable[[Progress], None]
"""Called before each trial. It may raise an error to end them."""


def most_trials(objects: int, budget: int = _OBJECTS_IN_ALL_TRIALS) -> int:
    """`budget`: how many objects all trials together may load."""
    return max(LEAST_TRIALS, min(MOST_TRIALS, budget // max(1, objects)))


class Trials:
    """Tries changes on copies of one state."""

    def __init__(
        self,
        state: State,
        target: Target,
        registry: Registry,
        configuration: Configuration,
        budget: int,
        tell: Tell = lambda progress: None,
    ) -> None:
        self.found: list[Counterfactual] = []
        self._state = state
        self._target = target
        self._registry = registry
        self._configuration = configuration
        self._most = self._left = most_trials(len(state.objects), budget)
        self._tell = tell

    def rehearsal(self, objects: Iterable[KObject], submitted: Sequence[KObject] = ()) -> Rehearsal:
        state = self._state
        return Rehearsal(
            objects, state.now, self._registry, self._configuration,
            scheduler_name=state.scheduler_name, submitted=submitted,
        )  # fmt: skip

    def _trying(self, what: str) -> None:
        self._tell(Progress(what, self._most - self._left, self._most, tuple(self.found)))

    def as_it_is(self, seconds: float) -> tuple[Outcome, Rehearsal]:
        what = "as it is"
        self._trying(what)
        rehearsal = self.rehearsal(self._state.objects)
        return rehearsal.run(self._target.name, seconds=seconds, on_cycle=lambda: self._trying(what)), rehearsal

    def starts(self, change: Change) -> Outcome | None:
        """The outcome if the job starts now with this change."""
        if self._left == 0:
            return None
        self._trying(change.phrase)
        self._left -= 1
        outcome = self.rehearsal(*change.apply(self._state.objects, self._target)).run(
            self._target.name, seconds=NOW_SECONDS
        )
        return outcome if outcome.started is not None else None


def prospects(
    state: State,
    picture: Picture,
    explanation: JobExplanation,
    registry: Registry,
    configuration: Configuration,
    *,
    budget: int = _OBJECTS_IN_ALL_TRIALS,
    tell: Tell = lambda progress: None,
) -> Prospects:
    """The forecast may take long, so what can be answered without it comes first."""
    target = target_of(state.objects, explanation.job)
    trials = Trials(state, target, registry, configuration, budget, tell)
    without_end = sum(job.pods.running > 0 and job.ends is None for job in picture.jobs)
    outcome, _ = trials.as_it_is(NOW_SECONDS)
    if outcome.started is not None:
        return Prospects(True, outcome.started, [], without_end, [])
    search = _Search(state, picture, explanation, target, trials)
    for found in (search.of_the_job(), search.of_the_cluster()):
        for one in found:  # one by one, so that each can be told before the next is tried
            trials.found.append(one)
    outcome, rehearsal = trials.as_it_is(FAR_SECONDS)
    after = [] if outcome.started is None else _ended_before(rehearsal, outcome, explanation.job.name)
    trials.found += search.of_others(after, outcome.started)
    return Prospects(False, outcome.started, after, without_end, trials.found)


def _ended_before(rehearsal: Rehearsal, outcome: Outcome, job: str) -> list[str]:
    """The jobs that had finished pods in the last second before it started."""
    assert outcome.started is not None
    journal = rehearsal.journal
    last = journal.last
    found = set()
    for event in journal.events:
        if event.type == "Finished" and event.t > last - 1.001:
            group = journal.groups.groups.get(journal.pods[event.object].podGroup)
            found.add(group.shown_name if group is not None else event.object)
    return sorted(found - {job})


class _Search:
    def __init__(
        self, state: State, picture: Picture, explanation: JobExplanation, target: Target, trials: Trials
    ) -> None:
        self._state = state
        self._picture = picture
        self._explanation = explanation
        self._job = explanation.job
        self._target = target
        self._trials = trials
        self._codes = {reason.code for reason in explanation.reasons}
        self._is_admitted = explanation.pods_that_fit is not None
        self._unfinished = _unfinished_pods(state.objects)
        self._running = {
            group: found
            for group, pods in self._unfinished.items()
            if (found := [pod for pod in pods if pod.spec.node_name])
        }

    def of_the_job(self) -> Iterator[Counterfactual]:
        yield from self._minimum()
        if self._target.can_be_resubmitted:
            for change in [*self._selectors(), *self._tolerations(), *self._requests(), *self._queues()]:
                yield from self._tried(change)
        if Code.SCHEDULING_GATED in self._codes:
            yield from self._tried(WithoutGates())

    def of_the_cluster(self) -> Iterator[Counterfactual]:
        queue = self._job.queue
        if Code.QUEUE_CLOSED in self._codes:
            yield from self._tried(QueueOpened(queue))
        if Code.QUEUE_OVER_QUOTA in self._codes:
            yield from self._capability()
        if Code.PREDICATE_NODE_UNSCHEDULABLE in self._codes:
            cordoned = [node.name for node in self._picture.nodes if not node.schedulable]
            for node in cordoned[:_MOST_OF_A_KIND]:
                yield from self._tried(Uncordoned(node))

    def _tried(self, change: Change, *, at: float | None = None) -> Iterator[Counterfactual]:
        outcome = self._trials.starts(change)
        if outcome is not None:
            evicts = [event.object for event in outcome.evictions]
            now = "starts" if isinstance(change, Ended | QueueOpened | Uncordoned) else "starts now"
            yield Counterfactual(f"{now} {change.phrase}", change, evicts, at)

    # -- the job itself -------------------------------------------------------------------------------------------

    def _minimum(self) -> Iterator[Counterfactual]:
        """The largest minimum with which it starts."""
        job = self._job
        field = self._target.minimum_field
        if job.min_available < 2 or not field:
            return
        fit = self._explanation.pods_that_fit
        most = job.min_available - 1 if fit is None else min(job.min_available - 1, job.pods.running + fit)
        low, best = 1, None
        high = most
        while low <= high:
            middle = high if best is None and high == most else (low + high + 1) // 2
            found = list(self._tried(Minimum(middle, field)))
            if found:
                best, low = found[0], middle + 1
            else:
                high = middle - 1
        if best is not None:
            yield best

    def _selectors(self) -> Iterator[Change]:
        if self._is_admitted and Code.PREDICATE_NODE_AFFINITY not in self._codes:
            return
        selectors = {pair for spec in self._target.specs for pair in spec.node_selector.items()}
        for name, value in sorted(selectors)[:_MOST_OF_A_KIND]:
            yield WithoutSelector(name, value)
        if any(spec.affinity is not None and spec.affinity.node_affinity is not None for spec in self._target.specs):
            yield WithoutNodeAffinity()

    def _tolerations(self) -> Iterator[Change]:
        if self._is_admitted and Code.PREDICATE_TAINT_TOLERATION not in self._codes:
            return
        taints = {
            taint.key
            for obj in self._state.objects
            if isinstance(obj, Node)
            for taint in obj.spec.taints
            if taint.effect != "PreferNoSchedule"
        }
        known = {toleration.key for spec in self._target.specs for toleration in spec.tolerations}
        for taint in sorted(taints - known)[:_MOST_OF_A_KIND]:
            yield WithToleration(taint)

    def _requests(self) -> Iterator[Change]:
        """What is free on one node, if each pod is larger than that."""
        for resource, most in sorted(self._explanation.largest.items()):
            wants = max((_request(spec, resource) for spec in self._target.specs), default=0)
            if 0 < most < wants:
                yield SmallerRequest(resource, most)

    def _queues(self) -> Iterator[Change]:
        if not self._codes & _OF_QUEUES:
            return
        parents = {queue.parent for queue in self._picture.queues}
        others = [
            queue.name
            for queue in self._picture.queues
            if queue.state == "Open" and queue.name not in parents and queue.name != self._job.queue
        ]
        for name in others[:_MOST_OF_A_KIND]:
            yield OtherQueue(name)

    def _capability(self) -> Iterator[Counterfactual]:
        queue = next((queue for queue in self._picture.queues if queue.name == self._job.queue), None)
        if queue is None:
            return
        for resource, most in sorted(queue.capability.items()):
            needed = queue.allocated.get(resource, 0) + self._explanation.needs.get(resource, 0)
            if needed > most:
                yield from self._tried(Capability(queue.name, resource, needed))

    # -- others ---------------------------------------------------------------------------------------------------

    def of_others(self, after: list[str], at: float | None) -> Iterator[Counterfactual]:
        """Who has to end. First those that end first, if all is as they say; then each that could, alone; then those
        in its way together."""
        if after:
            found = list(self._tried(self._ended(after), at=at))
            if found:
                yield from found
                return
        candidates = self._candidates()
        single = []
        for job in candidates[:_MOST_ENDING]:
            single += list(self._tried(self._ended([job.name]), at=job.ends))
        if single:
            yield from single[:_MOST_OF_A_KIND]
            return
        together: list[str] = []
        for job in candidates[:_MOST_ENDING]:
            together.append(job.name)
            if len(together) > 1:
                found = list(self._tried(self._ended(together)))
                if found:
                    yield from found
                    return

    def _candidates(self) -> list[JobPicture]:
        """Running jobs that end by themselves; those in its way first, then those that end first, then the largest."""
        first = set(self._explanation.waits_for)
        running = [
            job
            for job in self._picture.jobs
            if job.name != self._job.name
            and (pods := self._running.get(job.group))
            and all(ends_by_itself(pod) for pod in pods)
        ]
        return sorted(
            running,
            key=lambda job: (
                job.name not in first, job.ends is None, job.ends or 0.0, -sum(job.allocated.values()), job.name,
            ),
        )  # fmt: skip

    def _ended(self, jobs: Sequence[str]) -> Ended:
        return Ended(tuple(jobs), frozenset(self._pods_of(jobs)))

    def _pods_of(self, jobs: Sequence[str]) -> set[str]:
        groups = [job.group for job in self._picture.jobs if job.name in jobs]
        return {key(pod) for group in groups for pod in self._unfinished.get(group, ())}


def _unfinished_pods(objects: Iterable[KObject]) -> dict[str, list[Pod]]:
    """By group. A job has ended when all of these have, also those that still wait."""
    found: dict[str, list[Pod]] = {}
    for pod in objects:
        if isinstance(pod, Pod) and pod.status.phase not in ("Succeeded", "Failed"):
            found.setdefault(f"{pod.metadata.namespace}/{group_name_of(pod)}", []).append(pod)
    return found


def _request(spec: PodSpec, resource: str) -> int:
    return sum(amount(resource, container.resources.requests.get(resource, 0)) for container in spec.containers)
