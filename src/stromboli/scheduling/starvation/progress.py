"""What users are told about nodes set aside for a job: what is missing there, and whose pods are waited for."""

from __future__ import annotations

from stromboli.api.quantity import format_amount
from stromboli.cluster import OCCUPYING, Job, Task
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.reasons import starving_reserved
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.session import Session

from .holders import STARVING, holders


def note_progress(session: Session) -> None:
    """At the end of a session, for every job that room is set aside for."""
    for job in holders(session).values():
        note = session.notes.of(job)
        note.said[Code.STARVING_RESERVED] = _sentence(session, job)
        nodes = sorted({t.node.name for t in reserved_tasks(job) if t.node is not None})
        if not any(kind == STARVING for kind, _, _ in note.conditions):
            note.conditions.append((STARVING, "Reserved", f"Reserved nodes: {', '.join(nodes)}."))


def _sentence(session: Session, job: Job) -> str:
    by_node: dict[str, list[Task]] = {}
    for task in reserved_tasks(job):
        if task.node is not None:
            by_node.setdefault(task.node.name, []).append(task)
    parts = []
    for name, tasks in sorted(by_node.items()):
        node = session.nodes.by_name[name]
        short = sum((task.request for task in tasks), start=-session.nodes.idle[node.row]).clip(min=0)
        missing = session.amounts(short)
        said = " and ".join(f"{format_amount(resource, amount)} {resource}" for resource, amount in missing.items())
        parts.append((name, said, [t.key for t in node.tasks.values() if t.status in OCCUPYING and t.job is not job]))
    return starving_reserved(parts)
