"""Binds that waited for volumes when the scheduler was restarted.

A scheduler that has just started finds pending pods that are nominated to a node, with claims for which a volume was
chosen or is made. It holds them again, before anything else is decided: otherwise plugins and the first actions of the
cycle would see pending pods where the last scheduler saw binds, and decide differently.

Pods are nominated also while others leave for them. Those do not fit yet, and are left to the promises of evictions. If
the room is there by now, it makes no difference: they would get it in this cycle, before all others.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from stromboli.api.volumes.claims import is_bound, is_for, selected_at
from stromboli.cluster import HeldBind, Job, JobKey, Node, Status, Task
from stromboli.scheduling.decisions import Notice
from stromboli.scheduling.explanation import volume_reasons as reasons
from stromboli.scheduling.gang import complete
from stromboli.scheduling.session import Session

from .chosen_nodes import GIVEN_BACK, ChosenNodes


def hold_again(session: Session) -> dict[Task, str]:
    """Returns the tasks that have lost their places meanwhile, and why: a volume could not be made, or a node was lost,
    or their job cannot start without one to which that happened."""
    jobs: dict[JobKey, Job] = {}
    lost: dict[Task, str] = {}
    for _, task in sorted(session.ledger.nominated.items()):
        if task.job is None:
            continue
        given_up = next((claim for claim in task.volumes.claims if claim in session.snapshot.volumes.given_up), "")
        if given_up:
            lost[task] = reasons.provisioner_gave_up(given_up)
        if given_up or _has_chosen_volumes(session, task):
            jobs[task.job.key] = task.job
    for _, job in sorted(jobs.items()):
        _hold_job(session, job)
        if not job.held and (_has_lost_a_node(session, job) or any(task in lost for task in _nominated(session, job))):
            lost |= {task: "" for task in _nominated(session, job) if task not in lost}
    if jobs:
        session.list_waiting()
    return lost


def _has_chosen_volumes(session: Session, task: Task) -> bool:
    """Whether all its claims have a volume, or one is made for the node that it is nominated to."""
    index = session.snapshot.volumes
    claims = [index.claims.get(claim) for claim in task.volumes.claims]
    return bool(claims) and all(
        claim is not None and (is_bound(claim) or selected_at(claim) is not None or _named(session, key))
        for key, claim in zip(task.volumes.claims, claims, strict=True)
    )


def _named(session: Session, key: str) -> str:
    """The volume that names an open claim; "" if there is none."""
    index = session.snapshot.volumes
    claim = index.claims[key]
    return min((name for name, one in index.naming.get(key, {}).items() if is_for(one, claim)), default="")


def _hold_job(session: Session, job: Job) -> None:
    """All tasks of a job that still have their place, if the job can start with them."""
    ledger = session.ledger
    tasks = [t for t in sorted(job.tasks.values(), key=lambda task: task.key) if _is_to_be_held(session, t)]
    placed: list[Task] = []
    for task in tasks:
        node = session.nodes.by_name[task.nominated]
        if _fits(session, task, node):
            ledger.settle(task, Status.BINDING, node)
            placed.append(task)
    if not complete(job):
        for task in placed:
            ledger.settle(task, Status.PENDING, None)
        return
    if placed:
        ledger.hold(job, placed, [_held(session, task) for task in placed])


def give_up_places(session: Session, lost: Mapping[Task, str]) -> None:
    """These tasks give their places back, as they would have if they had been held."""
    for task, why in lost.items():
        if why or not session.state(ChosenNodes).why_not(task, task.nominated):  # the others were told
            told = reasons.place_given_back(task.nominated, why or reasons.mate_failed())
            session.cycle.decisions.append(Notice("Pod", task.key, GIVEN_BACK, told, warning=True))
        session.ledger.nominate(task, "")


def _has_lost_a_node(session: Session, job: Job) -> bool:
    """Not if pods are leaving there: then the job was promised the place, and that is another matter."""
    tasks, nodes = _nominated(session, job), session.nodes
    present = [nodes.by_name[task.nominated] for task in tasks if task.nominated in nodes.by_name]
    if any(nodes.releasing[node.row].any() for node in present):
        return False
    return any(session.state(ChosenNodes).why_not(task, task.nominated) for task in tasks)


def _nominated(session: Session, job: Job) -> list[Task]:
    return [task for _, task in sorted(job.tasks.items()) if task.key in session.ledger.nominated]


def _is_to_be_held(session: Session, task: Task) -> bool:
    if not task.nominated or task.status is not Status.PENDING or task.gated:
        return False
    if any(claim in session.snapshot.volumes.given_up for claim in task.volumes.claims):
        return False
    if task.nominated not in session.nodes.by_name or session.ledger.holdings_on.get(task.nominated):
        return False  # what a Reservation holds there may be for the task
    return not task.volumes.claims or _has_chosen_volumes(session, task)


def _fits(session: Session, task: Task, node: Node) -> bool:
    if session.state(ChosenNodes).why_not(task, node.name):
        return False
    return bool((np.asarray(session.nodes.idle[node.row]) >= task.request).all())


def _held(session: Session, task: Task) -> HeldBind:
    """As it was before the restart."""
    index = session.snapshot.volumes
    since, waits, volumes = session.now, [], {}
    for key in task.volumes.claims:
        claim = index.claims[key]
        if is_bound(claim):
            continue
        waits.append(key)
        chosen = selected_at(claim)
        since = since if chosen is None else min(since, chosen)
        if volume := _named(session, key):
            volumes[key] = volume
    return HeldBind(task.nominated, since, tuple(waits), volumes, standing=True)
