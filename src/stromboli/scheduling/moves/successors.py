"""Places for the successors of pods that are moved.

The pod that leaves is still counted, so its successor's place costs its queue nothing: neither what the queue deserves
nor its limits are asked, and it waits for nobody's turn. It takes idle room on the node that the plan names, if that
passes the filters.
"""

from __future__ import annotations

from stromboli.api.reservations import is_migration, pinned_node
from stromboli.cluster import Job, Status
from stromboli.scheduling.session import Session


def is_successor(session: Session, job: Job) -> bool:
    """Whether the job stands for the place of a successor."""
    return bool(job.stands_for) and is_migration(session.snapshot.reservations[job.stands_for])


def place_successors(session: Session) -> None:
    waiting = [job for job in session.snapshot.stand_ins if job.counts[Status.PENDING] and is_successor(session, job)]
    for job in session.turns.each(sorted(waiting, key=lambda job: (job.created, job.key))):
        task = next(iter(job.tasks.values()))
        node = session.nodes.by_name.get(pinned_node(session.snapshot.reservations[job.stands_for]))
        refusal = session.pre_filter(task)
        if refusal is not None:
            session.notes.refuse(job, refusal)
        if node is None or refusal is not None:
            continue
        room = session.placement.room_now(job)[node.row]
        if session.placement.fitting(task).takes(node.row, room):
            statement = session.statement()
            if statement.allocate(task, node):
                statement.commit()
