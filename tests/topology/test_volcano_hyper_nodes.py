"""Volcano's end-to-end cases of jobs in HyperNodes, by their names, on clusters like theirs.

Eight nodes have 8 CPUs each, of which a DaemonSet has 100m: n0 and n1 are s0, n2 and n3 s1, and so on. s0 and s1 are
s4, s2 and s3 are s5 (tier 2), and s6 is all of them (tier 3). Pods in the way run already.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

import pytest

from explanations.close_scenes import policy
from starvation.scenes import Document, group, pod
from together.situations import Report
from topology.volcano_tree import SOFT, config, job, parts, places, rack_of, run, tier, tree, used

CONFIG = config("enqueue", "allocate", "backfill", "reclaim", "preempt")
FULL = dict.fromkeys(range(8), 6)
BY_TURNS = dict(zip(range(8), (6, 2) * 4, strict=True))


class Case(NamedTuple):
    name: str
    used: dict[int, int]
    replicas: int
    cpu: int
    topology: Document | None = None
    partition: Document | None = None
    least: int | None = None
    nodes: tuple[int, ...] = ()  # where its pods must be
    racks: dict[str, int] | None = None  # or how many in each rack


RACK, BLOCK = tier(1), tier(2)
PAIRS, ONES = parts(2, 2, RACK), parts(2, 1, RACK)

STARTS = [
    Case("1.1: node-2 and node-3 when resources are enough", {2: 1, 3: 1}, 2, 2, RACK, nodes=(2, 3)),
    Case("1.2: s2 when s1 is insufficient and s2's score is higher", {2: 4, 3: 4, 4: 1}, 2, 4, RACK, nodes=(4, 5)),
    Case(
        "2.1: tier 2 when tier 1 is insufficient", {0: 7, 1: 4, 2: 7, 3: 4, 4: 7, 5: 5, 6: 7, 7: 5}, 2, 2, BLOCK,
        nodes=(5, 7),
    ),
    Case(
        "3.1: single hypernode in soft mode", {0: 6, 1: 4, 2: 6, 3: 4, 4: 6, 5: 5, 6: 6, 7: 4}, 2, 2, SOFT, nodes=(5, 7)
    ),
    Case("4.1: node-2 and node-3 when resources are enough", {2: 1, 3: 1}, 4, 2, RACK, PAIRS, nodes=(2, 3)),
    Case("5.1: node-2 and node-3 when resources are enough", {2: 1, 3: 1}, 4, 2, BLOCK, PAIRS, nodes=(2, 3)),
    Case(
        "5.2: in groups when resources are enough", {0: 3, 2: 3, 4: 6, 5: 6, 6: 6, 7: 6}, 4, 3, BLOCK, PAIRS,
        racks={"s0": 2, "s1": 2},
    ),
    Case(
        "5.4: s1 when s0 is insufficient and s1's score is higher", {0: 6, 1: 6, 2: 1, 3: 1}, 4, 2, BLOCK, PAIRS,
        nodes=(2, 3),
    ),
    Case(
        "6.1: node-2 and node-3 when resources are enough", {2: 1, 3: 1}, 4, 2, BLOCK, parts(2, 2, SOFT), nodes=(2, 3)
    ),
    Case(
        "6.2: in groups when resources are enough", {0: 3, 1: 3, 2: 3, 3: 5, 4: 2, 6: 2}, 4, 4, BLOCK,
        parts(2, 2, SOFT), nodes=(4, 5, 6, 7),
    ),
    Case(
        "7.1: in groups when resources are enough", {0: 4, 4: 4, 2: 6, 3: 6, 6: 6, 7: 6}, 4, 3, SOFT, PAIRS,
        racks={"s0": 2, "s2": 2},
    ),
    Case(
        "8.1: in groups when resources are enough", {0: 4, 4: 4, 2: 6, 3: 6, 6: 6, 7: 6}, 4, 3, None, PAIRS,
        racks={"s0": 2, "s2": 2},
    ),
    Case(
        "9.1: node-2 and node-3 when resources just meet minAvailable", {2: 1, 3: 1}, 4, 3, RACK,
        parts(2, 2, RACK, 2), least=4, nodes=(2, 3),
    ),
    Case(
        "9.2: s4 when it has more than minAvailable", {2: 1, 3: 1}, 8, 3, BLOCK, parts(4, 2, RACK, 4), least=4,
        racks={"s0": 4, "s1": 4},
    ),
]  # fmt: skip

WAITS = [
    Case("1.3: no hypernode has sufficient resources", dict(zip(range(8), (4, 6) * 4, strict=True)), 2, 2, RACK),
    Case("2.2: tier 2 resources are insufficient", {0: 4, **dict.fromkeys((1, 2, 3, 5, 6, 7), 6), 4: 4}, 2, 2, BLOCK),
    Case("4.2: no hypernode has sufficient resources", FULL, 2, 4, RACK, ONES),
    Case("4.3: does not meet the topological requirements", BY_TURNS, 2, 4, RACK, ONES),
    Case("5.5: no hypernode has sufficient resources", FULL, 2, 4, BLOCK, ONES),
    Case("5.6: does not meet the topological requirements", dict.fromkeys(range(8), 4), 2, 4, BLOCK, ONES),
    Case(
        "6.3: does not meet the topological requirements", {**dict.fromkeys(range(8), 2), 0: 6, 4: 6}, 4, 4, BLOCK,
        parts(2, 2, SOFT),
    ),
    Case("7.2: does not meet the topological requirements", dict.fromkeys(range(8), 2), 6, 4, SOFT, parts(2, 3, RACK)),
    Case("9.3: meets minPartitions, not minAvailable", {}, 12, 3, RACK, parts(6, 2, RACK, 2), least=6),
    Case("9.4: meets minAvailable, not minPartitions", {}, 12, 3, RACK, parts(6, 2, RACK, 4), least=4),
]  # fmt: skip


# As Volcano writes these four, there is room, or room closer together. Its tests wait for pods that are pending, which
# all pods are at first; with its numbers, 2.1 has room in rack s2. Above, their numbers do what their names say.
WRITTEN = [
    Case("1.3: node-1 is empty, so s0 has room", {0: 4, 2: 8, 3: 4, 4: 4, 6: 8, 7: 4}, 2, 2, RACK, racks={"s0": 2}),
    Case("2.1: node-5 has 6.9 CPUs", {0: 4, 2: 4, 4: 4, 5: 1, 6: 4}, 2, 2, BLOCK, racks={"s2": 2}),
    Case("2.2: node-0 and node-1 have 3.9", {0: 4, 1: 4, 2: 4, 4: 4, 5: 1, 6: 1}, 2, 2, BLOCK, racks={"s0": 2}),
    Case(
        "7.2: partitions of one pod have room anywhere", dict.fromkeys(range(8), 2), 3, 4, SOFT, parts(3, 1, RACK),
        racks={"s0": 2, "s1": 1},
    ),
]  # fmt: skip


def report_of(case: Case) -> Report:
    asked = job("j", case.replicas, case.cpu, topology=case.topology, partition=case.partition, least=case.least)
    return run(CONFIG, tree(4), used(case.used), asked)


@pytest.mark.parametrize("case", STARTS + WRITTEN, ids=lambda case: case.name)
def test_it_starts(case: Case) -> None:
    found = places(report_of(case), "j")
    assert len(found) == case.replicas
    if case.nodes:
        assert set(found.values()) <= {f"n{number}" for number in case.nodes}
    else:
        assert Counter(map(rack_of, found.values())) == case.racks


@pytest.mark.parametrize("case", WAITS, ids=lambda case: case.name)
def test_pods_remain_pending(case: Case) -> None:
    assert places(report_of(case), "j") == {}


# -- pods that are killed --------------------------------------------------------------------------------------------

PARTITION = "volcano.sh/partition-id"


class Killed(NamedTuple):
    name: str
    used: dict[int, int]
    pods: int
    cpu: int
    killed: tuple[int, ...]
    topology: Document
    sub_groups: int = 0  # how many of them, of two pods, it needs; 0: it has none
    least: int | None = None
    rack: str = "s3"


KILLED = [
    Killed("2.3: pod of job", {0: 1}, 2, 2, (0,), RACK, rack="s0"),
    Killed("5.3: pod of job", {6: 1, 7: 1}, 4, 2, (0,), BLOCK, 2),
    Killed("9.5: pod of job", {6: 1, 7: 1}, 4, 3, (0,), BLOCK, 2),
    Killed("9.6: subJob of job", {6: 1, 7: 1}, 8, 3, (0, 1), RACK, 2, 4),
]


@pytest.mark.parametrize("case", KILLED, ids=lambda case: case.name)
def test_it_is_rescheduled_to_the_same_hyper_node_when_it_is_killed(case: Killed) -> None:
    """The pods that a Job has, and at 4 s those that its controller creates in place of the killed ones."""
    head = group("j", case.pods if case.least is None else case.least)
    head["spec"]["networkTopology"] = case.topology
    if case.sub_groups:
        head["spec"]["subGroupPolicy"] = [{**policy("t", 2, case.sub_groups, RACK), "matchLabelKeys": [PARTITION]}]
    members = []
    for number in range(case.pods):
        lives = [{"until": 4}, {"at": 4}] if number in case.killed else [{}]
        for life, times in enumerate(lives):
            member = pod(f"j-{number}{'x' * life}", case.cpu, group="j", **times)
            member["metadata"]["labels"] = {PARTITION: str(number // 2)}
            members.append(member)
    found = places(run(CONFIG, tree(4), used(case.used), head, members), "j")
    assert {f"j-{number}x" for number in case.killed} <= set(found)
    assert len(found) == min(case.pods, 4)
    assert {rack_of(place) for place in found.values()} == {case.rack}
