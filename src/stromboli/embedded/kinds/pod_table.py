"""The line that `kubectl get pods` shows of a pod."""

from __future__ import annotations

from typing import Any, Final

from .strategy import AGE, NAME, Column, Object, dig


def _ready(pod: Object, now: float) -> str:
    statuses = dig(pod, "status", "containerStatuses", default=[])
    total = len(dig(pod, "spec", "containers", default=[]))
    return f"{sum(bool(one.get('ready')) for one in statuses)}/{total}"


def status_of(pod: Object, now: float = 0) -> str:
    """A word for what the pod is doing."""
    word = str(dig(pod, "status", "reason") or dig(pod, "status", "phase", default=""))
    for condition in dig(pod, "status", "conditions", default=[]):
        if condition.get("type") == "PodScheduled" and condition.get("reason") == "SchedulingGated":
            word = "SchedulingGated"
    for status in reversed(dig(pod, "status", "containerStatuses", default=[])):
        waiting, terminated = dig(status, "state", "waiting"), dig(status, "state", "terminated")
        if waiting and waiting.get("reason"):
            word = waiting["reason"]
        elif terminated:
            word = terminated.get("reason") or f"ExitCode:{terminated.get('exitCode', 0)}"
    if dig(pod, "metadata", "deletionTimestamp"):
        return "Terminating" if dig(pod, "status", "reason") != "NodeLost" else "Unknown"
    return word


def _restarts(pod: Object, now: float) -> str:
    return str(sum(one.get("restartCount", 0) for one in dig(pod, "status", "containerStatuses", default=[])))


def _or_none(*path: str) -> Any:
    return lambda pod, now: dig(pod, *path, default="") or "<none>"


def _gates(pod: Object, now: float) -> str:
    return "<none>"


COLUMNS: Final = (
    NAME,
    Column("Ready", _ready, description="Containers that are ready, and all containers."),
    Column("Status", status_of, description="What the pod is doing."),
    Column("Restarts", _restarts, description="How often its containers were started again."),
    AGE,
    Column("IP", _or_none("status", "podIP"), priority=1),
    Column("Node", _or_none("spec", "nodeName"), priority=1),
    Column("Nominated Node", _or_none("status", "nominatedNodeName"), priority=1),
    Column("Readiness Gates", _gates, priority=1),
)
