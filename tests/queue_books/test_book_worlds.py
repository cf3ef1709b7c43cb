"""Random worlds with locks, trees, foreign pods, cordons, lost nodes and pods that take their time to terminate.

In every cycle the books are compared with what a checker adds up from the objects alone, and the following must hold:

- what a queue has is what its pods use that do not terminate, and what is idle on nodes that are locked for it;
- all queues together never have more than the nodes have beside foreign pods;
- they never divide more than their pods use and what is free on nodes that take pods;
- pods of a queue never use more than its capability, terminating ones included.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest

from fairness.scenes import Document, Run, flat, patch, pods, queue, simulate
from stromboli.api import Node, Pod, PodGroup
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import parse_quantity
from stromboli.cluster import Cluster
from stromboli.controllers.queue_locks import QueueLocks
from stromboli.scheduling.decisions import Cycle
from stromboli.scheduling.queue_locks import lock_rules
from stromboli.scheduling.registry import Registry
from stromboli.simulation.virtual_time import START, wall_clock

CYCLES = 30
LOCKED = {"policy": "Best-Effort", "resource": {"nvidia.com/gpu": 1}}


def world(seed: int) -> list[Document]:
    dice = Random(seed)
    sizes = [dice.choice((4, 6, 8)) for _ in range(dice.randint(2, 4))]
    machines = []
    for number, size in enumerate(sizes):
        offers = {"cpu": size} | ({"nvidia.com/gpu": 1} if dice.random() < 0.5 else {})
        meta = {"name": f"n{number}"}
        machines.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "status": {"allocatable": offers}})
    lines = ["q0", "q1", "q2", "q3"]
    queues: list[Document] = []
    for name in lines:
        spec: dict[str, Any] = {"weight": dice.randint(1, 3)}
        if name != "q0" and dice.random() < 0.3:
            spec["parent"] = "q0"
        if dice.random() < 0.4:
            spec["capability"] = dice.randint(4, 10)
        document = queue(name, **spec)
        if dice.random() < 0.4 and "capability" not in document["spec"]:
            policy = dice.choice(("Best-Effort", "Guaranteed"))
            document["spec"]["guarantee"] = {**LOCKED, "policy": policy}
        queues.append(document)
    queues.append(patch("Queue", dice.choice(lines), {"spec": {"guarantee": LOCKED}}, at=dice.randint(3, 12)))
    work: list[Document] = []
    for number in range(dice.randint(6, 14)):
        times: dict[str, Any] = {"at": dice.randint(0, 15), "grace": dice.choice((0, 0, 3, 7))}
        ends = dice.choice(("run", "until", ""))
        if ends:
            times[ends] = times["at"] * (ends == "until") + dice.randint(2, 12)
        target, count, line = f"ns{dice.randint(1, 2)}/w{number}", dice.randint(1, 4), dice.choice(lines)
        work += pods(target, count, queue=line, cpu=dice.randint(1, 3), **times)
    for number in range(dice.randint(0, 3)):
        (stranger,) = pods(f"sys/f{number}", 1, queue="q1", cpu=1, at=dice.randint(0, 9), grace=dice.choice((0, 4)))
        where = dice.choice(machines)["metadata"]["name"]
        stranger["spec"] |= {"schedulerName": "default-scheduler", "nodeName": where}
        work.append(stranger)
    for _ in range(dice.randint(0, 3)):
        name, at = dice.choice(machines)["metadata"]["name"], dice.randint(1, 20)
        lost: Document = {"status": {"conditions": [{"type": "Ready", "status": dice.choice(("False", "True"))}]}}
        cordon: Document = {"spec": {"unschedulable": dice.random() < 0.6}}
        work.append(patch("Node", name, dice.choice((lost, cordon)), at=at))
    return flat(machines, queues, work)


class Checked(Run):
    """A run that checks the books before every cycle."""

    def new_locks(self) -> QueueLocks | None:
        rules = lock_rules(Registry(installed_plugins=(), installed_actions=()).default())
        return QueueLocks(lambda: rules, origin=wall_clock(START), step=1.0, follows_pods=True)

    def run(self, cluster: Cluster, now: float) -> Cycle:
        cluster.snapshot()
        cluster.validate()
        self._check(cluster)
        return super().run(cluster, now)

    def _check(self, cluster: Cluster) -> None:
        store = self.engine.world.store
        there = [p for p in store.list(Pod) if p.spec.node_name and p.status.phase not in ("Succeeded", "Failed")]
        nodes = {node.metadata.name: node for node in store.list(Node)}
        expected: Counter[str] = Counter()
        used: Counter[str] = Counter()
        physical: Counter[str] = Counter()
        taken: dict[str, Counter[str]] = {name: Counter() for name in nodes}  # by node and queue, "" for strangers
        for pod in there:
            cpu, line = pod_requests(pod.spec).get("cpu", 0), self._queue_of(pod)
            leaves = pod.metadata.deletion_timestamp is not None
            used[pod.spec.node_name] += cpu
            taken[pod.spec.node_name][f"{line}{'/leaves' if leaves else ''}"] += cpu
            physical[line] += cpu
            expected[line] += 0 if leaves else cpu
        offers = {name: int(node.status.allocatable["cpu"]) * 1000 for name, node in nodes.items()}
        for name, node in cluster.ledger.locked.items():
            assert node.lock is not None
            lock, owner = node.lock, node.lock.owner.name
            mine = {f"{below}/leaves" for below in lock.opens_to}  # these leave what is the owner's before and after
            others = sum(cpu for whose, cpu in taken[name].items() if whose not in mine)
            if _takes_pods(nodes[name]):
                expected[owner] += max(offers[name] - others, 0)
        has = {name: int(line.allocated[0]) for name, line in cluster.queues.items()}
        assert has == {name: expected[name] for name in has}
        foreign = {name: by[""] + by["/leaves"] for name, by in taken.items()}
        # A foreign pod may have been put on a node without room for it.
        assert sum(has.values()) <= sum(max(offers[name] - foreign[name], used[name] - foreign[name]) for name in nodes)
        leaving = {
            name: sum(cpu for whose, cpu in by.items() if whose.endswith("/leaves")) for name, by in taken.items()
        }
        free = sum(max(offers[n] - used[n] + leaving[n], 0) for n, node in nodes.items() if _takes_pods(node))
        idle = sum(int(line.unused[0]) for line in cluster.queues.values())
        ours = sum(cpu for line, cpu in expected.items() if line) - idle
        assert int(cluster.snapshot().divisible()[0]) == free + ours
        for name, line in cluster.queues.items():
            if line.capability is not None and int(line.capability[0]) < 1 << 40:
                lost = sum(
                    cpu for node, by in taken.items() for whose, cpu in by.items()
                    if whose == f"{name}/leaves" and not _is_ready(nodes[node])
                )  # fmt: skip
                assert physical[name] - lost <= int(line.capability[0])

    def _queue_of(self, pod: Pod) -> str:
        if pod.spec.scheduler_name != "volcano":
            return ""
        named = pod.metadata.annotations.get("scheduling.k8s.io/group-name", "")
        group = self.engine.world.store.get(PodGroup, f"{pod.metadata.namespace}/{named}")
        said = pod.metadata.annotations.get("scheduling.volcano.sh/queue-name", "")
        return said if group is None else group.spec.queue


def _is_ready(node: Node) -> bool:
    return all(c.status == "True" for c in node.status.conditions if c.type == "Ready")


def _takes_pods(node: Node) -> bool:
    return _is_ready(node) and not node.spec.unschedulable


@pytest.mark.parametrize("seed", range(40))
def test_the_books_are_right_in_every_cycle(seed: int) -> None:
    assert len(Checked(world(seed), cycles=CYCLES).binds) > 3


@pytest.mark.parametrize("seed", range(40, 52))
def test_the_report_adds_up(seed: int, tmp_path: Path) -> None:
    """As users read it, at three times of each world; and restarts change nothing."""
    documents = world(seed)
    restarts = [
        {"apiVersion": "sim.stromboli.io/v1", "kind": "Restart", "at": f"{second}s", "component": "all"}
        for second in range(25)
    ]
    for until in (7, 15, 24):
        report = simulate(tmp_path, documents, until=until)
        assert simulate(tmp_path, documents, restarts, until=until) == report
        queues, nodes = report["queues"], report["nodes"]
        parents = {d["metadata"]["name"]: d["spec"].get("parent", "") for d in documents if d["kind"] == "Queue"}
        tops = [name for name in queues if not parents.get(name)]
        strangers: Counter[str] = Counter(
            told["node"] for told in report["pods"].values() if told["queue"] == "" and told["phase"] == "Running"
        )
        most = sum(max(_cpu(n["allocatable"]), _cpu(n["used"])) - strangers[name] * 1000 for name, n in nodes.items())
        assert sum(_cpu(queues[name]["allocated"]) for name in tops) <= most
        for name, parent in parents.items():
            if parent in queues and name in queues:  # one that does not fit its parent is refused
                assert _cpu(queues[parent]["allocated"]) >= _cpu(queues[name]["allocated"])


def _cpu(amounts: dict[str, str]) -> int:
    return int(parse_quantity(amounts.get("cpu", "0")) * 1000)
