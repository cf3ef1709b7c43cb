"""Reservations of groups that must be close together, or that have sub-groups: what is held elsewhere is not used."""

from __future__ import annotations

from typing import Any

import pytest

from explanations.close_scenes import hyper_node, policy
from reservations.reservation_scenes import gang, node, owned, play, reservation
from starvation.scenes import Document

HARD = {"mode": "hard", "highestTierAllowed": 1}


def racks(**cpus: float) -> list[Document]:
    """A node in each rack."""
    return [
        document
        for name, cpu in cpus.items()
        for document in (node(f"in-{name}", cpu), hyper_node(name, 1, ("Node", f"in-{name}")))
    ]


def close_gang(pods: int, **spec: Any) -> list[Document]:
    """All its pods may use the Reservations of `r`, and have the value 0 of the label `unit`."""
    group, *members = gang("g", *[1] * pods)
    group["spec"] |= spec
    for member in members:
        owned(member)["metadata"]["labels"]["unit"] = "0"
    return [group, *members]


def held(**cpus: float) -> list[Document]:
    return [reservation(f"r-{rack}", cpu, app="r", nodeName=f"in-{rack}") for rack, cpu in cpus.items()]


def where(found: Any) -> dict[str, str]:
    return {name: at for name, at in sorted(found.nodes.items()) if name.startswith("g-")}


def test_a_hard_group_does_not_start_across_what_is_held_for_it() -> None:
    found = play(racks(a=1, b=1), held(a=1, b=1), close_gang(2, networkTopology=HARD), until=3)
    assert where(found) == {}


def test_it_starts_where_enough_is_held_for_it() -> None:
    found = play(racks(a=3, b=2, c=2), held(a=1, b=2), close_gang(2, networkTopology=HARD), until=3)
    assert where(found) == {"g-0": "in-b", "g-1": "in-b"}


@pytest.mark.parametrize("room", [1, 2])
def test_pods_above_the_minimum_stay_with_the_others(room: int) -> None:
    """The first pod runs in rack a. What is held in b is no place for the second, nor if there is none in a."""
    group, first, second = close_gang(2, networkTopology=HARD, minMember=1)
    first["spec"]["nodeName"] = "in-a"
    found = play(racks(a=room, b=1), held(b=1), group, first, second, until=3)
    assert where(found) == {"g-0": "in-a", **({"g-1": "in-a"} if room == 2 else {})}


@pytest.mark.parametrize("topology", [None, HARD])
def test_no_part_of_a_sub_group_starts_on_what_is_held(topology: Document | None) -> None:
    parts = close_gang(2, minMember=1, subGroupPolicy=[policy("p", 2, 0, topology)])
    assert where(play(racks(a=1), held(a=1), parts, until=3)) == {}
    found = play(racks(a=2), held(a=1), parts, until=3)
    assert where(found) == {"g-0": "in-a", "g-1": "in-a"}


@pytest.mark.parametrize("room", [1, 2])
def test_a_sub_group_that_runs_gets_back_what_it_has_lost_in_its_domain(room: int) -> None:
    """As many are held in b as in a. Its second pod is back in a if that is held there, else it waits."""
    group, first, second = close_gang(2, minMember=1, subGroupPolicy=[policy("p", 2, 0, HARD)])
    first["spec"]["nodeName"] = "in-a"
    here = held(a=1) if room == 2 else []
    found = play(racks(a=room, b=1), here, held(b=1), group, first, second, until=3)
    assert where(found) == {"g-0": "in-a", **({"g-1": "in-a"} if room == 2 else {})}


def test_a_pod_of_two_policies_does_not_start_on_what_is_held() -> None:
    group, first, second = close_gang(2, minMember=1, subGroupPolicy=[policy("p", 1, 0), policy("q", 1, 0)])
    del first["metadata"]["labels"]["unit"]
    first["spec"]["nodeName"] = "in-a"
    assert where(play(racks(a=2), held(a=1), group, first, second, until=3)) == {"g-0": "in-a"}
