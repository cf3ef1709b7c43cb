"""The summary of a run: how long jobs waited, how much of the cluster was used, and what was lost.

A wait is the time from the submission of a group to the moment when its minimum ran, or to the end of the run while it
still waits. Percentiles are real waits (nearest rank), so p95 is the wait of some job.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping
from typing import Any

from stromboli.simulation.engine import Engine
from stromboli.simulation.group_history import GroupRecord

Section = dict[str, Any]

_MILLICORE_MICROSECONDS = 1_000 * 1_000_000  # in a core-second


def build_summary(engine: Engine) -> Section:
    journal = engine.journal
    groups = [record for record in journal.groups.everything() if record.counts]
    groups_of: dict[str, list[GroupRecord]] = defaultdict(list)
    for group in groups:
        groups_of[group.queue].append(group)
    pods_of: dict[str, list[str]] = defaultdict(list)
    for pod_key, pod in journal.pods.items():
        pods_of[journal.queue_of(pod)].append(pod_key)
    summary = _part(engine, groups, journal.pods)
    if engine.descheduler is not None:
        summary["moves"] = _moves(engine, engine.descheduler.work_lost)
    summary["queues"] = {
        queue: _part(engine, groups_of[queue], pods_of[queue])
        for queue in sorted(groups_of.keys() | pods_of.keys())
        if queue  # pods of other schedulers are in none
    }
    return summary


def _part(engine: Engine, groups: list[GroupRecord], pods: Collection[str]) -> Section:
    """The summary of some groups and pods."""
    meter = engine.world.meter
    used: dict[str, int] = {}
    for pod_key in pods:
        for resource, amount in meter.used.get(pod_key, {}).items():
            used[resource] = used.get(resource, 0) + amount
    return {
        "wait": _waits(sorted(record.waited(engine.end) for record in groups)),
        "utilisation": _shares(used, meter.offered),
        "evictions": sum(meter.evictions.get(pod_key, 0) for pod_key in pods),
        "workLost": sum(meter.lost.get(pod_key, 0) for pod_key in pods) / _MILLICORE_MICROSECONDS,
        "starved": sum(record.starved for record in groups),
    }


def _moves(engine: Engine, work_lost: int) -> Section:
    counts = Counter(event.type for event in engine.journal.events)
    return {
        "planned": counts["MigrationPlanned"],
        "succeeded": counts["MigrationSucceeded"],
        "failed": counts["MigrationFailed"],
        "workLost": work_lost / _MILLICORE_MICROSECONDS,
    }


def _waits(waits: list[float]) -> Section:
    if not waits:
        return {"mean": None, "p50": None, "p95": None, "max": None}
    return {
        "mean": round(math.fsum(waits) / len(waits), 6),
        "p50": _percentile(waits, 50),
        "p95": _percentile(waits, 95),
        "max": waits[-1],
    }


def _percentile(waits: list[float], percent: int) -> float:
    return waits[math.ceil(len(waits) * percent / 100) - 1]


def _shares(used: Mapping[str, int], offered: Mapping[str, int]) -> Section:
    """Used parts of what nodes offered, to four decimals."""
    return {
        resource: round(used.get(resource, 0) / offered[resource], 4)
        for resource in sorted(offered)
        if resource != "pods" and offered[resource]
    }
