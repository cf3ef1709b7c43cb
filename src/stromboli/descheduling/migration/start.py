"""The first writes of a plan: nodes set aside for the job it is for, a place for each successor, and what is planned.

Nodes are set aside first, so that what the moves free goes to the job. A descheduler that is killed in between leaves a
plan with fewer Reservations than moves; the next one gives it up.
"""

from __future__ import annotations

from msgspec.structs import replace

from stromboli.api import Pod, PodGroup, Reservation, group_name_of, names
from stromboli.api.migration_reservations import migration_reservation
from stromboli.api.timestamps import format_timestamp
from stromboli.api.waiting_reservations import waiting_name, waiting_reservation
from stromboli.descheduling.planning import Objects, Plan

from .group_status import planned
from .writes import PLANNED, RESERVED, AnnotateNode, CreateReservation, RemovePod, Report, UpdateGroup, Write


def start_plan(plan: Plan, objects: Objects, now: float) -> list[Write]:
    """Nothing, if an object of the plan has changed meanwhile."""
    if plan.removals:
        return _removals(plan, objects)
    return _first_writes(plan, objects, now)


def _removals(plan: Plan, objects: Objects) -> list[Write]:
    present = [(each, objects.get(Pod, each.pod)) for each in plan.removals]
    return [
        RemovePod(each.pod, each.uid, plan.plugin, each.why)
        for each, pod in present
        if pod is not None and pod.metadata.uid == each.uid
    ]


def _first_writes(plan: Plan, objects: Objects, now: float) -> list[Write]:
    pods = {move.pod: objects.get(Pod, move.pod) for move in plan.moves}
    if any(pod is None or pod.metadata.uid != move.uid for move, pod in zip(plan.moves, pods.values(), strict=True)):
        return []
    places = _places(plan, objects)
    if places is None:
        return []
    writes: list[Write] = list(places)
    for place in plan.places:
        waiting = objects.get(Pod, place.pod)
        if waiting is not None and objects.get(Reservation, waiting_name(waiting)) is None:
            message = f"Pods are moved away from node {place.node}."
            writes.append(Report(RESERVED, place.pod, waiting.metadata.uid, place.node, plan.plugin, message))
    by_group: dict[str, list[Reservation]] = {}
    reservations = []
    for move in plan.moves:
        pod = pods[move.pod]
        assert pod is not None
        group_key = f"{pod.metadata.namespace}/{group_name_of(pod)}"
        reservation = migration_reservation(
            pod, objects.get(PodGroup, group_key), move.target,
            plan=plan.name, moves=len(plan.moves), job=str(plan.job or ""), cooldown=plan.cooldown,
        )  # fmt: skip
        reservations.append(reservation)
        by_group.setdefault(group_key, []).append(reservation)
    writes += [CreateReservation(reservation) for reservation in reservations]
    for group_key, of_group in sorted(by_group.items()):
        group = objects.get(PodGroup, group_key)
        if group is not None:
            writes.append(UpdateGroup(planned(group, of_group, now)))
    writes += _marked_sources(plan, now)
    for move in plan.moves:
        message = f"It moves from node {move.source} to node {move.target}: this {plan.goal}."
        writes.append(Report(PLANNED, move.pod, move.uid, move.target, plan.plugin, message))
    return writes


def _places(plan: Plan, objects: Objects) -> list[CreateReservation] | None:
    """Reservations in phase Waiting for the pods that the plan makes room for; None if one of them waits no more."""
    created = []
    for place in plan.places:
        pod = objects.get(Pod, place.pod)
        group = None if pod is None else objects.get(PodGroup, f"{pod.metadata.namespace}/{group_name_of(pod)}")
        if pod is None or group is None or pod.spec.node_name:
            return None
        if objects.get(Reservation, waiting_name(pod)) is not None:
            continue  # it holds this node already
        waiting = waiting_reservation(pod, group, place.node)
        annotations = {**waiting.metadata.annotations, names.MIGRATION_PLAN: plan.name}
        created.append(CreateReservation(replace(waiting, metadata=replace(waiting.metadata, annotations=annotations))))
    return created


def _marked_sources(plan: Plan, now: float) -> list[Write]:
    """From now on the scheduler prefers other nodes, so that the sources are not filled again."""
    sources = sorted({move.source for move in plan.moves})
    until = format_timestamp(now + plan.cooldown)
    marks: dict[str, str | None] = {names.COOLDOWN_UNTIL: until, names.EMPTIED_FOR: str(plan.job or "")}
    return [AnnotateNode(source, dict(marks)) for source in sources] if plan.cooldown else []
