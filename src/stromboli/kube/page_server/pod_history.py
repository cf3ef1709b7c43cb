"""Which pod was on which node when, and which pods were evicted: what objects alone do not tell once they are gone.

It begins when the page begins. Pods that had ended before are known as long as their objects exist. Of those that are
gone, the last `MOST_ENDED` are kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from stromboli.api import Pod, is_backfill, key
from stromboli.api.pod_requests import pod_requests
from stromboli.api.timestamps import parse_timestamp
from stromboli.kube.client import Event
from stromboli.page import Amounts, Eviction, Span

MOST_ENDED: Final = 20_000
_FINISHED: Final = ("Succeeded", "Failed")
EVICTION_REASONS: Final = frozenset({"Preempted", "Reclaimed", "GivenBack", "NodeLocked", "Evicted", "Migrated"})


@dataclass(slots=True)
class _Stay:
    """A pod on a node."""

    pod: str
    job: str
    node: str
    start: float
    backfill: bool
    amounts: Amounts
    end: float | None = None
    outcome: str = "Running"

    def span(self, uid: str) -> Span:
        return Span(uid, self.pod, self.job, self.node, self.start, self.end, self.outcome, self.backfill, self.amounts)


class PodHistory:
    def __init__(self, job_of: Callable[[str], str]) -> None:
        """`job_of`: the job of a pod, both by name."""
        self._job_of = job_of
        self._stays: dict[str, _Stay] = {}  # by uid, in the order in which they began
        self._evictions: dict[str, Eviction] = {}  # by uid of the event
        self._evicted: set[str] = set()  # uids of pods

    # -- what happened ------------------------------------------------------------------------------------------------

    def pod_applied(self, pod: Pod, now: float) -> None:
        if not pod.spec.node_name:
            return
        uid = pod.metadata.uid
        stay = self._stays.get(uid)
        if stay is None:
            amounts = {name: amount for name, amount in pod_requests(pod.spec).items() if amount and name != "pods"}
            stay = self._stays[uid] = _Stay(
                key(pod), "", pod.spec.node_name, _start(pod, now), is_backfill(pod), amounts
            )
        stay.job = self._job_of(key(pod))
        stay.backfill = is_backfill(pod)
        if pod.status.phase in _FINISHED and stay.end is None:
            stay.end, stay.outcome = max(_end(pod, now), stay.start), pod.status.phase

    def pod_deleted(self, pod: Pod, now: float) -> None:
        stay = self._stays.get(pod.metadata.uid)
        if stay is None or stay.end is not None:
            return
        stay.end = now
        stay.outcome = "Evicted" if pod.metadata.uid in self._evicted else "Deleted"
        self._forget_old()

    def evicted(self, event: Event, now: float) -> None:
        pod = event.involved_object
        at = event.last_timestamp or event.first_timestamp
        self._evicted.add(pod.uid)
        stay = self._stays.get(pod.uid)
        if stay is not None and stay.outcome == "Deleted":
            stay.outcome = "Evicted"
        self._evictions[event.metadata.uid] = Eviction(
            key=event.metadata.uid, time=now if at is None else parse_timestamp(at), pod=f"{pod.namespace}/{pod.name}",
            job=f"{pod.namespace}/{pod.name}" if stay is None else stay.job, node="" if stay is None else stay.node,
            reason=event.reason, message=event.message,
        )  # fmt: skip

    def _forget_old(self) -> None:
        ended = [uid for uid, stay in self._stays.items() if stay.end is not None]
        for uid in ended[: max(0, len(ended) - MOST_ENDED)]:
            del self._stays[uid]
            self._evicted.discard(uid)

    # -- what is known ------------------------------------------------------------------------------------------------

    def spans(self) -> list[Span]:
        return [stay.span(uid) for uid, stay in self._stays.items()]

    def evictions(self) -> list[Eviction]:
        return list(self._evictions.values())


def _start(pod: Pod, now: float) -> float:
    scheduled = [c for c in pod.status.conditions if c.type == "PodScheduled" and c.status == "True"]
    for stamp in (pod.status.start_time, *(condition.last_transition_time for condition in scheduled)):
        if stamp is not None:
            return parse_timestamp(stamp)
    return now


def _end(pod: Pod, now: float) -> float:
    ended = [
        parse_timestamp(status.state.terminated.finished_at)
        for status in pod.status.container_statuses
        if status.state is not None and status.state.terminated is not None and status.state.terminated.finished_at
    ]
    return max(ended, default=now)
