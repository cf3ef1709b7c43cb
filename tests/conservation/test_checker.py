"""The checker finds what is wrong in a report, and nothing in one that is right."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest

from conservation.checker import Verdict, check_end, check_run
from conservation.worlds import Node, Queue, Work, World
from together.situations import Report

SMALL = Work("ns0/small", "pod", "q0", 1, 1, 1, run=30)
PAIR = Work("ns0/pair", "gang", "q0", 2, 2, 1)


def cluster(*works: Work, cpus: tuple[int, ...] = (2,), **queue: Any) -> World:
    nodes = [Node(f"n{i}", {"cpu": cpu, "pods": 9}, {"host": f"n{i}"}) for i, cpu in enumerate(cpus)]
    return World(0, nodes, {"q0": Queue("q0", 1, **queue)}, {"ns0": 1, "ns1": 1}, None, {}, 8, list(works))


def told(world: World, **places: str) -> Report:
    """A quiet end: these pods run on these nodes, and the others wait with a reason. `_` in a name is `-`."""
    pods: dict[str, Any] = {}
    for work in world.works:
        names = [f"{work.name}-{i}" for i in range(work.pods)] if work.kind == "gang" else [work.name]
        for name in names:
            node = places.get(name.partition("/")[2].replace("-", "_"), "")
            phase = "Running" if node else "Pending"
            waits = {"reason": "" if node else "InsufficientNode", "message": "" if node else "No room."}
            pods[name] = {"phase": phase, "node": node, **waits}
    nodes = {node.name: {"reservedFor": []} for node in world.nodes}
    return {"end": 8.0, "events": [], "pods": pods, "nodes": nodes}


def findings(world: World, report: Report) -> list[str]:
    verdict = Verdict()
    check_run(world, report, verdict)
    check_end(world, report, verdict)
    return [finding.check for finding in verdict.findings]


def test_a_full_cluster_is_in_order() -> None:
    world = cluster(SMALL, PAIR)
    assert findings(world, told(world, pair_0="n0", pair_1="n0")) == []


def test_a_pod_beside_room_for_it_is_found() -> None:
    world = cluster(SMALL, PAIR, cpus=(3,))
    assert findings(world, told(world, pair_0="n0", pair_1="n0")) == ["idle"]


def test_a_gang_is_tried_as_a_whole() -> None:
    world = cluster(SMALL, PAIR)
    assert findings(world, told(world, small="n0")) == []  # one CPU is idle, and it needs two
    assert findings(cluster(PAIR), told(cluster(PAIR))) == ["idle"]


@pytest.mark.parametrize("rule", [{"port": 80}, {"apart": "host"}])
def test_pods_that_cannot_be_neighbours_need_two_nodes(rule: dict[str, Any]) -> None:
    pair = Work("ns0/pair", "gang", "q0", 2, 2, 1, **rule)
    assert findings(cluster(pair), told(cluster(pair))) == []
    assert findings(cluster(pair, cpus=(1, 1)), told(cluster(pair, cpus=(1, 1)))) == ["idle"]


def test_reserved_room_and_the_limits_of_queues_are_reasons_to_wait() -> None:
    world = cluster(SMALL, PAIR, capability=1)
    assert findings(world, told(world, small="n0")) == []
    other = Work("ns1/other", "pod", "q1", 1, 1, 2)
    world = cluster(SMALL, other)
    world.queues["q1"] = Queue("q1", 1)
    report = told(world)
    report["nodes"]["n0"]["reservedFor"] = ["ns1/other"]
    assert findings(world, report) == ["idle"]  # other itself could start; small may not


def test_other_mistakes_are_found() -> None:
    world = cluster(SMALL, PAIR, cpus=(2, 1))
    right = told(world, pair_0="n0", pair_1="n0", small="n1")
    assert findings(world, right) == []
    crowded = told(world, pair_0="n0", pair_1="n0", small="n0")
    assert findings(world, crowded) == ["room"]
    broken = deepcopy(right)
    broken["pods"]["ns0/pair-1"]["phase"] = "Evicted"
    assert findings(world, broken) == ["gangs"]
    silent = told(world, pair_0="n0", pair_1="n0")
    silent["pods"]["ns0/small"]["reason"] = ""
    assert findings(world, silent) == ["reasons", "idle"]


def test_a_promise_is_kept_within_two_cycles() -> None:
    # Small has the node from 0 to 4, and it is reserved for big at 2.
    small, big = Work("ns0/small", "pod", "q0", 1, 1, 1, run=4), Work("ns0/big", "pod", "q0", 1, 1, 2, run=9)
    world = cluster(small, big)

    def history(start: float) -> Report:
        report = told(world, big="n0")
        report["pods"]["ns0/small"] |= {"phase": "Succeeded", "node": "n0"}
        rows = [(0, "Bound", "small", ""), (2, "Reserved", "big", ""), (4, "Finished", "small", ""),
                (start, "Unreserved", "big", "the pod starts"), (start, "Bound", "big", "")]  # fmt: skip
        report["events"] = [
            {"t": float(t), "type": kind, "object": f"ns0/{pod}", "node": "n0", "message": message}
            for t, kind, pod, message in rows
        ]
        return report

    assert findings(world, history(4)) == []
    assert findings(world, history(6)) == []
    assert findings(world, history(7)) == ["promises"]
