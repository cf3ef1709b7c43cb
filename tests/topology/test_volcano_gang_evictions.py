"""Volcano's end-to-end cases of gangs that are evicted for gangs, by their names, with its numbers.

Four nodes have room for one pod each. In the cases of topology (T) and of sub-groups (S) they are n0 to n3 in racks s0
and s1, which are s2 (tier 2), and they have 8 CPUs, so that nobody has to go. So these cases run once more on nodes
with room for one pod. Volcano has actions of their own for gangs; here `preempt` and `reclaim` do it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from starvation.scenes import Document, node, priority_class, queue
from together.situations import Report, happened
from topology.volcano_tree import config, job, parts, places, rack_of, run, tier, tree

CONFIG = config("enqueue", "allocate", "backfill", "reclaim", "preempt", capacity=True)
CLASSES = [priority_class("high", 100), priority_class("medium", 50), priority_class("low", 10)]
SMALL = [node(f"n{number}", 1) for number in range(4)]
RACK, BLOCK = tier(1), tier(2)


@dataclass(frozen=True)
class Case:
    name: str
    jobs: list[Document]
    stay: Mapping[str, int]  # by name of a job, how many of its pods run at the end, at least
    waits: bool = False  # the last job does not start, and nobody is evicted
    broken: int | None = None  # of so many jobs, all pods are gone
    queues: list[Document] = field(default_factory=lambda: [deserving("q", 4)])
    nodes: list[Document] = field(default_factory=lambda: SMALL)
    together: bool = False  # the pods of the last job are in one rack


def deserving(name: str, cpus: int, **spec: object) -> Document:
    return queue(name, deserved={"cpu": cpus, "memory": f"{cpus}Gi"}, **spec)


def low(name: str, pods: int, least: int, *, of: str = "q", priority: str = "low", **more: object) -> Document:
    return job(name, pods, 1, least=least, queue=of, priority=priority, **more)  # type: ignore[arg-type]


def late(
    pods: int, *, of: str = "q", priority: str = "high", cpu: int = 1, topology: Document | None = None
) -> Document:
    """All pods of which start together, or none."""
    return job("late", pods, cpu, queue=of, priority=priority, topology=topology, at=4)


def late_reclaimer(pods: int, **more: object) -> Document:
    return late(pods, of="q1", priority="low", **more)  # type: ignore[arg-type]


ROLES = {"ps": (1, 1), "worker": (3, 2)}
HALVES = parts(2, 2, None, 1)
EVEN = [deserving("q1", 2), deserving("q2", 2)]

PREEMPT = [
    Case("GP-1: surplus tasks go, the gang survives", [low("v", 4, 2), late(2)], {"v": 2}),
    Case("GP-2: surplus of several gangs, none broken", [low("a", 2, 1), low("b", 2, 1), late(2)], {"a": 1, "b": 1}),
    Case("GP-3: exactly one gang is broken without surplus", [low("a", 2, 2), low("b", 2, 2), late(2)], {}, broken=1),
    Case("GP-4: both gangs are broken for a large one", [low("a", 2, 2), low("b", 2, 2), late(4)], {}, broken=2),
    Case("GP-5: a gang of lower priority", [low("v", 4, 4), late(2)], {}, broken=1),
    Case(
        "GP-6: not across queues", [low("v", 4, 4, of="q2"), late(2, of="q1")], {"v": 4}, waits=True,
        queues=[deserving("q1", 2), deserving("q2", 2, reclaimable=False)],
    ),
    Case(
        "GP-7: not of equal priority", [low("v", 4, 4, priority="medium"), late(2, priority="medium")], {"v": 4},
        waits=True,
    ),
    Case(
        "GP-8: not of higher priority",
        [low("a", 2, 2, priority="high"), low("b", 2, 2), late(4, priority="medium")], {"a": 2, "b": 2}, waits=True,
    ),
    Case("GP-R1: roles keep what they need", [low("v", 0, 3, roles=ROLES), late(1)], {"v-ps": 1, "v-worker": 2}),
]  # fmt: skip

RECLAIM = [
    Case("GR-1: surplus goes, the gang survives", [low("v", 4, 2, of="q2"), late_reclaimer(2)], {"v": 2}, queues=EVEN),
    Case(
        "GR-2: exactly one gang is broken without surplus",
        [low("a", 2, 2, of="q2"), low("b", 2, 2, of="q2"), late_reclaimer(2)], {}, broken=1, queues=EVEN,
    ),
    Case("GR-3: from an overusing queue", [low("v", 4, 2, of="q2"), late_reclaimer(2)], {"v": 2}, queues=EVEN),
    Case(
        "GR-4: not from queues within their deserved",
        [low("a", 2, 2, of="q2"), low("b", 2, 2, of="q3"), late_reclaimer(2)], {"a": 2, "b": 2}, waits=True,
        queues=[deserving(name, 2) for name in ("q1", "q2", "q3")],
    ),
    Case(
        "GR-5: not from a queue that is not reclaimable", [low("v", 4, 2, of="q2"), late_reclaimer(2)], {"v": 4},
        waits=True, queues=[deserving("q1", 2), deserving("q2", 2, reclaimable=False)],
    ),
    Case(
        "GR-6: not below a guarantee", [low("v", 4, 2, of="q2"), late_reclaimer(4)], {"v": 4}, waits=True,
        queues=[deserving("q1", 4), deserving("q2", 2, guarantee={"resource": {"cpu": 2, "memory": "2Gi"}})],
    ),
    Case(
        "GR-7: not for an overused queue",
        [low("a", 2, 2, of="q1"), low("b", 2, 2, of="q2"), late_reclaimer(2)], {"a": 2, "b": 2}, waits=True,
        queues=[deserving("q1", 1), deserving("q2", 3)],
    ),
    Case(
        "GR-R1: roles keep what they need", [low("v", 0, 3, of="q2", roles=ROLES), late_reclaimer(1)],
        {"v-ps": 1, "v-worker": 2}, queues=[deserving("q1", 1), deserving("q2", 3)],
    ),
]  # fmt: skip


def close_cases(cpus: float) -> list[Case]:
    """On nodes with so many CPUs. GP-T2 and GR-T2 need nodes that are larger."""
    wide = tree(2, cpus)
    large, small = {"nodes": tree(2)}, {"nodes": wide}
    at_home = {"topology": BLOCK}
    found: list[Case] = []
    for sign, of, make, queues in (
        ("GP", "q", late, [deserving("q", 4)]), ("GR", "q2", late_reclaimer, EVEN)
    ):  # fmt: skip
        victim = low("v", 4, 2, of=of, **at_home)
        found += [
            Case(
                f"{sign}-S1: a sub-group goes whole, the gang survives",
                [low("v", 4, 2, of=of, partition=HALVES, **at_home), make(2, topology=BLOCK)], {"v": 2}, queues=queues,
                **small,
            ),
            Case(
                f"{sign}-T1: hard tier 1, within one domain", [victim, make(2, topology=RACK)], {"v": 2}, queues=queues,
                together=True, **small,
            ),
            Case(
                f"{sign}-T2: blocked when the domain is too small",
                [low("v", 4, 4, of=of, **at_home), make(3, cpu=5, topology=RACK)], {"v": 4}, waits=True,
                queues=[deserving(one["metadata"]["name"], 16) for one in queues], **large,
            ),
            Case(
                f"{sign}-T4: hard tier 2, in tier 1 when sufficient", [victim, make(2, topology=BLOCK)], {"v": 2},
                queues=queues, together=True, **small,
            ),
        ]  # fmt: skip
        if sign == "GP" or cpus > 1:  # to have 3 of 4 CPUs, the queue would take more than it deserves
            found.append(
                Case(f"{sign}-T3: at a wider domain", [victim, make(3, topology=BLOCK)], {}, queues=queues, **small)
            )
    return found


ALL = [*PREEMPT, *RECLAIM, *close_cases(7.9)]


def judge(case: Case) -> Report:
    report = run(CONFIG, CLASSES, case.queues, case.nodes, case.jobs)
    wanted = case.jobs[-1]["spec"]["minAvailable"]
    assert len(places(report, "late")) == (0 if case.waits else wanted)
    for name, pods in case.stay.items():
        assert len(places(report, name)) >= pods, name
    if case.waits:
        assert happened(report, "Evicted") == []
    if case.broken is not None:
        left = [len(places(report, one["metadata"]["name"])) for one in case.jobs[:-1]]
        assert left.count(0) == case.broken
        assert all(count in (0, one["spec"]["minAvailable"]) for count, one in zip(left, case.jobs, strict=False))
    if case.together:
        assert len({rack_of(place) for place in places(report, "late").values()}) == 1
    return report


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_as_volcano_has_it(case: Case) -> None:
    judge(case)


@pytest.mark.parametrize("case", [case for case in close_cases(1) if not case.waits], ids=lambda case: case.name)
def test_the_same_where_room_has_to_be_made(case: Case) -> None:
    """One pod for each that starts, and a sub-group whole."""
    gone = [name.removeprefix("default/") for _, name in happened(judge(case), "Evicted")]
    if case.stay:
        assert len(gone) == len(places(judge(case), "late"))
    if "S1" in case.name:
        assert gone in (["v-t-0", "v-t-1"], ["v-t-2", "v-t-3"])
