"""Questions about nodes, answered by name: what the filters of a session say of a task, and how nodes score for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stromboli.cluster import Task, TaskKey

if TYPE_CHECKING:
    from stromboli.cluster import Cluster
    from stromboli.scheduling.session import Session


def task_of(known: Cluster, key: str) -> Task:
    return known.tasks[TaskKey(key if "/" in key else f"default/{key}")]


def refusals(session: Session, task: Task, *, ahead: bool = False) -> dict[str, str]:
    """The code of the reason by which each node turns the task away; nodes that take it are left out."""
    ids = session.placement.fitting(task, ahead=ahead).reasons.tolist()
    return {
        node.name: session.node_reasons[reason - 1].code
        for node, reason in zip(session.nodes.nodes, ids, strict=True)
        if reason
    }


def texts(session: Session, task: Task) -> set[str]:
    """What is wrong with the nodes that turn the task away."""
    return {session.node_reasons[reason - 1].text for reason in session.placement.fitting(task).reasons if reason}


def open_nodes(session: Session, task: Task, *, ahead: bool = False) -> list[str]:
    refused = refusals(session, task, ahead=ahead)
    return [node.name for node in session.nodes.nodes if node.name not in refused]


def scores(session: Session, task: Task, *, ahead: bool = False) -> dict[str, float]:
    values = session.placement.fitting(task, ahead=ahead).score.tolist()
    return {node.name: value for node, value in zip(session.nodes.nodes, values, strict=True)}
