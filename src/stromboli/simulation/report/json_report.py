"""The report of a run, as one JSON document.

Its format is public: keys, their order, times in seconds, amounts as Kubernetes writes them. Used amounts come from the
ledger that the scheduler itself uses, so the report cannot disagree with it. The history of pods comes from the
journal, and the reason of a pending pod from the last cycle.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from stromboli.api import Condition, Job, Pod, PodGroup, Queue, Reservation, key, names
from stromboli.api.quantity import amounts, format_amount
from stromboli.api.timestamps import format_timestamp, parse_timestamp
from stromboli.api.upstream import UpstreamGroup, shown_key, with_status
from stromboli.cluster import Cluster, JobKey, QueueName, ResourceAxis, Status, TaskKey, Vector
from stromboli.cluster.ledger import ON_NODE, SHARED
from stromboli.cluster.queue_guarantees import nodes_in_force
from stromboli.cluster.queue_index import unoffered_by, with_queues_below
from stromboli.scheduling.decisions import PatchGroup, PatchPod, PatchReservation
from stromboli.scheduling.explanation.orphans import orphans, why_reservation_waits
from stromboli.scheduling.explanation.reasons import Code, no_group, no_queue
from stromboli.simulation.engine import Engine
from stromboli.simulation.group_history import GroupRecord
from stromboli.simulation.journal import Event, PodRecord
from stromboli.simulation.virtual_time import from_wall_clock, microseconds, to_seconds, wall_clock

from .summary import build_summary
from .volume_report import claims, volumes

Section = dict[str, Any]

_FINAL_PHASES = ("Completed", "Failed", "Terminated", "Aborted")


def build_report(engine: Engine, topology_keys: Sequence[str] = ()) -> Section:
    """`topology_keys`: labels of nodes that make domains, by the scheduler's configuration."""
    engine.cluster.snapshot()  # undoes tentative changes of the last cycle
    orphaned = list(orphans(engine.cluster, wall_clock(microseconds(engine.end))))  # no cycle considers them
    return {
        "end": engine.end,
        "events": msgspec.to_builtins(engine.journal.events),
        "pods": _pods(engine, {one.task: one for one in orphaned if isinstance(one, PatchPod)}),
        "podGroups": _groups(engine, {one.job: one for one in orphaned if isinstance(one, PatchGroup)}, topology_keys),
        "jobs": _jobs(engine),
        "queues": _queues(engine),
        "namespaces": _namespaces(engine),
        "nodes": _nodes(engine.cluster, engine.cycle.kept, nodes_in_force(engine.world.store.list(Queue))),
        "summary": build_summary(engine),
        "reservations": _reservations(
            engine, {one.reservation: one for one in orphaned if isinstance(one, PatchReservation)}
        ),
        "claims": claims(engine.world.store),
        "volumes": volumes(engine.world.store),
    }


def encode_report(report: Section) -> bytes:
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


def encode_event(event: Event) -> bytes:
    return msgspec.json.encode(event) + b"\n"


def _pods(engine: Engine, orphaned: Mapping[TaskKey, PatchPod]) -> Section:
    pods: Section = {}
    for pod_key in sorted(engine.journal.pods):
        record = engine.journal.pods[pod_key]
        section: Section = msgspec.to_builtins(record)
        section["queue"] = engine.journal.queue_of(record)
        section["podGroup"] = shown_key(record.podGroup, engine.journal.groups.groups)
        if record.phase == "Pending":
            orphan = orphaned.get(TaskKey(pod_key))
            told = _pending_reason(engine, pod_key, record) if orphan is None else (orphan.reason, orphan.message)
            section["reason"], section["message"] = told
        pods[pod_key] = section
    return pods


def _pending_reason(engine: Engine, pod_key: str, record: PodRecord) -> tuple[str, str]:
    explanation = engine.cycle.waiting.get(TaskKey(pod_key))
    if explanation is not None:
        return explanation.code, explanation.message
    return _unscheduled_reason(engine, pod_key, record)


def _unscheduled_reason(engine: Engine, pod_key: str, record: PodRecord) -> tuple[str, str]:
    """Why the scheduler does not consider a pod: another scheduler, or a group or queue that does not exist."""
    store = engine.world.store
    pod = store.get(Pod, pod_key)
    if pod is not None and pod.spec.scheduler_name != names.DEFAULT_SCHEDULER:
        message = f'Its scheduler is "{pod.spec.scheduler_name}"; only "{names.DEFAULT_SCHEDULER}" runs here.'
        return "OtherScheduler", message
    group = record.podGroup
    if group and store.get(PodGroup, group) is None:
        return Code.NO_POD_GROUP, no_group(group)
    queue = engine.journal.queue_of(record)
    if store.get(Queue, queue) is None:
        return Code.NO_QUEUE, no_queue(queue)
    return "", ""


def _groups(engine: Engine, orphaned: Mapping[JobKey, PatchGroup], topology_keys: Sequence[str]) -> Section:
    counted: dict[str, dict[str, int]] = defaultdict(lambda: {"Running": 0, "Pending": 0})
    for pod in engine.world.store.list(Pod):
        record = engine.journal.pods[key(pod)]
        if record.phase in ("Running", "Pending") and pod.metadata.deletion_timestamp is None:
            counted[record.podGroup][record.phase] += 1
    members: dict[str, list[PodRecord]] = defaultdict(list)
    for record in engine.journal.pods.values():
        members[record.podGroup].append(record)
    groups: Section = {}
    for group in engine.world.store.list(PodGroup):
        migration = group.status.migration_state
        orphan = orphaned.get(JobKey(key(group)))
        groups[shown_key(key(group), engine.journal.groups.groups)] = {
            "phase": group.status.phase,
            "running": counted[key(group)]["Running"],
            "pending": counted[key(group)]["Pending"],
            "conditions": [_condition(condition) for condition in _conditions(group, orphan, engine.end)],
            "migrationState": None if migration is None else migration.phase,
            **_times(engine, engine.journal.groups.groups[key(group)], _group_end(members[key(group)])),
            "pods": _phases(members[key(group)]),
            "domain": _domain(engine.cluster, group, members[key(group)], topology_keys),
        }
    return groups


def _domain(
    cluster: Cluster, group: PodGroup, members: Iterable[PodRecord], topology_keys: Sequence[str]
) -> str | None:
    """The lowest domain that has all its running pods; None if there is none."""
    label = group.topology_key if isinstance(group, UpstreamGroup) else ""
    tree = cluster.topology.by_label(label) if label else cluster.topology.tree(topology_keys)
    nodes = cluster.ledger.table.by_name
    found = tree.around(nodes[one.node].row for one in members if one.phase == "Running" and one.node in nodes)
    return None if found is None else found.name


def _conditions(group: PodGroup, orphan: PatchGroup | None, end: float) -> Sequence[Condition]:
    """Those of a group of scheduling.k8s.io are as they are written."""
    if isinstance(group, UpstreamGroup):
        if orphan is not None:
            group = with_status(group, orphan.applied_to(group).status, format_timestamp(wall_clock(microseconds(end))))
        return group.original.status.conditions
    return orphan.conditions if orphan else group.status.conditions


def _jobs(engine: Engine) -> Section:
    journal = engine.journal
    members: dict[str, list[PodRecord]] = defaultdict(list)
    for pod_key, record in journal.pods.items():
        kind, _, name = journal.owners[pod_key].partition(" ")
        if kind == Job.__name__:
            members[f"{pod_key.partition('/')[0]}/{name}"].append(record)
    jobs: Section = {}
    for job in engine.world.store.list(Job):
        state = job.status.state
        has_ended = state.phase in _FINAL_PHASES and state.last_transition_time is not None
        ended = _seconds(state.last_transition_time) if has_ended else None
        submitted = journal.jobs[key(job)]
        group = journal.groups.of_job(job)
        times = GroupRecord(submitted) if group is None else replace(group, submitted=submitted)
        jobs[key(job)] = {
            "phase": state.phase or "Pending",
            **_times(engine, times, ended),
            "pods": _phases(members[key(job)]),
        }
    return jobs


def _times(engine: Engine, record: GroupRecord, ended: float | None) -> Section:
    """`waited` lasts until the minimum ran, or until the end while it waits."""
    waited = record.waited(engine.end if ended is None else ended)
    return {
        "submitted": record.submitted,
        "admitted": record.admitted,
        "started": record.started,
        "ended": ended,
        "waited": waited,
    }


def _group_end(pods: list[PodRecord]) -> float | None:
    """When the last pod of a group ended; None while there is one that has not, or none at all."""
    ends = [pod.finished for pod in pods]
    finished = [end for end in ends if end is not None]
    return max(finished) if finished and len(finished) == len(ends) else None


def _phases(pods: list[PodRecord]) -> dict[str, int]:
    return dict(sorted(Counter(pod.phase for pod in pods).items()))


def _condition(condition: Condition) -> Section:
    return {
        "type": condition.type,
        "status": condition.status,
        "reason": condition.reason,
        "message": condition.message,
        "lastTransitionTime": _seconds(condition.last_transition_time),
    }


def _seconds(timestamp: str | None) -> float | None:
    return None if timestamp is None else to_seconds(from_wall_clock(parse_timestamp(timestamp)))


def _queues(engine: Engine) -> Section:
    cluster = engine.cluster
    queues: Section = {}
    allocated = with_queues_below(cluster.queues.values(), lambda queue: queue.allocated)
    others = unoffered_by(cluster.tasks.values(), SHARED, lambda task: task.job and task.job.queue.name)
    unoffered = with_queues_below(cluster.queues.values(), lambda queue: others.get(queue.name, Counter()))
    for queue in engine.world.store.list(Queue):
        name = QueueName(queue.metadata.name)
        locked = queue.status.reservation
        queues[name] = {
            "state": queue.status.state or "Open",
            "allocated": _format({**_without_pods(cluster.axis, allocated[name]), **unoffered[name]}),
            "deserved": _format(engine.cycle.deserved.get(name, {})),
            "reservation": {"nodes": sorted(locked.nodes), "resource": _format(amounts(locked.resource))},
            "conditions": [_condition(condition) for condition in queue.status.conditions],
        }
    return queues


def _namespaces(engine: Engine) -> Section:
    """Every namespace that ever had pods in a queue, with its present allocation there."""
    cluster = engine.cluster
    pairs = {
        (engine.journal.queue_of(record), pod_key.partition("/")[0]) for pod_key, record in engine.journal.pods.items()
    }
    others = unoffered_by(
        cluster.tasks.values(), SHARED, lambda task: (task.job and task.job.queue.name, task.namespace)
    )
    namespaces: Section = {}
    for queue_name, namespace in sorted(pair for pair in pairs if pair[0]):
        queue = cluster.queues.get(QueueName(queue_name))
        inside = None if queue is None else queue.by_namespace.get(namespace)
        offered = {} if inside is None else _without_pods(cluster.axis, inside)
        known = cluster.namespaces.get(namespace)
        namespaces[f"{queue_name}/{namespace}"] = {
            "allocated": _format({**offered, **others.get((QueueName(queue_name), namespace), {})}),
            "weight": 1 if known is None else known.weight,
        }
    return namespaces


def _nodes(cluster: Cluster, kept: Mapping[str, Iterable[JobKey]], locked_by: Mapping[str, str]) -> Section:
    """`kept`: by node, jobs that keep room there until lent room is returned; `locked_by`: by node, the queue that it
    is locked for."""
    table, promised = cluster.ledger.table, cluster.ledger.promised()
    occupying = unoffered_by(cluster.tasks.values(), ON_NODE, lambda task: task.node and task.node.name)
    nodes: Section = {}
    for node in table.nodes:
        allocatable = dict(sorted(node.allocatable.items()))
        none = dict.fromkeys((resource for resource in allocatable if resource != "pods"), 0)
        held = _without_pods(cluster.axis, table.held[node.row])
        used = _without_pods(cluster.axis, table.used[node.row] - table.held[node.row])
        waiting = promised.get(node.name, [])
        kept_free = sum((task.request for task in waiting), start=cluster.axis.zeros())
        nodes[node.name] = {
            "allocatable": _format(allocatable),
            "used": _format({**none, **used, **occupying.get(node.name, {})}),
            "held": _format({**none, **held}),
            "reserved": _format(_without_pods(cluster.axis, table.reserved[node.row])),
            "reservedFor": sorted(
                shown_key(job, cluster.jobs) for job in {*_reserved_for(cluster, node.name), *kept.get(node.name, ())}
            ),
            "promised": _format(_without_pods(cluster.axis, kept_free)),
            "promisedTo": sorted({shown_key(task.job.key, cluster.jobs) for task in waiting if task.job is not None}),
            "lockedBy": locked_by.get(node.name),
            **_scale_down(node.object.metadata.annotations),
        }
    return nodes


def _scale_down(annotations: Mapping[str, str]) -> dict[str, bool]:
    """Whether cluster-autoscaler must leave the node alone; nothing for the nodes that it may remove."""
    return {"scaleDownDisabled": True} if annotations.get(names.SCALE_DOWN_DISABLED) == "true" else {}


def _reserved_for(cluster: Cluster, node_name: str) -> set[JobKey]:
    tasks = cluster.nodes[node_name].tasks.values()
    return {task.job.key for task in tasks if task.status is Status.RESERVED and task.job is not None}


def _reservations(engine: Engine, orphaned: Mapping[str, PatchReservation]) -> Section:
    """Those that have ended stay in the output, like pods, also after they were deleted."""
    present = {key(reservation): reservation for reservation in engine.world.store.list(Reservation)}
    reservations: Section = {}
    for name, reservation in sorted((engine.journal.ended_reservations | present).items()):
        orphan = orphaned.get(name)
        told = reservation if orphan is None else orphan.applied_to(reservation)
        reason, message = why_reservation_waits(told)
        reservations[name] = {
            "phase": reservation.status.phase,
            "node": reservation.status.node_name,
            "allocatable": _format(amounts(reservation.status.allocatable)),
            "allocated": _format(amounts(reservation.status.allocated)),
            "owners": sorted(f"{owner.namespace}/{owner.name}" for owner in reservation.status.current_owners),
            "reason": reason,
            "message": message,
        }
    return reservations


def _without_pods(axis: ResourceAxis, vector: Vector) -> dict[str, int]:
    """Amounts by resource, without the resource "pods", which shares are not measured in."""
    return {resource: amount for resource, amount in axis.amounts(vector).items() if resource != "pods"}


def _format(exact: Mapping[str, int]) -> dict[str, str]:
    return {resource: format_amount(resource, exact[resource]) for resource in sorted(exact)}
