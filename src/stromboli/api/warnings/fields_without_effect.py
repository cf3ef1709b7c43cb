"""Fields and annotations that we accept, because manifests written for Volcano have them, but that do nothing yet.

Whoever sets one relies on it. So it is never ignored silently: a simulation and the
controllers warn about each of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from stromboli.api import names
from stromboli.api.kinds import KObject
from stromboli.api.kinds.batch import Job, LifecyclePolicy, PodGroup, Queue, QueueSpec
from stromboli.api.kinds.pods import Pod
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.api.rules.lifecycle_policies import EVENTS_WITHOUT_EFFECT

ANNOTATIONS: Final = (
    names.REVOCABLE_ZONE,
    names.COOLDOWN_TIME,
    names.JDB_MIN_AVAILABLE,
    names.JDB_MAX_UNAVAILABLE,
    names.NUMA_TOPOLOGY_POLICY,
    names.QOS_LEVEL,
)


def fields_without_effect(obj: KObject) -> list[str]:
    """The paths of the fields and annotations of an object that are set and have no effect."""
    paths: list[str] = []
    match obj:
        case Queue():
            paths += _of_queue(obj.spec)
        case Job():
            paths += _of_job(obj)
        case PodGroup():
            paths += [] if obj.spec.preemptable is None else ["spec.preemptable"]
        case Pod():
            pass
        case _:
            return []
    annotations = obj.metadata.annotations
    without = [*(name for name in ANNOTATIONS if name in annotations), *_unreadable_times(annotations)]
    return [*paths, *(f"metadata.annotations[{name}]" for name in without)]


def no_effect_message(obj: KObject) -> str:
    """The warning about these fields; "" if there are none."""
    paths = fields_without_effect(obj)
    return f"Without effect in this version: {', '.join(paths)}." if paths else ""


def _unreadable_times(annotations: Mapping[str, str]) -> Iterator[str]:
    for name in names.SLA_WAITING_TIMES:
        try:
            parse_duration(annotations.get(name, "0s"))
        except QuantityError:
            yield name


def _of_queue(spec: QueueSpec) -> Iterator[str]:
    yield from _given(
        ("spec.type", spec.type),
        ("spec.extendClusters", spec.extend_clusters),
    )


def _of_job(job: Job) -> Iterator[str]:
    yield from _of_policies(job.spec.policies, "spec.policies")
    for index, task in enumerate(job.spec.tasks):
        at = f"spec.tasks[{index}]"
        yield from _of_policies(task.policies, f"{at}.policies")
        if task.topology_policy not in ("", "none"):
            yield f"{at}.topologyPolicy"


def _of_policies(policies: Sequence[LifecyclePolicy], at: str) -> Iterator[str]:
    for index, policy in enumerate(policies):
        for event in dict.fromkeys([policy.event, *policy.events]):
            if event in EVENTS_WITHOUT_EFFECT:
                yield f"{at}[{index}] for {event}"


def _given(*fields: tuple[str, object]) -> Iterator[str]:
    return (path for path, value in fields if value)
