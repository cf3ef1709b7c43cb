"""Rule 13. What the job is told.

The condition says what is missing on each node. Its time is therefore when something drained last, which outlives the
scheduler: from it follows which holders are stuck.
"""

from __future__ import annotations

from collections.abc import Iterator

from stromboli.api.quantity import stated_amount
from stromboli.cluster import OCCUPYING, Job, Node, Status, Task
from stromboli.scheduling.callbacks import GroupCondition
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.reserved_node_reasons import reserved_nodes, starving_reserved, turn
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .holders import BACK_IN_LINE, CANNOT_START, RESERVED, STARVING, TURN, condition_time, holders
from .reserve_arguments import Starvation
from .turn_length import longest_hold, turn_began


def note_progress(session: Session) -> None:
    """At the end of a session, for every job that room is set aside for."""
    for job in holders(session).values():
        if reserved_tasks(job):
            session.notes.of(job).said[Code.STARVING_RESERVED] = _sentence(session, job)
    hopeless = session.state(Starvation).cannot_start
    for job in session.jobs if hopeless else ():
        if job.key in hopeless:
            session.notes.of(job).never = hopeless[job.key]


def starving_conditions(session: Session, job: Job) -> Iterator[GroupCondition]:
    """The group's conditions about its starvation, if it has any."""
    starvation = session.state(Starvation)
    if job.key in starvation.cannot_start:
        yield GroupCondition(STARVING, CANNOT_START, starvation.cannot_start[job.key])
    elif job.key in starvation.limits:
        yield GroupCondition(STARVING, Code.RESERVATION_LIMIT_EXCEEDED, starvation.limits[job.key])
    elif job.counts[Status.RESERVED]:
        missing = [(node.name, _missing(session, node, tasks)) for node, tasks in _by_node(job)]
        yield GroupCondition(STARVING, RESERVED, reserved_nodes(missing))
        if starvation.rules is not None:
            hold = longest_hold(session, job, starvation.rules)
            yield GroupCondition(TURN, RESERVED, turn(hold), since=turn_began(session, job))
    elif job.key in starvation.gave_up_place:
        yield GroupCondition(STARVING, BACK_IN_LINE, starvation.gave_up_place[job.key])
    elif condition_time(job, STARVING, BACK_IN_LINE) is not None:
        assert job.object is not None
        yield from (
            GroupCondition(STARVING, BACK_IN_LINE, condition.message)
            for condition in job.object.status.conditions
            if condition.type == STARVING
        )


def _by_node(job: Job) -> list[tuple[Node, list[Task]]]:
    by_node: dict[str, tuple[Node, list[Task]]] = {}
    for task in reserved_tasks(job):
        if task.node is not None:
            by_node.setdefault(task.node.name, (task.node, []))[1].append(task)
    return [by_node[name] for name in sorted(by_node)]


def _missing(session: Session, node: Node, tasks: list[Task]) -> str:
    """What still has to drain on a node, as text; "" if nothing."""
    short = sum((task.request for task in tasks), start=-session.nodes.idle[node.row]).clip(min=0)
    missing = session.amounts(short)
    return " and ".join(f"{stated_amount(resource, amount)} {resource}" for resource, amount in missing.items())


def _sentence(session: Session, job: Job) -> str:
    parts = []
    for node, tasks in _by_node(job):
        others = [t.key for t in node.tasks.values() if t.status in OCCUPYING and t.job is not job]
        parts.append((node.name, _missing(session, node, tasks), others))
    return starving_reserved(parts)
