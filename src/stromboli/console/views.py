"""A picture of the cluster as tables."""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.insight import JobPicture, NodePicture, Picture, QueuePicture, document

from .output import Answer, Table
from .short_amounts import age, listed, percent, some, used_of

_PHASES = ("Running", "Inqueue", "Pending", "Completed", "Failed")  # the others follow by name


def status_view(picture: Picture) -> Answer:
    head = [
        f"Used: {used_of(picture.used, picture.capacity) or 'no nodes'}",
        f"Jobs: {_counted(picture.jobs_by_phase()) or 'none'}",
        f"Nodes: {_node_counts(picture.nodes)}",
    ]
    head += [f"Ignored: {line}" for line in picture.ignored]
    waiting = sum(job.waits for job in picture.jobs)
    first = next((job.name for job in picture.jobs if job.waits), "")
    waits = "1 job waits" if waiting == 1 else f"{waiting} jobs wait"
    hints = [f"{waits}: stromboli why {first}"] if waiting else []
    return Answer(_status_data(picture), [_queue_table(picture)], head, hints)


def _status_data(picture: Picture) -> dict[str, object]:
    whole = document(picture)
    return {
        "now": whole["now"],
        "capacity": whole["capacity"],
        "used": whole["used"],
        "queues": whole["queues"],
        "jobs": picture.jobs_by_phase(),
        "nodes": dict(_nodes_by_use(picture.nodes)),
        "ignored": picture.ignored,
    }


def _counted(numbers: dict[str, int]) -> str:
    order = [*(p for p in _PHASES if p in numbers), *(p for p in sorted(numbers) if p not in _PHASES)]
    return ", ".join(f"{numbers[phase]} {phase.lower()}" for phase in order)


def _nodes_by_use(nodes: Sequence[NodePicture]) -> list[tuple[str, int]]:
    return [
        ("total", len(nodes)),
        ("used", sum(node.use > 0 for node in nodes)),
        ("idle", sum(node.use == 0 for node in nodes)),
        ("reserved", sum(bool(node.reserved) for node in nodes)),
        ("locked", sum(bool(node.locked_by) for node in nodes)),
        ("held", sum(bool(node.held) for node in nodes)),
        ("backfilled", sum(bool(node.backfilled) for node in nodes)),
        ("cordoned", sum(not node.schedulable for node in nodes)),
        ("notReady", sum(not node.ready for node in nodes)),
    ]


def _node_counts(nodes: Sequence[NodePicture]) -> str:
    counts = _nodes_by_use(nodes)
    words = {"notReady": "not ready"}
    parts = [f"{number} {words.get(name, name)}" for name, number in counts[1:] if number]
    return f"{counts[0][1]} ({', '.join(parts)})" if parts else str(counts[0][1])


def _queue_table(picture: Picture) -> Table:
    table = Table(
        ("queue", "state", ">weight", ">share", ">deserved", "allocated", "borrowed", "lent", "waiting", "jobs",
         "+deserves", "+capability", "+guarantee", "+parent", "+locked nodes")
    )  # fmt: skip
    for queue in picture.queues:
        table.add(
            queue.name, queue.state, queue.weight, percent(queue.share), _deserved(queue), listed(queue.allocated),
            listed(queue.borrowed), listed(queue.lent), listed(queue.waiting), _counted(queue.jobs),
            listed(queue.deserved), listed(queue.capability), listed(queue.guarantee), queue.parent,
            some(queue.locked_nodes),
        )  # fmt: skip
    return table


def _deserved(queue: QueuePicture) -> str:
    return percent(queue.deserved_share) if queue.deserved else ""


def queues_view(picture: Picture) -> Answer:
    namespaces = Table(("queue", "namespace", ">weight", ">share", "allocated"))
    for one in picture.namespaces:
        namespaces.add(one.queue, one.namespace, one.weight, percent(one.share), listed(one.allocated))
    whole = document(picture)
    data = {"queues": whole["queues"], "namespaces": whole["namespaces"]}
    return Answer(data, [_queue_table(picture), *([namespaces] if namespaces.rows else [])])


def jobs_view(picture: Picture, jobs: Sequence[JobPicture]) -> Answer:
    table = Table(
        ("job", "queue", "phase", ">running", ">waiting", ">min", ">age", ">waits", "reason", "+priority", "+kind",
         "+requested", "+nodes", "+message")
    )  # fmt: skip
    for job in jobs:
        table.add(
            job.name, job.queue, job.phase, job.pods.running, job.pods.waiting, job.min_available,
            age(picture.now - job.created), "" if job.waiting_since is None else age(picture.now - job.waiting_since),
            job.reason, job.priority, job.kind, listed(job.requested), some(job.nodes), job.message,
        )  # fmt: skip
    first = next((job.name for job in jobs if job.waits), "")
    if not jobs:
        return Answer([], head=["No jobs."])
    return Answer(document(list(jobs)), [table], hints=[f"stromboli why {first}"] if first else [])


def nodes_view(picture: Picture) -> Answer:
    table = Table(
        ("node", "state", ">use", "used", "reserved", "for", "locked by", "held", "backfilled", ">pods", "+jobs",
         "+releasing", "+promised", "+to")
    )  # fmt: skip
    for node in picture.nodes:
        table.add(
            node.name, _state(node), percent(node.use), used_of(node.used, node.allocatable), listed(node.reserved),
            some(node.reserved_for), node.locked_by, listed(node.held), listed(node.backfilled), node.pods,
            some(node.jobs), listed(node.releasing), listed(node.promised), some(node.promised_to),
        )  # fmt: skip
    return Answer(document(picture.nodes), [table] if picture.nodes else [], [] if picture.nodes else ["No nodes."])


def _state(node: NodePicture) -> str:
    states = [*([] if node.ready else ["NotReady"]), *([] if node.schedulable else ["Cordoned"])]
    return ",".join(states) or "Ready"


def reservations_view(picture: Picture) -> Answer:
    table = Table(
        ("reservation", "phase", "node", "for", "queue", "holds", "used", ">age", ">expires", "reason", "+message")
    )
    for one in picture.reservations:
        expires = "" if one.expires is None else age(one.expires - picture.now)
        table.add(
            one.name, one.phase, one.node, one.owner, one.queue, listed(one.allocatable), listed(one.allocated),
            age(picture.now - one.created), expires, one.reason, one.message,
        )  # fmt: skip
    head = [] if picture.reservations else ["No Reservations."]
    return Answer(document(picture.reservations), [table] if picture.reservations else [], head)
