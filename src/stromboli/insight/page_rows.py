"""A picture of a cluster as rows of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from stromboli.page import JobRow, NamespaceRow, NodeRow, QueueRow

from .picture import Picture

_DIGITS = 6


def queue_rows(picture: Picture, jobs: Iterable[JobRow]) -> list[QueueRow]:
    """`jobs`: those of the page, whose states are counted."""
    states = Counter((job.queue, job.state) for job in jobs)
    return [
        QueueRow(
            name=queue.name, state=queue.state, parent=queue.parent, weight=queue.weight, allocated=queue.allocated,
            deserved=queue.deserved, borrowed=queue.borrowed, lent=queue.lent, capability=queue.capability,
            guarantee=queue.guarantee, locked=queue.locked_nodes, share=round(queue.share, _DIGITS),
            deserved_share=round(queue.deserved_share, _DIGITS), running=states[queue.name, "running"],
            waiting=states[queue.name, "waiting"],
        )
        for queue in picture.queues
    ]  # fmt: skip


def namespace_rows(picture: Picture) -> list[NamespaceRow]:
    return [
        NamespaceRow(
            key=f"{one.queue}/{one.namespace}", weight=one.weight, allocated=one.allocated,
            share=round(one.share, _DIGITS),
        )
        for one in picture.namespaces
    ]  # fmt: skip


def node_rows(picture: Picture) -> list[NodeRow]:
    return [
        NodeRow(
            name=node.name, allocatable=node.allocatable, used=node.used, backfilled=node.backfilled,
            reserved=node.reserved, held=node.held, reserved_for=node.reserved_for, locked_by=node.locked_by,
            promised=node.promised, promised_to=node.promised_to,
            available=node.ready and node.schedulable, pods=node.pods, domains=node.domains,
        )
        for node in picture.nodes
    ]  # fmt: skip
