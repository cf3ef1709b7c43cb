"""Queues and namespaces: what they have, deserve, borrow and lend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from stromboli.api import names
from stromboli.cluster import UNLIMITED, Cluster, Queue, QueueName, ResourceAxis, Vector
from stromboli.cluster.ledger import SHARED
from stromboli.cluster.queue_guarantees import nodes_in_force
from stromboli.cluster.queue_index import add_up, unoffered_by, with_queues_below

from .picture import Amounts, JobPicture, NamespacePicture, QueuePicture, count, share_of


def without_pods(axis: ResourceAxis, vector: Vector | None) -> Amounts:
    """By resource, without "pods", which shares are not measured in, and without what is not limited."""
    if vector is None:
        return {}
    return _limited(axis.amounts(vector))


def with_unoffered(amounts: Amounts, unoffered: Iterable[tuple[str, int]]) -> Amounts:
    """With what is requested and no node offers, in the order of names."""
    whole = dict(amounts)
    for name, amount in unoffered:
        whole[name] = whole.get(name, 0) + amount
    return dict(sorted(whole.items()))


def _limited(amounts: Amounts) -> Amounts:
    return {name: n for name, n in amounts.items() if name != "pods" and n < UNLIMITED}


def locks(cluster: Cluster) -> dict[str, str]:
    """The queue that each node is locked for."""
    return nodes_in_force(queue.object for queue in cluster.queues.values() if queue.object is not None)


def queue_pictures(cluster: Cluster, capacity: Amounts, jobs: Iterable[JobPicture]) -> list[QueuePicture]:
    phases: dict[str, list[str]] = {}
    wanted: dict[str, Counter[str]] = {}
    for job in jobs:
        phases.setdefault(job.queue, []).append(job.phase)
        wanted.setdefault(job.queue, Counter()).update(job.wanted)
    locked: dict[str, list[str]] = {}
    for node, owner in sorted(locks(cluster).items()):
        locked.setdefault(owner, []).append(node)
    found = sorted((queue for queue in cluster.queues.values() if queue.object is not None), key=lambda q: q.name)
    has = with_queues_below(found, lambda queue: queue.occupied)
    others = unoffered_by(cluster.tasks.values(), SHARED, lambda task: task.job and task.job.queue.name)
    unoffered = with_queues_below(found, lambda queue: others.get(queue.name, Counter()))
    waits = with_queues_below(found, lambda queue: wanted.get(queue.name, Counter()))
    return [
        _queue(
            cluster,
            queue,
            capacity,
            phases,
            locked,
            has=has[queue.name],
            waits=waits[queue.name],
            unoffered=unoffered[queue.name],
        )
        for queue in found
    ]


def _queue(
    cluster: Cluster, queue: Queue, capacity: Amounts, phases: Mapping[str, list[str]],
    locked: Mapping[str, list[str]], *, has: Vector, waits: Counter[str], unoffered: Counter[str],
) -> QueuePicture:  # fmt: skip
    """`has`, `waits`: what it has and waits for; `unoffered`: what it has of what no node offers. All with the queues
    below it."""
    assert queue.object is not None
    allocated = with_unoffered(without_pods(cluster.axis, has), unoffered.items())
    return QueuePicture(
        name=queue.name,
        state=queue.object.status.state or "Open",
        parent=queue.parent,
        weight=queue.weight,
        priority=queue.priority,
        allocated=allocated,
        waiting=dict(sorted(waits.items())),
        deserved={},
        borrowed={},
        lent={},
        capability=without_pods(cluster.axis, queue.capability),
        guarantee=without_pods(cluster.axis, queue.guarantee),
        share=share_of(allocated, capacity),
        deserved_share=0.0,
        jobs=count(phases.get(queue.name, ())),
        locked_nodes=locked.get(queue.name, []),
    )


def with_locked(queues: list[QueuePicture], idle: Mapping[QueueName, Amounts], capacity: Amounts) -> list[QueuePicture]:
    """The queues with what is idle on nodes that are locked for them or for queues below them: it counts as allocated
    there. `idle`: by the owner of the nodes."""
    known = {queue.name: queue for queue in queues}
    for owner, amount in idle.items():
        name, seen = str(owner), set[str]()
        while name in known and name not in seen:
            seen.add(name)
            allocated = dict(sorted(_sum([known[name].allocated, _limited(amount)]).items()))
            known[name] = replace(known[name], allocated=allocated, share=share_of(allocated, capacity))
            name = known[name].parent or names.ROOT_QUEUE
    return list(known.values())


def divide(queues: list[QueuePicture], deserved: Mapping[QueueName, Amounts], capacity: Amounts) -> list[QueuePicture]:
    """The queues with what they deserve, borrow and lend. Queues that have children share what the children have, so
    only leaves are added up. The queue `root` has what all have, so it can borrow from nobody."""
    if not deserved:
        return queues
    parents = {names.ROOT_QUEUE, *(queue.parent for queue in queues)}
    due = {queue.name: _limited(deserved.get(QueueName(queue.name), {})) for queue in queues}
    loans = _loans(queues, due)
    with_deserved = [
        replace(
            queue, deserved=due[queue.name], borrowed=loans[queue.name],
            deserved_share=share_of(due[queue.name], capacity),
        )
        for queue in queues
    ]  # fmt: skip
    leaves = [queue for queue in with_deserved if queue.name not in parents]
    borrowed = _sum(queue.borrowed for queue in leaves)
    unused = {queue.name: _unused(queue) for queue in leaves}
    spare = _sum(unused.values())
    return [
        replace(queue, lent=_lent(unused[queue.name], spare, borrowed)) if queue.name in unused else queue
        for queue in with_deserved
    ]


def _loans(queues: list[QueuePicture], due: Mapping[str, Amounts]) -> dict[str, Amounts]:
    """What each has beyond what it deserves. Where shares follow the tree, a queue deserves something for all below it,
    which may borrow from each other. Where they do not, it deserves something for its own pods only, and borrows what
    those below it borrow. Both hold for the smaller of the two."""
    above = {queue.name: queue.parent or names.ROOT_QUEUE for queue in queues}
    own = {queue.name: Counter(queue.allocated) for queue in queues}
    for queue in queues:
        if above[queue.name] in own:
            own[above[queue.name]].subtract(queue.allocated)
    summed = add_up({name: Counter(_beyond(has, due[name])) for name, has in own.items()}, above)
    loans = {}
    for queue in queues:
        whole = _beyond(queue.allocated, due[queue.name])
        loans[queue.name] = {name: min(n, parts) for name, n in whole.items() if (parts := summed[queue.name][name])}
    loans[names.ROOT_QUEUE] = {}
    return loans


def _beyond(has: Mapping[str, int], due: Amounts) -> Amounts:
    return {name: n - due.get(name, 0) for name, n in has.items() if n > due.get(name, 0)}


def _unused(queue: QueuePicture) -> Amounts:
    has = queue.allocated
    return {name: n - has.get(name, 0) for name, n in queue.deserved.items() if n > has.get(name, 0)}


def _lent(unused: Amounts, spare: Amounts, borrowed: Amounts) -> Amounts:
    """Of what queues do not use, as much is lent as others borrow. If they borrow less, each lends its part of it."""
    lent = {}
    for name, amount in unused.items():
        part = amount * min(borrowed.get(name, 0), spare[name]) // spare[name]
        if part:
            lent[name] = part
    return lent


def _sum(parts: Iterable[Amounts]) -> Amounts:
    total: Amounts = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, 0) + amount
    return total


def namespace_pictures(cluster: Cluster, capacity: Amounts, jobs: Iterable[JobPicture]) -> list[NamespacePicture]:
    """Every namespace that has jobs in a queue, or resources of it."""
    pairs = {(job.queue, job.namespace) for job in jobs}
    for name, queue in cluster.queues.items():
        pairs |= {(name, namespace) for namespace, held in queue.by_namespace.items() if held.any()}
    others = unoffered_by(cluster.tasks.values(), SHARED, lambda t: (t.job and t.job.queue.name, t.namespace))
    found = []
    for queue_name, namespace in sorted(pairs):
        inside = cluster.queues.get(QueueName(queue_name))
        allocated = without_pods(cluster.axis, None if inside is None else inside.by_namespace.get(namespace))
        allocated = with_unoffered(allocated, others.get((QueueName(queue_name), namespace), Counter()).items())
        known = cluster.namespaces.get(namespace)
        weight = 1 if known is None else known.weight
        found.append(NamespacePicture(queue_name, namespace, weight, allocated, share_of(allocated, capacity)))
    return found
