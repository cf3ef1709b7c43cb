"""What came out of a run, as one document.

Its shape is a public contract: keys, their order, times in seconds, amounts as Kubernetes writes them. What
pods hold is read from the ledger the scheduler itself decides by, so the report cannot disagree with it;
stories of pods come from the journal; and why a pod still waits is what the last cycle said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import msgspec

from stromboli.api import Condition, Job, Pod, PodGroup, Queue, Reservation, key, names
from stromboli.api.quantity import amounts, format_amount
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Cluster, JobKey, QueueName, ResourceAxis, Status, TaskKey, Vector
from stromboli.scheduling.explanation.reasons import Code, no_group, no_queue
from stromboli.simulation.engine import Engine
from stromboli.simulation.virtual_time import from_clock, seconds

from .journal import Event, PodRecord

Section = dict[str, Any]


def build_report(engine: Engine) -> Section:
    engine.cluster.snapshot()  # puts back what the last cycle only tried
    return {
        "end": engine.end,
        "events": msgspec.to_builtins(engine.journal.events),
        "pods": _pods(engine),
        "podGroups": _groups(engine),
        "jobs": {key(job): {"phase": job.status.state.phase or "Pending"} for job in engine.world.store.list(Job)},
        "queues": _queues(engine),
        "namespaces": _namespaces(engine),
        "nodes": _nodes(engine.cluster),
        "reservations": _reservations(engine),
    }


def encode_report(report: Section) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def encode_event(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def _pods(engine: Engine) -> Section:
    pods: Section = {}
    for pod_key in sorted(engine.journal.pods):
        record = engine.journal.pods[pod_key]
        told: Section = msgspec.to_builtins(record)
        told["queue"] = engine.journal.queue_of(record)
        if record.phase == "Pending":
            told["reason"], told["message"] = _why_pending(engine, pod_key, record)
        pods[pod_key] = told
    return pods


def _why_pending(engine: Engine, pod_key: str, record: PodRecord) -> tuple[str, str]:
    explanation = engine.cycle.waiting.get(TaskKey(pod_key))
    if explanation is not None:
        return explanation.code, explanation.message
    return _why_unseen(engine, pod_key, record)


def _why_unseen(engine: Engine, pod_key: str, record: PodRecord) -> tuple[str, str]:
    """What keeps a pod from the scheduler's sight: another's business, or names that lead nowhere."""
    store = engine.world.store
    pod = store.get(Pod, pod_key)
    if pod is not None and pod.spec.scheduler_name != names.DEFAULT_SCHEDULER:
        told = f'It asks for the scheduler "{pod.spec.scheduler_name}"; "{names.DEFAULT_SCHEDULER}" runs here.'
        return "OtherScheduler", told
    group = record.podGroup
    if group and store.get(PodGroup, group) is None:
        return Code.NO_POD_GROUP, no_group(group)
    queue = engine.journal.queue_of(record)
    if store.get(Queue, queue) is None:
        return Code.NO_QUEUE, no_queue(queue)
    return "", ""


def _groups(engine: Engine) -> Section:
    counted: dict[str, dict[str, int]] = defaultdict(lambda: {"Running": 0, "Pending": 0})
    for pod in engine.world.store.list(Pod):
        record = engine.journal.pods[key(pod)]
        if record.phase in ("Running", "Pending") and pod.metadata.deletion_timestamp is None:
            counted[record.podGroup][record.phase] += 1
    groups: Section = {}
    for group in engine.world.store.list(PodGroup):
        migration = group.status.migration_state
        groups[key(group)] = {
            "phase": group.status.phase,
            "running": counted[key(group)]["Running"],
            "pending": counted[key(group)]["Pending"],
            "conditions": [_condition(condition) for condition in group.status.conditions],
            "migrationState": None if migration is None else migration.phase,
        }
    return groups


def _condition(condition: Condition) -> Section:
    since = condition.last_transition_time
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": None if since is None else seconds(from_clock(parse_timestamp(since))),
    }


def _queues(engine: Engine) -> Section:
    cluster = engine.cluster
    queues: Section = {}
    for queue in engine.world.store.list(Queue):
        name = QueueName(queue.metadata.name)
        known = cluster.queues[name]
        locked = queue.status.reservation
        queues[name] = {
            "state": queue.status.state or "Open",
            "allocated": _texts(_currency(cluster.axis, known.allocated)),
            "deserved": _texts(engine.cycle.deserved.get(name, {})),
            "reservation": {"nodes": sorted(locked.nodes), "resource": _texts(amounts(locked.resource))},
        }
    return queues


def _namespaces(engine: Engine) -> Section:
    """Every namespace that ever had pods in a queue, with what it has there now."""
    cluster = engine.cluster
    pairs = {_pair(engine, pod_key, record) for pod_key, record in engine.journal.pods.items()}
    namespaces: Section = {}
    for queue_name, namespace in sorted(pairs):
        queue = cluster.queues.get(QueueName(queue_name))
        inside = None if queue is None else queue.by_namespace.get(namespace)
        known = cluster.namespaces.get(namespace)
        namespaces[f"{queue_name}/{namespace}"] = {
            "allocated": {} if inside is None else _texts(_currency(cluster.axis, inside)),
            "weight": 1 if known is None else known.weight,
        }
    return namespaces


def _pair(engine: Engine, pod_key: str, record: PodRecord) -> tuple[str, str]:
    return engine.journal.queue_of(record), pod_key.partition("/")[0]


def _nodes(cluster: Cluster) -> Section:
    table = cluster.ledger.table
    nodes: Section = {}
    for node in table.nodes:
        offered = dict(sorted(node.allocatable.items()))
        none = dict.fromkeys((resource for resource in offered if resource != "pods"), 0)
        held = _currency(cluster.axis, table.held[node.row])
        used = _currency(cluster.axis, table.used[node.row] - table.held[node.row])
        nodes[node.name] = {
            "allocatable": _texts(offered),
            "used": _texts({**none, **used}),
            "held": _texts({**none, **held}),
            "reservedFor": sorted(_reserved_for(cluster, node.name)),
            "lockedBy": table.locked_by[node.row],
        }
    return nodes


def _reserved_for(cluster: Cluster, node_name: str) -> set[JobKey]:
    tasks = cluster.nodes[node_name].tasks.values()
    return {task.job.key for task in tasks if task.status is Status.RESERVED and task.job is not None}


def _reservations(engine: Engine) -> Section:
    return {
        key(reservation): {
            "phase": reservation.status.phase,
            "node": reservation.status.node_name,
            "allocatable": _texts(amounts(reservation.status.allocatable)),
            "allocated": _texts(amounts(reservation.status.allocated)),
            "owners": sorted(f"{owner.namespace}/{owner.name}" for owner in reservation.status.current_owners),
        }
        for reservation in engine.world.store.list(Reservation)
    }


def _currency(axis: ResourceAxis, vector: Vector) -> dict[str, int]:
    """Amounts by resource, without the count of pods, which nobody pays with."""
    return {resource: amount for resource, amount in axis.amounts(vector).items() if resource != "pods"}


def _texts(exact: Mapping[str, int]) -> dict[str, str]:
    return {resource: format_amount(resource, exact[resource]) for resource in sorted(exact)}
