"""The lifecycle of a pod on a hollow node: its next step, from the pod and the time alone.

         bound ──────▶ Running ──run is over──▶ Succeeded, or Failed with its exit code
                          │
                          │ deleted (by a user, an eviction or a controller)
                          ▼
                     terminating ──grace is over──▶ gone

Nothing is kept in memory: hollow nodes that are stopped and started again continue with each pod where its object says
it is. The times in objects are whole seconds, though. A caller who knows exactly when a pod started may pass that time;
a restart shortens a run by less than a second.

The annotations mean the same as in the simulator: a terminating pod does not finish any more, a pod that never started
is removed at once, and all containers of a pod start and end together.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

from stromboli.api import ApiError, Pod
from stromboli.api.pod_timing import pod_timing
from stromboli.api.timestamps import format_timestamp, parse_timestamp

UNREADABLE: Final = "UnreadableAnnotation"
_CANNOT_RUN: Final = 128  # the exit code that kubelets report for a container that could not be started
_FINISHED: Final = ("Succeeded", "Failed")
_UNFINISHED: Final = 2.0  # seconds after which a deletion without a grace period should have ended


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then (seconds since the epoch), or until the pod changes (None)."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class PatchStatus:
    """Write this into the pod's status, as a strategic merge patch."""

    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """All containers have stopped: delete the object."""


Step = Wait | PatchStatus | Remove


def next_step(pod: Pod, now: float, *, started: float | None = None) -> Step:
    """What a kubelet would do now with a pod that is bound to its node."""
    if pod.metadata.deletion_timestamp is not None:
        return _terminating(pod, now)
    if pod.status.phase in _FINISHED:
        return Wait()
    try:
        timing = pod_timing(pod.metadata.annotations)
    except ApiError as error:
        return PatchStatus(_unreadable(pod, now, str(error)))
    if pod.status.phase != "Running" or pod.status.start_time is None:
        return PatchStatus(_running(pod, now))
    if timing.run is None:
        return Wait()
    start = parse_timestamp(pod.status.start_time) if started is None else started
    end = start + timing.run
    return Wait(end) if now < end else PatchStatus(_ended(pod, now, start, end, timing.exit_code))


def _terminating(pod: Pod, now: float) -> Step:
    grace = pod.metadata.deletion_grace_period_seconds or 0
    if grace == 0:
        return _removed_but_for_the_server(pod, now)
    if pod.status.phase != "Running":
        return Remove()
    assert pod.metadata.deletion_timestamp is not None
    # The server stores when the grace period ends, not when it started.
    deleted_at = parse_timestamp(pod.metadata.deletion_timestamp) - grace
    try:
        stated = pod_timing(pod.metadata.annotations).grace
    except ApiError:
        stated = None
    gone = deleted_at + (grace if stated is None else min(grace, stated))
    return Remove() if now >= gone else Wait(gone)


def _removed_but_for_the_server(pod: Pod, now: float) -> Step:
    """Our part is done. If no finalizer keeps the object, the server was cut off between noting that and removing it,
    and has to be asked again."""
    if pod.metadata.finalizers:
        return Wait()
    assert pod.metadata.deletion_timestamp is not None
    again = parse_timestamp(pod.metadata.deletion_timestamp) + _UNFINISHED
    return Remove() if now >= again else Wait(again)


def _running(pod: Pod, now: float) -> dict[str, Any]:
    at = _stamp(now)
    conditions = [_condition(name, True, at) for name in ("Initialized", "Ready", "ContainersReady")]
    if not any(known.type == "PodScheduled" and known.status == "True" for known in pod.status.conditions):
        conditions.append(_condition("PodScheduled", True, at))  # created with a node name, so nobody bound it
    address = fake_address(pod.metadata.uid)
    return {
        "phase": "Running",
        "startTime": at,
        "hostIP": fake_address(pod.spec.node_name),
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "containerStatuses": _containers(pod, {"running": {"startedAt": at}}, ready=True),
    }


def _ended(pod: Pod, now: float, start: float, end: float, code: int) -> dict[str, Any]:
    terminated = {
        "exitCode": code,
        "reason": "Error" if code else "Completed",
        "startedAt": _stamp(start),
        "finishedAt": _stamp(end),
    }
    return {
        "phase": "Failed" if code else "Succeeded",
        "conditions": _no_longer_ready(now, "PodFailed" if code else "PodCompleted"),
        "containerStatuses": _containers(pod, {"terminated": terminated}, ready=False),
    }


def _unreadable(pod: Pod, now: float, message: str) -> dict[str, Any]:
    at = _stamp(now)
    terminated = {
        "exitCode": _CANNOT_RUN,
        "reason": UNREADABLE,
        "message": message,
        "startedAt": pod.status.start_time or at,
        "finishedAt": at,
    }
    return {
        "phase": "Failed",
        "reason": UNREADABLE,
        "message": message,
        "startTime": pod.status.start_time or at,
        "conditions": _no_longer_ready(now, "PodFailed"),
        "containerStatuses": _containers(pod, {"terminated": terminated}, ready=False),
    }


def _containers(pod: Pod, state: dict[str, Any], *, ready: bool) -> list[dict[str, Any]]:
    return [
        {
            "name": container.name,
            "image": container.image,
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod.spec.containers
    ]


def _no_longer_ready(now: float, reason: str) -> list[dict[str, Any]]:
    return [_condition(name, False, _stamp(now), reason) for name in ("Ready", "ContainersReady")]


def _condition(name: str, holds: bool, at: str, reason: str | None = None) -> dict[str, Any]:
    # None removes the value of an earlier state.
    return {"type": name, "status": str(holds), "lastTransitionTime": at, "reason": reason, "message": None}


def _stamp(seconds: float) -> str:
    """In whole seconds: the server accepts fractions but does not keep them."""
    return format_timestamp(int(seconds))


def fake_address(name: str) -> str:
    """An address in 10.0.0.0/8, always the same for the same name. Nothing listens there."""
    first, second, third = hashlib.blake2b(name.encode(), digest_size=3).digest()
    return f"10.{first}.{second}.{third}"
