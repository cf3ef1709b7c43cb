"""Sixteen CPUs among queues and, inside each queue, among namespaces: the tables by which fair shares are defined.

The cluster is divided among the queues by weight, nobody getting more than is asked for; what a queue has is divided
among its namespaces in the same way. A namespace is judged by what it has in that queue alone, so one that works in two
queues has its share in both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from fairness.scenes import Document, flat, gang, in_namespaces, in_queues, job, nodes, pods, queue, simulate, weight


@dataclass(frozen=True)
class Table:
    queues: dict[str, int]  # weights
    asks: dict[str, int]  # CPUs, by queue/namespace
    gets: dict[str, int]
    weights: dict[str, int] = field(default_factory=dict)  # of namespaces

    def by_queue(self) -> dict[str, int]:
        return {
            name: sum(count for pair, count in self.gets.items() if pair.startswith(f"{name}/"))
            for name in self.queues
            if any(pair.startswith(f"{name}/") for pair in self.gets)
        }

    def times(self, factor: int) -> Table:
        """The same table on a cluster so many times as large."""
        return replace(
            self,
            asks={pair: count * factor for pair, count in self.asks.items()},
            gets={pair: count * factor for pair, count in self.gets.items()},
        )


# 16 / 2 queues = 8 each. q1: 8 / 2 = 4 and 4. q2: ns4 wants only 2 of its 4, the rest is ns3's.
EQUAL = Table(
    {"q1": 1, "q2": 1},
    asks={"q1/ns1": 5, "q1/ns2": 10, "q2/ns3": 10, "q2/ns4": 2},
    gets={"q1/ns1": 4, "q1/ns2": 4, "q2/ns3": 6, "q2/ns4": 2},
)
# 16 at 1 : 3 are 4 and 12. q1: 4 at 3 : 1 are 3 and 1. q2: 12 at 2 : 6 would be 3 and 9; ns4 wants 2, so ns3 gets 10.
WEIGHTED = Table(
    {"q1": 1, "q2": 3},
    weights={"ns1": 3, "ns2": 1, "ns3": 2, "ns4": 6},
    asks={"q1/ns1": 5, "q1/ns2": 10, "q2/ns3": 10, "q2/ns4": 2},
    gets={"q1/ns1": 3, "q1/ns2": 1, "q2/ns3": 10, "q2/ns4": 2},
)
# 16 at 1 : 3 are 4 and 12. q2: 12 at 2 : 6 are 3 and 9, whatever ns1 has in q1.
IN_BOTH = Table(
    {"q1": 1, "q2": 3},
    weights={"ns1": 2, "ns2": 6},
    asks={"q1/ns1": 4, "q2/ns1": 5, "q2/ns2": 20},
    gets={"q1/ns1": 4, "q2/ns1": 3, "q2/ns2": 9},
)
# Nobody asks for q1's 4, so all 16 are q2's: at 2 : 6 they are 4 and 12.
ONE_IDLE = Table(
    {"q1": 1, "q2": 3},
    weights={"ns1": 2, "ns2": 6},
    asks={"q2/ns1": 5, "q2/ns2": 20},
    gets={"q2/ns1": 4, "q2/ns2": 12},
)
TABLES = {"equal": EQUAL, "weighted": WEIGHTED, "in both": IN_BOTH, "one idle": ONE_IDLE}

Asking = Callable[[str, str, int], list[Document]]
"""(queue, namespace, CPUs): who asks for them."""


def as_pods(line: str, namespace: str, cpus: int) -> list[Document]:
    return pods(f"{namespace}/{line}", cpus, queue=line)


def as_pairs(line: str, namespace: str, cpus: int) -> list[Document]:
    return flat(*(gang(f"{namespace}/{line}-{number}", 2, queue=line) for number in range(cpus // 2)))


def as_one_job(line: str, namespace: str, cpus: int) -> list[Document]:
    return [job(f"{namespace}/{line}", cpus, queue=line)]


def as_many_jobs(line: str, namespace: str, cpus: int) -> list[Document]:
    return [job(f"{namespace}/{line}-{number}", 1, queue=line) for number in range(cpus)]


def as_jobs_of_two(line: str, namespace: str, cpus: int) -> list[Document]:
    return [job(f"{namespace}/{line}-{number}", 2, least=2, queue=line) for number in range(cpus // 2)]


def _parts(pair: str) -> tuple[str, str]:
    line, _, namespace = pair.partition("/")
    return line, namespace


def outcome(folder: Path, table: Table, asking: Asking, cluster: tuple[int, ...]) -> tuple[Document, ...]:
    """(CPUs by queue, CPUs by queue/namespace)"""
    report = simulate(
        folder,
        nodes(*cluster),
        [queue(name, weight=share) for name, share in table.queues.items()],
        [weight(namespace, str(value)) for namespace, value in table.weights.items()],
        *(asking(*_parts(pair), cpus) for pair, cpus in table.asks.items()),
        until=5,
    )
    assert not [event for event in report["events"] if event["type"] == "Evicted"]
    return in_queues(report), in_namespaces(report)


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("asking", [as_pods, as_one_job, as_many_jobs])
@pytest.mark.parametrize("cluster", [(16,), (1,) * 16, (3, 5, 8)], ids=["one node", "many nodes", "three nodes"])
def test_one_cpu_each(tmp_path: Path, table: Table, asking: Asking, cluster: tuple[int, ...]) -> None:
    assert outcome(tmp_path, table, asking, cluster) == (table.by_queue(), table.gets)


# Twice the cluster and twice the demand: every number is even, so pairs change nothing.
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
@pytest.mark.parametrize("asking", [as_pairs, as_jobs_of_two])
def test_two_cpus_at_a_time_on_twice_the_cluster(tmp_path: Path, table: Table, asking: Asking) -> None:
    twice = table.times(2)
    assert outcome(tmp_path, twice, asking, (16, 16)) == (twice.by_queue(), twice.gets)


# With 16 CPUs the shares of queues are even, those of namespaces are not. Turns of two, the smaller use per weight
# first and ties by name:
#   equal     4 turns each, alternating: 4 and 4; ns4 is done after one, ns3 has the other three.
#   weighted  q1 has 2 turns. ns1 (0/3) and ns2 (0/1) tie, ns1 goes; then ns2 has less (0 < 2/3): 2 and 2.
#   in both   q2 has 6 turns. ns1 goes first (2/2 = 1), ns2 until it is even (2/6, 4/6, 6/6), then ns1 by name
#             (4/2 = 2), then ns2 (8/6): 4 and 8.
#   one idle  q2 has 8 turns: as before, and ns2 goes on (10/6, 12/6 = 2): 4 and 12.
@pytest.mark.parametrize(
    ("table", "gets"),
    [
        (EQUAL, {"q1/ns1": 4, "q1/ns2": 4, "q2/ns3": 6, "q2/ns4": 2}),
        (WEIGHTED, {"q1/ns1": 2, "q1/ns2": 2, "q2/ns3": 10, "q2/ns4": 2}),
        (IN_BOTH, {"q1/ns1": 4, "q2/ns1": 4, "q2/ns2": 8}),
        (ONE_IDLE, {"q2/ns1": 4, "q2/ns2": 12}),
    ],
    ids=TABLES.keys(),
)
@pytest.mark.parametrize("asking", [as_pairs, as_jobs_of_two])
def test_two_cpus_at_a_time(tmp_path: Path, table: Table, gets: dict[str, int], asking: Asking) -> None:
    even = replace(table, asks={pair: cpus + cpus % 2 for pair, cpus in table.asks.items()}, gets=gets)
    assert outcome(tmp_path, even, asking, (16,)) == (even.by_queue(), gets)
