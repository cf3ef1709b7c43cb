"""Gates that pods keep until their queue has room for them.

An autoscaler adds a node for a pod that is unschedulable. For one that only waits for the quota of its queue, the node
would stay empty. So a pod can opt in, by an annotation, to a scheduling gate: until its queue can take it, it is not
unschedulable, and no autoscaler looks at it. Then the scheduler removes the gate, and from then on the pod waits like
any other, for room on nodes, which the autoscaler may add.

Between the two, the queue must not give the same room to somebody else: `promises`. Which gates are removed, and in
which order, is in `removal`.

All of it is in the objects. A pod that opted in and has no gate any more was promised its room, whoever was the
scheduler then.
"""

from __future__ import annotations

from typing import Final

from stromboli.scheduling.session import Session

from .promises import GatePromises
from .removal import remove_gates

__all__ = ["GatePromises", "open_queue_gates", "remove_gates"]

FEATURE: Final = "queue_gates"
"""The name under which the feature registers its callbacks."""


def open_queue_gates(session: Session) -> None:
    if not session.ledger.queue_gated:
        return
    promises = session.state(GatePromises)
    with session.registering(FEATURE):
        session.points.job_allocatable.add(promises.refuse)
        # Which pods opted in is no part of a job's kind.
        session.points.job_allocatable_differs.add(lambda job: bool(promises.kept_from(job)))
        session.points.close.add(lambda: remove_gates(session, at_end=True))
    remove_gates(session, at_end=False)
