"""How long it takes to choose the nodes that are locked for queues.

Nodes of three sizes, some with GPUs, are used at random. Each queue is guaranteed a part of the cluster, every other
one also GPUs. Measured are one round in which every queue locks its nodes (`first`), and one in which all sets are
looked at again and kept (`again`), as they are every few seconds.

    python benchmarks/queue_locks.py [--nodes 5000] [--queues 20] [--share 0.01] [--repeat 5]

prints one JSON document; times are processor time in milliseconds, the best of all runs. `search` is the choice alone,
as when the nodes of each queue have to be found anew. The goal for the sizes above is less than 100 ms for it.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from msgspec.structs import replace

from stromboli.api import Guarantee, ObjectMeta, Queue, QueueSpec, ResourceList
from stromboli.controllers.queue_locks.demand import Demand
from stromboli.controllers.queue_locks.node_use import ClusterView
from stromboli.controllers.queue_locks.score import Nodes
from stromboli.controllers.queue_locks.search import best_set
from stromboli.controllers.queue_locks.worker import decide
from stromboli.scheduling.queue_locks import LockRules

RESOURCES = ("cpu", "memory", "nvidia.com/gpu")


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--queues", type=int, default=20)
    parser.add_argument("--share", type=float, default=0.01, help="part of the cluster that each queue is guaranteed")
    parser.add_argument("--repeat", type=int, default=5)
    given = parser.parse_args(arguments)
    json.dump(measure(given.nodes, given.queues, given.share, given.repeat), sys.stdout, indent=2)
    print()


def measure(number: int, count: int, share: float, repeat: int) -> dict[str, float]:
    view = random_view(number, count)
    queues = [guaranteed(view, name, share) for name in range(count)]
    rules = LockRules(Fraction(50))
    first = decide(view, queues, rules, 0.0, is_round=True)
    locked = sum(len(status.reservation.nodes) for status in first.values())
    served = [
        replace(
            queue,
            status=replace(
                queue.status,
                reservation=first[queue.metadata.name].reservation,
                conditions=first[queue.metadata.name].conditions,
            ),
        )
        for queue in queues
    ]
    targets = [
        Demand(view.vector({name: int(float(amount)) for name, amount in queue.spec.guarantee.resource.items()}))
        for queue in queues
    ]
    nodes = [
        Nodes(view.names, view.sizes, view.sizes, view.use_of([queue.metadata.name]), view.idle) for queue in queues
    ]
    return {
        "nodes": number,
        "queues": count,
        "locked": locked,
        "search_ms": best(repeat, lambda: [best_set(n, d, most=number) for n, d in zip(nodes, targets, strict=True)]),
        "first_ms": best(repeat, lambda: decide(view, queues, rules, 0.0, is_round=True)),
        "again_ms": best(repeat, lambda: decide(view, served, rules, 5.0, is_round=True)),
    }


def best(repeat: int, work: Callable[[], object]) -> float:
    times = []
    for _ in range(repeat):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return round(min(times) * 1000, 2)


def random_view(number: int, queues: int) -> ClusterView:
    rng = np.random.default_rng(0)
    cpu = rng.choice([32, 64, 96], number)
    sizes = np.array([cpu * 1000.0, cpu * rng.choice([4, 8], number) * 2.0**30, rng.choice([0, 0, 8], number) * 1.0])
    names = tuple(f"node-{i:05}" for i in range(number))
    used = np.zeros_like(sizes)
    by_queue = {}
    for queue in range(queues):
        part = rng.random(number) * (rng.random(number) < 2 / queues)
        mine = np.floor(np.minimum(sizes * part * 0.5, sizes - used))
        by_queue[f"q{queue:02}"] = mine
        used += mine
    everywhere = np.ones(number, dtype=np.bool_)
    return ClusterView(
        resources=RESOURCES, offered=frozenset(RESOURCES), names=names, sizes=sizes, used=used,
        fixed=np.zeros_like(sizes), counts=everywhere,
        usable=everywhere.copy(), row={name: row for row, name in enumerate(names)},
        column={name: column for column, name in enumerate(RESOURCES)}, by_queue=by_queue,
    )  # fmt: skip


def guaranteed(view: ClusterView, number: int, share: float) -> Queue:
    total = view.sizes.sum(axis=1) * share
    resource: ResourceList = {"cpu": str(int(total[0]) // 1000), "memory": str(int(total[1]))}
    if number % 2:
        resource["nvidia.com/gpu"] = str(int(total[2]))
    guarantee = Guarantee(policy="Best-Effort", resource=resource)
    return Queue(metadata=ObjectMeta(name=f"q{number:02}"), spec=QueueSpec(guarantee=guarantee))


if __name__ == "__main__":
    main()
