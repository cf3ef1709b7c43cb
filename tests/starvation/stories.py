"""The stories that setting nodes aside and lending are about, as data. Tests look at each of them from several sides:
what happens when, what is said about it, and that a restart in the middle changes nothing."""

from __future__ import annotations

from starvation.scenes import Document, Scene, gang, node, pod, priority_class, scene, stream

THRESHOLD = {"starvingJobTimeThreshold": 2, "reservationTimeout": 0}
EVERYWHERE = {**THRESHOLD, "reservedNodePercent": 100}
LENDING = {"backfillNonBestEffort": True}


def pod_four() -> list[Document]:
    """Seven pods wait at T0, the fourth as large as the node that is there from T1 on; the others want a third of it.

    1 runs from T1 and is gone when T3 comes; 2 and 3 from T1 to T4; 5 from T3 to T6; 6 and 7 for two rounds.
    """
    runs = {1: 1.5, 2: 3, 3: 3, 4: 10, 5: 3, 6: 2, 7: 2}
    size = {4: 3}
    return [
        node("n1", 3, memory="3Gi", at=1),
        *(
            pod(f"pod-{number}", size.get(number, 1), memory=f"{size.get(number, 1)}Gi", run=run)
            for number, run in runs.items()
        ),
    ]


def gang_among_small() -> list[Document]:
    """One node of two CPUs. X has the one until T3; the gang A wants both; B, C and D want one each."""
    return [
        node("n1", 2), pod("x", on="n1", run=3), *gang("a", 1, 1, run=4),
        pod("b", run=8), pod("c", run=3), pod("d", run=3),
    ]  # fmt: skip


RESERVED_ON_TWO = [
    node("n1", 3), node("n2", 3), *(pod(f"old-{number}", 3, on=f"n{number}", run=6 + number) for number in (1, 2)),
    *gang("big", 3, 3, at=0, run=5), pod("small", at=1, run=2),
]  # fmt: skip

STORIES: dict[str, Scene] = {
    "pod-4": scene(pod_four(), reserve=THRESHOLD, until=8),
    "X1": scene(
        node("n1", 3), stream("s", every=1, run=3, end=24), pod("big", 3, at=4, run=3),
        reserve={"starvingJobTimeThreshold": 4}, until=24,
    ),
    "X3, half of the nodes": scene(
        RESERVED_ON_TWO, reserve={"starvingJobTimeThreshold": 2, "reservedNodePercent": 50}, until=9
    ),
    "X3, all nodes": scene(RESERVED_ON_TWO, reserve=EVERYWHERE, until=9),
    "X4": scene(
        node("n1", 3), pod("old", 2, on="n1", run=20), pod("big", 3, at=0, until=6), pod("small", at=3.5, run=3),
        reserve=THRESHOLD, until=9,
    ),
    "X5": scene(
        priority_class("high", 100), pod_four(), pod("urgent", 2, at=5, run=3, priority="high"), reserve=THRESHOLD,
        until=12, leave_out=("preempt",),
    ),
    "X5, without yielding": scene(
        priority_class("high", 100), pod_four(), pod("urgent", 2, at=5, run=3, priority="high"),
        reserve={**THRESHOLD, "yieldToHigherPriority": False}, until=12, leave_out=("preempt",),
    ),
    "X6": scene(
        node("n1", 3), pod("old", 2, on="n1", run=8), pod("big", 3, run=3), pod("nothing", 0, at=5, run=3),
        pod("small", at=5, run=1), reserve=THRESHOLD, until=9,
    ),
    "X9": scene(gang_among_small(), backfill=LENDING, until=12),
    "X9, waiting": scene(gang_among_small(), backfill={**LENDING, "mode": "wait"}, until=20),
    "X15": scene(
        node("n1", 3), pod("x", 2, on="n1", run=8), gang("a", 1, 1, 1, run=3), pod("b", run=5),
        stream("s", every=1, start=1, run=2, end=12), reserve={"starvingJobTimeThreshold": 3},
        backfill={**LENDING, "mode": "wait"}, until=12,
    ),
    "RS1": scene(
        node("n1", 3, memory="4Gi"), pod("p1", 1, on="n1", run=6), gang("pg2", 2, 1, run=3),
        pod("small", at=4, run=1), reserve={"starvingJobTimeThreshold": 1}, until=8,
    ),
    "RS2": scene(
        node("n1", 3, memory="4Gi"), pod("p1", 1, on="n1", run=6), gang("pg2", 2, 2, run=3),
        pod("small", at=4, run=1), reserve={"starvingJobTimeThreshold": 1}, until=8,
    ),
    "RS3": scene(
        *(node(f"n{number}", 3, memory="4Gi") for number in (1, 2, 3)),
        *(pod(f"p{number}", cpu, on=f"n{number}", run=6) for number, cpu in ((1, 2), (2, 1), (3, 1.5))),
        gang("pg2", 3, 3, run=3), reserve={"starvingJobTimeThreshold": 1}, until=8,
    ),
    "RS4": scene(
        *(node(f"n{number}", 3, memory="4Gi") for number in (1, 2, 3, 4)),
        *(pod(f"p{number}", 1, on=f"n{number}", run=6) for number in (1, 2, 3, 4)),
        gang("pg2", 3, 3, 3, run=3), reserve={"starvingJobTimeThreshold": 1}, until=5,
    ),
    # Four nodes of five CPUs, 4, 3, 2 and 1 of them in use: 20 × 2/3, … are idle; the two least used are taken.
    "RS5": scene(
        *(node(f"n{number}", 5, memory="5Gi") for number in (1, 2, 3, 4)),
        *(pod(f"p{number}", 5 - number, memory=f"{5 - number}Gi", on=f"n{number}", run=9) for number in (1, 2, 3, 4)),
        gang("pg2", 5, 5, run=3), reserve={"starvingJobTimeThreshold": 1}, until=5,
    ),
    "two in turns": scene(
        node("n1", 3), pod("endless", on="n1"), pod("a", 3), pod("b", 3), reserve={"starvingJobTimeThreshold": 2},
        until=34,
    ),
    "short work on reserved room": scene(
        node("n1", 3), pod("old", 2, on="n1", run=8, estimate=8), pod("big", 3, run=3),
        pod("short", at=4, run=3, estimate=3), pod("long", at=4, run=5, estimate=5), pod("silent", at=4, run=1),
        reserve=THRESHOLD, backfill={"useEstimates": True}, until=13,
    ),
}  # fmt: skip
