"""Which locks count in this cycle.

A Queue's status may be a few seconds old, so it is not taken for granted. The spec beats it: a queue that is closed, or
whose guarantee no longer locks nodes, locks none. A node that is in two statuses is the one's that goes first. A node
that is not ready is nobody's: it offers nothing. And where a node was set aside for a starving job of another queue at
the same moment, that wins until the controllers have seen it.

This happens before plugins are opened, because they divide the cluster when they are.
"""

from __future__ import annotations

from stromboli.cluster import Node, Queue, QueueName, Status
from stromboli.cluster.queue_guarantees import nodes_in_force, queues_below
from stromboli.scheduling.session import Session

from .books import LockBooks
from .lock_arguments import lock_rules


def lock_nodes(session: Session) -> None:
    """Enter the locks in the ledger, and what follows from them in the books."""
    ledger = session.ledger
    is_configured = lock_rules(session.configuration) is not None
    locks = _locks(session) if is_configured else {}
    for name in [name for name in ledger.locked if name not in locks]:
        ledger.lock(ledger.locked[name], None)
    for name, (queue, opens_to) in sorted(locks.items()):
        node = session.nodes.by_name[name]
        if node.lock is None or node.lock.owner is not queue or node.lock.opens_to != opens_to:
            ledger.lock(node, queue, opens_to)
    if is_configured:
        session.books = LockBooks(session)
    owners = {owner.name: owner for owner, _ in locks.values()}
    session.cycle.idle_on_locked_nodes = {name: session.amounts(owners[name].unused) for name in sorted(owners)}


def _locks(session: Session) -> dict[str, tuple[Queue, frozenset[QueueName]]]:
    """By node: whose it is, and the queues that may use it."""
    wanted = nodes_in_force([queue.object for queue in session.queues.values() if queue.object is not None])
    below = queues_below({name: queue.parent for name, queue in session.queues.items()}) if wanted else {}
    locks: dict[str, tuple[Queue, frozenset[QueueName]]] = {}
    for name, owner in wanted.items():
        node = session.nodes.by_name.get(name)
        opens_to = frozenset(QueueName(member) for member in below[owner])
        if node is not None and node.ready and not _is_set_aside(node, opens_to):
            locks[name] = (session.queues[QueueName(owner)], opens_to)
    return locks


def _is_set_aside(node: Node, opens_to: frozenset[QueueName]) -> bool:
    """Whether room is set aside on a node for a job of another queue."""
    return any(
        task.status is Status.RESERVED and task.job is not None and task.job.queue.name not in opens_to
        for task in node.tasks.values()
    )
