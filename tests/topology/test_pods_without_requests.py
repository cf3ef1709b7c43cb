"""Pods that request nothing have room nearly everywhere. In close groups they stay with the others, and in sub-groups
they start with them.

Nodes in-a and in-b are in racks a and b, and node first, which comes first, is in none.
"""

from __future__ import annotations

from typing import Any

import pytest

from explanations.close_scenes import close_gang, hard, hyper_node, policy
from starvation.scenes import Document, Outcome, node, scene
from workload_groups.scenes import member, workload_group

RACK = hard(highestTierAllowed=1)


def nodes(*, racks: str = "ab") -> list[Document]:
    return [
        node("first", 9),
        *(node(f"in-{rack}", 2, labels={"rack": rack}) for rack in racks),
        *(hyper_node(rack, 1, ("Node", f"in-{rack}")) for rack in racks),
    ]


def requesting(pods: list[Document], *cpus: float) -> list[Document]:
    """A group, or none, and its pods with these requests."""
    made = [one for one in pods if one["kind"] == "Pod"]
    for one, cpu in zip(made, cpus, strict=True):
        one["spec"]["containers"][0]["resources"] = {"requests": {"cpu": cpu}} if cpu else {}
    return pods


def where(found: Outcome) -> dict[str, str]:
    return {name.removeprefix("g-"): at for name, at in sorted(found.nodes.items())}


@pytest.mark.parametrize("least", [1, 3])
def test_a_hard_group_of_them_is_in_one_domain(least: int) -> None:
    group = requesting(close_gang("g", 3, topology=RACK, least=least), 0, 0, 0)
    assert len(set(where(scene(nodes(), group, until=3).run()).values()) - {"first"}) == 1
    assert where(scene(nodes(racks=""), group, until=3).run()) == {}


def test_those_above_the_minimum_stay_with_the_others() -> None:
    """In rack b, where the first pod has been put. The others request nothing."""
    group, *pods = requesting(close_gang("g", 3, topology=RACK, least=1), 1, 0, 0)
    pods[0]["spec"]["nodeName"] = "in-b"
    assert where(scene(nodes(), group, pods, until=3).run()) == dict.fromkeys("012", "in-b")


def test_so_do_those_of_a_group_of_kubernetes() -> None:
    pods = requesting([member(f"g-{number}", "g") for number in range(4)], 1, 1, 0, 0)
    pods[0]["spec"]["nodeName"] = "in-b"
    found = scene(nodes(), workload_group("g", 2, key="rack"), pods, until=3).run()
    assert where(found) == dict.fromkeys("0123", "in-b")


@pytest.mark.parametrize("topology", [None, RACK])
@pytest.mark.parametrize("least", [0, 1])
def test_a_sub_group_with_one_of_them_starts_whole_or_not_at_all(topology: Any, least: int) -> None:
    policies = [policy("p", 2, least, topology)]
    group = close_gang("g", 2, policies=policies, least=1, values="00")
    assert len(where(scene(nodes(), requesting(group, 0, 1), until=3).run())) == 2
    assert where(scene(nodes(), requesting(group, 0, 99), until=3).run()) == {}
