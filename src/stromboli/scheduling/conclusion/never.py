"""Gangs that can never start, however long they wait: users must read that first.

"Never" means: not with these queues and nodes, even if nothing else ran. `gang.empty_nodes` says what counts.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.cluster import Job, Queue, QueueName, Task, Vector
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code, reasons
from stromboli.scheduling.explanation.display_names import what_waits
from stromboli.scheduling.gang import EmptyNodes, first_beyond_cluster
from stromboli.scheduling.session import Session


def never_within_quota(session: Session, job: Job, whole: Vector) -> str:
    """Why so much can never start in the queue of a job, even if the queue were empty; "" if it can."""
    refusal = session.allocatable(job.queue, whole, credit=job.queue.allocated, lending=True)
    found = session.some_day(refusal) if refusal is not None and refusal.code == Code.QUEUE_OVER_QUOTA else None
    if found is None or found.need <= found.total:
        found = _beyond_capability(session, job, whole)
    if found is None:
        return ""
    return reasons.never_within_quota(what_waits(job), found, guaranteed=session.is_limited_by_guarantees(found))


def _beyond_capability(session: Session, job: Job, whole: Vector) -> Refusal | None:
    """The capability of a queue, or of one above it, that is too small whatever the nodes are. Only some plugins look
    at it."""
    queue: Queue | None = job.queue if session.points.allocatable else None
    seen = set()
    while queue is not None and queue.name not in seen:
        seen.add(queue.name)
        for name, column in session.axis.by_name() if queue.capability is not None else ():
            if queue.capability is not None and whole[column] > queue.capability[column]:
                need, most = int(whole[column]), int(queue.capability[column])
                return Refusal(Code.QUEUE_OVER_QUOTA, resource=name, need=need, total=most, subject=queue.name)
        queue = session.queues.get(QueueName(queue.parent))
    return None


def never_in_cluster(session: Session, job: Job, whole: Vector) -> str:
    """Why so much can never start in the cluster; "" if it can."""
    short = first_beyond_cluster(session, job, whole)
    return "" if short is None else reasons.never_in_cluster(what_waits(job), *short)


def never_on_nodes(session: Session, job: Job, tasks: Sequence[Task], missing: int) -> str:
    """Why the gang can never start on these nodes; "" if it can, or if no node matches at all: then the nodes say it
    better. `tasks`: all that may be placed, in order; `missing`: how many of them must be."""
    empty = session.state(EmptyNodes)
    for room, number in empty.shortfalls(job, tasks, missing):
        if room.usable and room.fit == 0:
            return reasons.never_on_a_node(what_waits(job), *(room.too_large or ("", 0, 0)))
        if room.usable:
            return reasons.never_on_all_nodes(number, room.fit)
    short = empty.beyond_cluster(job, tasks, missing)
    return "" if short is None else reasons.never_in_cluster(what_waits(job), *short)
