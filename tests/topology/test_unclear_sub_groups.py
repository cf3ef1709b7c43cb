"""Groups of which no pod that waits may start, because it is not clear which sub-group each is in."""

from __future__ import annotations

import pytest

from explanations.close_scenes import close_gang, gpu_pod, hard, policy, racks
from starvation.scenes import Document, priority_class, queue, scene

RACK = hard(highestTierAllowed=1)
TWO = [policy("p", 1, 0), policy("q", 1, 0)]
STARVES = {"starvingJobTimeThreshold": "1s"}


def full(on: str = "default") -> list[Document]:
    return [gpu_pod(f"f-{rack}{number}", on=f"{rack}-{number}", queue=on) for rack in "ab" for number in range(2)]


@pytest.mark.parametrize("topology", [None, RACK])
def test_nobody_is_evicted_for_them_and_no_nodes_are_kept(topology: Document | None) -> None:
    """In queue `left`, to which nothing is allocated, with a high priority, and soon starved."""
    group = close_gang("g", 2, topology=topology, policies=TWO, values="00", priority="high", queue="left")
    found = scene(
        racks(a=(1, 1), b=(1, 1)), queue("left"), queue("right"), priority_class("high", 10), full("right"), group,
        reserve=STARVES, until=5,
    ).run()  # fmt: skip
    assert found.happened("Evicted") == found.happened("Reserved") == []
    assert {found.report["pods"][f"default/g-{number}"]["reason"] for number in range(2)} == {"SubGroupUnclear"}


def test_their_queue_may_have_more_than_it_deserves() -> None:
    """One of the group runs already, and its queue has borrowed. A pod without requests starts nevertheless."""
    group, first, second, free = close_gang("g", 3, policies=TWO, values=" 0 ", least=1, queue="left")
    first["spec"]["nodeName"] = "a-0"
    free["spec"]["containers"][0]["resources"] = {}
    others = [gpu_pod(f"o-{number}", queue="right", at=1) for number in range(4)]
    borrowed = [gpu_pod("f-a1", on="a-1", queue="left"), gpu_pod("f-b0", on="b-0", queue="left")]
    found = scene(
        racks(a=(1, 1), b=(1, 1)), queue("left"), queue("right"), borrowed, others, group, first, second, free, until=4
    ).run()
    assert "g-1" not in found.started
    assert found.started["g-2"] == 0.0
