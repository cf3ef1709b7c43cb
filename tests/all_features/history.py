"""The lives of pods, read from the events of a report.

A cycle comes after all that users and controllers did at its time. What the scheduler evicts in a cycle uses its node
until that cycle is over, also without a grace period; what anybody else removes is gone at once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from all_features.amounts import Amounts, total
from all_features.scenario import NEVER, PodSpec, Scenario
from all_features.world import Document, Report

BY_SCHEDULER = ("Preempted", "Reclaimed", "GivenBack", "NodeLocked", "GangDeadlock", "DomainOutgrown")
MIGRATED = "Migrated"
BY_US = (*BY_SCHEDULER, MIGRATED)
LOST = "NodeLost"
AFTER_CYCLE = 0.001  # seconds: what comes of a cycle is there then


@dataclass
class Life:
    """A pod on a node. Indexes are those of events."""

    pod: PodSpec
    node: str
    start: float
    since: int
    bound: bool  # by the scheduler
    stop: float = NEVER  # it ends, is evicted or deleted
    until: int = 1 << 60
    gone: float = NEVER  # it no longer uses its node
    how: str = ""  # Finished, Evicted or Deleted
    reason: str = ""
    message: str = ""

    def occupies(self, time: float, index: int = 1 << 59) -> bool:
        """Whether it uses its node at that time, after the event with that index."""
        if self.start > time or self.since > index:
            return False
        return self.gone > time or (self.stop == time and self.until > index)

    def runs(self, time: float, index: int = 1 << 59) -> bool:
        """As above, and it is not being removed."""
        return self.start <= time and self.since <= index and (self.stop > time or self.until > index)


@dataclass
class History:
    scenario: Scenario
    report: Report
    lives: list[Life] = field(default_factory=list)
    bound_twice: list[tuple[float, str]] = field(default_factory=list)
    submitted: dict[str, list[float]] = field(default_factory=dict)

    @property
    def events(self) -> list[Document]:
        found: list[Document] = self.report["events"]
        return found

    @property
    def end(self) -> float:
        return float(self.report["end"])

    def on_node(self, node: str, time: float, index: int = 1 << 59) -> list[Life]:
        return [life for life in self.lives if life.node == node and life.occupies(time, index)]

    def of_queue(self, queue: str, time: float, index: int = 1 << 59) -> list[Life]:
        """Pods of a queue and of those below it, with those that terminate."""
        return [
            life for life in self.lives
            if life.pod.ours and life.occupies(time, index) and queue in self.scenario.ancestors(life.pod.queue)
        ]  # fmt: skip

    def is_started(self, life: Life) -> bool:
        """Whether the scheduler started it, and not as the successor of a pod that the scenario put on a node."""
        moved = self._replaced_by(life)
        return life.bound and (moved is None or self.is_started(moved))

    def _replaced_by(self, life: Life) -> Life | None:
        """The pod that was moved, and whose place this one took."""
        places = [
            event["object"] for event in self.events
            if event["t"] == life.start and event["type"] == "ReservationSucceeded"
            and event["message"] == f"Pod {life.pod.key} uses it."
        ]  # fmt: skip
        moved = [
            other for other in self.lives
            if other.reason == MIGRATED and other.stop <= life.start
            and any(place.startswith(f"migration-{other.pod.key.partition('/')[2]}-") for place in places)
        ]  # fmt: skip
        return max(moved, key=lambda other: other.stop, default=None)

    def last_event(self) -> float:
        """Of anything that changes what runs where."""
        kinds = ("Submitted", "Bound", "Finished", "Evicted", "Deleted", "Reserved", "Unreserved", "Locked", "Unlocked")
        return max(
            (e["t"] for e in self.events if e["type"] in kinds or e["type"].startswith(("Reservation", "Migration"))),
            default=0.0,
        )


def used(lives: Iterable[Life]) -> Amounts:
    return total(life.pod.takes for life in lives)


def read_history(scenario: Scenario, report: Report) -> History:
    history = History(scenario, report)
    running: dict[str, Life] = {}

    def start(pod: PodSpec, node: str, time: float, index: int, *, bound: bool) -> None:
        before = running.get(pod.key)
        if before is not None and before.gone > time:
            history.bound_twice.append((time, pod.key))
        running[pod.key] = Life(pod, node, time, index, bound)
        history.lives.append(running[pod.key])

    for index, event in enumerate(history.events):
        time, kind, name = event["t"], event["type"], event["object"]
        if kind == "Submitted":
            history.submitted.setdefault(name, []).append(time)
            pod = scenario.pod(name)
            if pod.node and name in scenario._pods:
                start(pod, pod.node, time, index, bound=False)
        elif kind == "Bound":
            start(scenario.pod(name), event["node"], time, index, bound=True)
        elif kind in ("Finished", "Evicted", "Deleted") and name in running:
            _end(running[name], event, index)
    return history


def _end(life: Life, event: Document, index: int) -> None:
    time, kind, reason = event["t"], event["type"], event["reason"]
    if kind == "Evicted" and reason == LOST:
        life.gone = min(life.gone, time)
    if life.stop < NEVER:
        return  # it was terminating already
    life.stop, life.until, life.how, life.reason, life.message = time, index, kind, reason, event["message"]
    if kind == "Finished" or reason == LOST:
        life.gone = time
    elif life.pod.grace:
        life.gone = time + life.pod.grace
    else:
        life.gone = time + (AFTER_CYCLE if reason in BY_SCHEDULER else 0)
