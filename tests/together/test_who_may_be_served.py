"""Nodes are set aside, and borrowers sent away, only for a gang that could start if all that may drain had drained.

Each cluster has a gang that can never start: its queue, its own rules about neighbours, or the number of pods that the
node takes stand in the way, and only all of its pods together show it. The nodes are busy with pods that end, so that
reserve has something to drain and lending something to lend. Whatever is configured: nothing is set aside, nobody is
evicted, who fits runs, and the gang has a reason that says so.
"""

from __future__ import annotations

from typing import Any

import pytest

from starvation.scenes import Document, gang, node, pod, queue, stream
from together.situations import Situation, assert_restarts_change_nothing, happened, replica_set, situation, starts

SOON = {"starvingJobTimeThreshold": 2, "reservedNodePercent": 100}
LEND = {"backfillNonBestEffort": True, "mode": "preemption"}
WAIT = {"backfillNonBestEffort": True, "mode": "wait"}
ZONE = "topology.kubernetes.io/zone"
LABELS = {"app": "gang"}


def altered(documents: list[Document], **spec: Any) -> list[Document]:
    """The same documents; their pods have a label and these fields in their spec."""
    return [
        {**one, "metadata": {**one["metadata"], "labels": LABELS}, "spec": {**one["spec"], **spec}}
        if one["kind"] == "Pod"
        else one
        for one in documents
    ]


def apart(key: str) -> Document:
    """No two of them in one domain."""
    term = {"labelSelector": {"matchLabels": LABELS}, "topologyKey": key}
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def with_port(number: int) -> list[Document]:
    ports = [{"containerPort": number, "hostPort": number}]
    return [{"name": "main", "resources": {"requests": {"cpu": 1}}, "ports": ports}]


def evenly(key: str) -> list[Document]:
    selector = {"matchLabels": LABELS}
    return [{"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]


def small(**options: Any) -> list[Document]:
    """One-CPU pods of 3 s, one every 2 s: between them they never leave two nodes of two CPUs empty."""
    return stream("small", every=2, run=3, start=1, end=18, **options)


def two_nodes(**more: Any) -> list[Document]:
    return [node(f"n{number}", 2, labels={ZONE: "z"}, **more) for number in range(2)]


# The service keeps its slots: it has no end. Beside it a node takes one more pod.
SLOTS = [*two_nodes(pods=2), replica_set("service", 2, 0.1)]

HOPELESS: dict[str, list[Document]] = {
    # 3 CPUs at once, of 4; the queue may have 2.
    "its queue is too small": [
        *two_nodes(), queue("q", capability={"cpu": 2}), *gang("big", 1, 1, 1, queue="q", at=1), *small(),
    ],
    # Both pods need a zone of their own.
    "there is one zone": [*two_nodes(), *altered(gang("big", 1, 1, at=1), affinity=apart(ZONE)), *small()],
    # 5 pods, and each node takes 2.
    "nodes take too few pods": [*two_nodes(pods=2), *gang("big", *[0.1] * 5, at=1), *small()],
    "services have the slots": [*SLOTS, *gang("big", *[0.1] * 3, at=1), *small()],
    # 3 pods with one port, and 2 nodes.
    "there are too few ports": [*two_nodes(), *altered(gang("big", 1, 1, 1, at=1), containers=with_port(80)), *small()],
    # Spread over nodes: n0 has 2 CPUs and n1 only 1, so with 1.5 CPUs each none fits on n1, and n0 may not be ahead.
    "it cannot be spread": [
        node("n0", 4, labels={"host": "n0"}), node("n1", 1, labels={"host": "n1"}),
        *altered(gang("big", 1.5, 1.5, at=1), topologySpreadConstraints=evenly("host")), *small(),
    ],
    # A service of the queue keeps 1 of its 2 CPUs.
    "a service has the quota": [
        *two_nodes(), queue("q", capability={"cpu": 2}), replica_set("service", 1, 1, queue="q"),
        *gang("big", 1, 1, queue="q", at=1), *small(),
    ],
}  # fmt: skip

CONFIGURATIONS: dict[str, tuple[Document | None, Document | None]] = {
    "reserve": (SOON, None),
    "lending": (None, LEND),
    "waiting for borrowers": (None, WAIT),
    "reserve and lending": (SOON, LEND),
    "reserve and waiting for borrowers": (SOON, WAIT),
}


def story(name: str, config: str, until: float = 20) -> Situation:
    reserve, backfill = CONFIGURATIONS[config]
    leave_out = () if reserve is not None else ("reserve",)
    return situation(HOPELESS[name], reserve=reserve, backfill=backfill, leave_out=leave_out, until=until)


@pytest.mark.parametrize("config", CONFIGURATIONS)
@pytest.mark.parametrize("name", HOPELESS)
def test_nobody_makes_way_for_a_gang_that_can_never_start(name: str, config: str) -> None:
    report = story(name, config).run()
    assert happened(report, "Reserved") == []
    assert happened(report, "Evicted") == []
    assert all(not told["reservedFor"] for told in report["nodes"].values())
    started = starts(report)
    assert not any(pod.startswith("default/big") for pod in started)
    # Each of the small pods fits beside what is there when it is created.
    assert all(started[one] <= told["submitted"] + 1 for one, told in report["pods"].items() if "/small" in one)


@pytest.mark.parametrize("name", HOPELESS)
def test_the_gang_has_a_reason_that_says_so(name: str) -> None:
    report = story(name, "reserve").run()
    for one, told in report["pods"].items():
        if one.startswith("default/big"):
            assert told["reason"]
            assert told["message"].startswith("The gang can never start:")
    conditions = {told["type"]: told["reason"] for told in report["podGroups"]["default/big"]["conditions"]}
    assert conditions["Starving"] == "CannotStart"


def test_the_reason_counts_the_pods_and_the_nodes() -> None:
    message = story("there is one zone", "reserve").run()["pods"]["default/big-0"]["message"]
    assert "1 of the 2 pods that must start together would fit" in message
    assert "0 of 2 nodes are available: 2 near pods that the pod's anti-affinity excludes." in message
    message = story("its queue is too small", "reserve").run()["pods"]["default/big-0"]["message"]
    assert "3 cpu requested, and queue q may have at most 2." in message


@pytest.mark.parametrize("name", ["there is one zone", "a service has the quota"])
def test_restarts_change_nothing(name: str) -> None:
    assert_restarts_change_nothing(story(name, "reserve and lending"), until=8)


# A node of 2 CPUs, one of them busy with x until 3 s. The pods of the gang use one port, so one at most finds a place,
# and its CPU is lent: to b1 at 2 s, and the other to b2 at 3 s. From 4 s on both would fit on lent room.
BORROWED = [
    node("n", 2), pod("x", 1, on="n", run=3), *altered(gang("big", 1, 1, at=1), containers=with_port(80)),
    pod("b1", 1, at=2, run=6), pod("b2", 1, at=2, run=8), pod("c", 1, at=8, run=2),
]  # fmt: skip


@pytest.mark.parametrize("backfill", [LEND, WAIT], ids=["preemption", "wait"])
def test_a_gang_whose_pods_cannot_be_neighbours_counts_on_no_lent_room(backfill: Document) -> None:
    report = situation(BORROWED, backfill=backfill, until=12).run()
    assert [report["pods"][f"default/{name}"]["backfill"] for name in ("b1", "b2")] == [True, True]
    assert happened(report, "Evicted") == []
    assert happened(report, "Conditional") == []
    assert starts(report)["default/c"] == 8  # on the CPU of b1
