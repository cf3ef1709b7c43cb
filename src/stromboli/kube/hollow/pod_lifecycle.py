"""The life of a pod on a hollow node: what to do next, told by nothing but the pod and the time.

         bound ──────▶ Running ──run is over──▶ Succeeded, or Failed with its exit code
                          │
                          │ deleted (by whomever: a user, an eviction, a controller)
                          ▼
                       leaving ──grace is over──▶ gone

No part of this is kept in memory, so there is nothing to lose: hollow nodes that are stopped in the middle and started
again find each pod where its object says it is. The times in objects are whole seconds, though. Whoever knows exactly
when a pod started may say so; a restart shortens a run by less than a second.

The meaning of the annotations is the simulator's: one that is leaving does not finish any more, one that never began
goes at once, and all containers of a pod begin and end together.
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


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing to do until then (seconds since the epoch); None: until the pod changes."""

    until: float | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """Write this into the pod's status, as a strategic merge patch."""

    status: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Remove:
    """The last process is gone: take the object away."""


Step = Wait | Report | Remove


def next_step(pod: Pod, now: float, *, started: float | None = None) -> Step:
    """What a kubelet would do now with a pod that is bound to its node."""
    if pod.metadata.deletion_timestamp is not None:
        return _leaving(pod, now)
    if pod.status.phase in _FINISHED:
        return Wait()
    try:
        timing = pod_timing(pod.metadata.annotations)
    except ApiError as error:
        return Report(_unreadable(pod, now, str(error)))
    if pod.status.phase != "Running" or pod.status.start_time is None:
        return Report(_running(pod, now))
    if timing.run is None:
        return Wait()
    start = parse_timestamp(pod.status.start_time) if started is None else started
    end = start + timing.run
    return Wait(end) if now < end else Report(_ended(pod, now, start, end, timing.exit_code))


def _leaving(pod: Pod, now: float) -> Step:
    own = pod.metadata.deletion_grace_period_seconds or 0
    if own == 0:
        return Wait()  # Our part is done; a finalizer keeps the object.
    if pod.status.phase != "Running":
        return Remove()
    assert pod.metadata.deletion_timestamp is not None
    # The server writes down when the grace will be over, not when it began.
    asked = parse_timestamp(pod.metadata.deletion_timestamp) - own
    try:
        stated = pod_timing(pod.metadata.annotations).grace
    except ApiError:
        stated = None
    gone = asked + (own if stated is None else min(own, stated))
    return Remove() if now >= gone else Wait(gone)


def _running(pod: Pod, now: float) -> dict[str, Any]:
    at = _stamp(now)
    conditions = [_condition(name, True, at) for name in ("Initialized", "Ready", "ContainersReady")]
    if not any(known.type == "PodScheduled" and known.status == "True" for known in pod.status.conditions):
        conditions.append(_condition("PodScheduled", True, at))  # Created with a node name: nobody bound it.
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
    # None takes away what an earlier state left behind.
    return {"type": name, "status": str(holds), "lastTransitionTime": at, "reason": reason, "message": None}


def _stamp(seconds: float) -> str:
    """Whole seconds: the server refuses nothing finer, but keeps no more."""
    return format_timestamp(int(seconds))


def fake_address(name: str) -> str:
    """An address in 10.0.0.0/8, always the same for the same name. Nothing answers there."""
    first, second, third = hashlib.blake2b(name.encode(), digest_size=3).digest()
    return f"10.{first}.{second}.{third}"
