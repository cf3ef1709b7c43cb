"""Containers that are started again on their node, as a kubelet does it.

A pod of a scenario that ends is over, unless its `restartPolicy` says otherwise in so many words: `Always`, or
`OnFailure` and an exit code other than 0. (Kubernetes fills in Always where nothing is written. A scenario does not, so
that `sim.stromboli.io/run` means what it says.) All containers of a pod start and end together.

    first end    started again at once
    then         after 10 s, 20 s, 40 s … 5 min; from the beginning again once it has run for 10 minutes

The pod keeps its node in between. It is not ready while it waits.
"""

from __future__ import annotations

from typing import Final

from msgspec.structs import replace

from stromboli.api import (
    Condition,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodStatus,
)
from stromboli.api.quantity import format_duration
from stromboli.simulation.virtual_time import Microseconds, later, microseconds, timestamp

FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 300.0
STEADY: Final = 600.0  # seconds after which a container that ran counts as one that never ended


def starts_again(pod: Pod, exit_code: int) -> bool:
    policy = pod.spec.restart_policy
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


class ContainerRestarts:
    """How often each pod has ended in a row, by its uid."""

    def __init__(self) -> None:
        self._ends: dict[str, int] = {}
        self._due: dict[str, Microseconds] = {}

    def next_start(self, pod: Pod, started: Microseconds, exit_code: int, at: Microseconds) -> tuple[Microseconds, str]:
        """When the containers of a pod start again, and a sentence about it."""
        uid = pod.metadata.uid
        ends = 1 if at - started >= microseconds(STEADY) else self._ends.get(uid, 0) + 1
        self._ends[uid] = ends
        pause = 0.0 if ends == 1 else min(FIRST_PAUSE * 2 ** min(ends - 2, 10), LONGEST_PAUSE)
        self._due[uid] = later(at, microseconds(pause))
        when = f"in {format_duration(round(pause))}" if pause else "at once"
        return self._due[uid], f"Its containers ended with exit code {exit_code} and start again {when}."

    def is_waiting(self, uid: str) -> bool:
        return uid in self._due

    def is_due(self, uid: str, at: Microseconds) -> bool:
        return self._due.get(uid) == at

    def started(self, uid: str) -> None:
        self._due.pop(uid, None)

    def forget(self, uid: str) -> None:
        self._ends.pop(uid, None)
        self._due.pop(uid, None)


def waiting_status(pod: Pod, at: Microseconds) -> PodStatus:
    """Of a pod whose containers have ended and will be started again."""
    state = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))
    return replace(
        pod.status,
        conditions=_with_ready(pod, "False", at),
        container_statuses=[_restarted(pod, name, state, more=0) for name in _names(pod)],
    )


def ended_status(pod: Pod, exit_code: int, at: Microseconds) -> PodStatus:
    """Of a pod that is over."""
    ended = ContainerState(terminated=ContainerStateTerminated(exit_code=exit_code, finished_at=timestamp(at)))
    return replace(
        pod.status,
        phase="Failed" if exit_code else "Succeeded",
        container_statuses=[_restarted(pod, name, ended, more=0) for name in _names(pod)],
    )


def running_again(pod: Pod, at: Microseconds) -> PodStatus:
    state = ContainerState(running=ContainerStateRunning(started_at=timestamp(at)))
    return replace(
        pod.status,
        conditions=_with_ready(pod, "True", at),
        container_statuses=[_restarted(pod, name, state, more=1) for name in _names(pod)],
    )


def _names(pod: Pod) -> list[str]:
    return [container.name for container in pod.spec.containers]


def _restarted(pod: Pod, name: str, state: ContainerState, *, more: int) -> ContainerStatus:
    before = next((one.restart_count for one in pod.status.container_statuses if one.name == name), 0)
    return ContainerStatus(name=name, state=state, ready=state.running is not None, restart_count=before + more)


def _with_ready(pod: Pod, value: str, at: Microseconds) -> list[Condition]:
    others = [one for one in pod.status.conditions if one.type != "Ready"]
    return [*others, Condition(type="Ready", status=value, last_transition_time=timestamp(at))]
