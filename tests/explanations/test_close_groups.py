"""What groups say that wait although their pods would fit somewhere, only not close together."""

from __future__ import annotations

import pytest

from explanations.close_scenes import close_gang, gpu_pod, hard, policy, rack, racks
from starvation.scenes import Document, Outcome, scene
from stromboli.scheduling.explanation.next_steps import next_step

RACK = hard(highestTierAllowed=1)


def said(outcome: Outcome, name: str = "g-0") -> str:
    """With what has been found to hold for all of these sentences."""
    code, message = outcome.why(name)
    assert next_step(code, message).endswith(".")
    assert "nodes are available" not in message
    return f"{code}: {message}"


# 2 racks of 2 nodes have room for 7 and 5 pods of one GPU each, and the cluster for 12. Of rack s1, 1 GPU is used.
def test_a_group_that_fits_nowhere_names_the_closest_rack() -> None:
    full = scene(rack("s1", 3, 4), rack("s2", 2, 3), gpu_pod("old", on="s1-0"), close_gang("g", 7, topology=RACK))
    assert said(full.run()) == (
        "DomainShort: No domain up to tier 1 has room for all 7 pods that must start together. Closest is rack s1, "
        "with room for 6 of them: it lacks 1 of 7 nvidia.com/gpu."
    )


# Of the 5 GPUs of rack s1 that are free, pods of 2 GPUs can use 4: one node has 2, the other 3.
def test_what_is_lacking_is_not_what_cannot_be_used() -> None:
    full = scene(rack("s1", 3, 3), rack("s2", 2, 2), gpu_pod("old", on="s1-0"), close_gang("g", 3, 2, topology=RACK))
    assert said(full.run()) == (
        "DomainShort: The gang can never start: it needs 3 equal pods, and no domain up to tier 1 has room for more "
        "than 2, even if empty. Now, closest is rack s1, with room for 2 of them: it lacks 1 of 6 nvidia.com/gpu."
    )


# Cordoned nodes have no room now, but they may have it again: 3 of 5 pods in s1, 4 in s2.
def test_a_cordoned_node_does_not_count_in_its_rack() -> None:
    found = scene(rack("s1", 3, 3, cordoned=(0,)), rack("s2", 2, 2), close_gang("g", 5, topology=RACK)).run()
    assert said(found) == (
        "DomainShort: No domain up to tier 1 has room for all 5 pods that must start together. Closest is rack s2, "
        "with room for 4 of them: it lacks 1 of 5 nvidia.com/gpu."
    )


def test_pods_that_run_say_where_the_others_must_be() -> None:
    group, first, *others = close_gang("g", 3, topology=RACK)
    first["spec"]["nodeName"] = "r2-0"
    assert said(scene(racks(r1=(2, 2), r2=(2,)), group, first, others).run(), "g-1") == (
        "DomainShort: Others of the group are in rack r2, and it may not leave it: there is room for 1 of the 2 pods "
        "that must start together: it lacks 1 of 2 nvidia.com/gpu."
    )


# The first sub-group of three takes 3 of the 4 GPUs of r1. The second has 1 there, and 2 in r2.
def test_the_sentence_is_about_the_first_sub_group_that_has_no_room() -> None:
    group = close_gang("g", 6, policies=[policy("p", 3, 2, RACK)], values="aaabbb")
    assert said(scene(racks(r1=(2, 2), r2=(2,)), group).run()) == (
        'SubGroupShort: The sub-group policy "p" needs 2 whole sub-groups: 0 run, and 1 more fit now. For the next '
        'one, "p/b", no domain up to tier 1 has room for all 3 pods that must start together. Closest is rack r2, '
        "with room for 2 of them."
    )


def test_a_sub_group_whose_pods_do_not_exist() -> None:
    group = close_gang("g", 5, policies=[policy("p", 3, 2, RACK)], values="aaabb")
    assert said(scene(racks(r1=(2, 2), r2=(2, 2)), group).run()) == (
        'NotEnoughSubGroups: The sub-group policy "p" needs 2 sub-groups of 3 pods, and 1 has all their pods. Create '
        "the other pods, or lower minSubGroups."
    )


def test_a_sub_group_larger_than_its_size() -> None:
    group = close_gang("g", 4, policies=[policy("p", 2, 1, RACK)], values="aaab")
    assert said(scene(racks(r1=(2, 2), r2=(2,)), group).run()) == (
        'SubGroupUnclear: The sub-group "p/a" has 3 pods, but its policy makes sub-groups of 2. Remove pods, or raise '
        "subGroupSize."
    )


NODES = [document for document in rack("s1", 3, 3) if document["kind"] == "Node"]


@pytest.mark.parametrize(
    ("tree", "highest", "expected"),
    [
        (NODES, {}, "create HyperNodes, or name labels of nodes in topologyKeys of the configuration."),
        (
            rack("s1", 3, 3, tier=2), {"highestTierAllowed": 1},
            "up to tier 1: the lowest tier is 2. Raise highestTierAllowed.",
        ),
        (
            rack("s1", 3, 3), {"highestTierName": "block"},
            "up to the tier block; tiers have these names: rack. Correct highestTierName.",
        ),
    ],
)  # fmt: skip
def test_no_domain_at_all(tree: list[Document], highest: Document, expected: str) -> None:
    sentence = said(scene(tree, close_gang("g", 2, topology=hard(**highest))).run())
    assert sentence.startswith("NoDomain: The pods must be in one domain, and there is none")
    assert sentence.endswith(expected)


# A soft group goes anywhere, so nodes are counted as for other gangs.
def test_a_soft_group_never_waits_for_a_domain() -> None:
    found = scene(racks(r1=(2, 2), r2=(2,)), close_gang("g", 7, topology={"mode": "soft"})).run()
    assert found.why("g-0")[0] == "GangShort"
    found = scene(racks(r1=(2, 2), r2=(2,)), close_gang("g", 6, topology={"mode": "soft"})).run()
    assert len(found.started) == 6


# Policies that need no sub-group, or whose sub-groups run: the others must be whole nevertheless.
def test_a_sub_group_that_no_policy_needs_says_what_it_lacks() -> None:
    each = [policy("p", 2, 0, RACK)]
    apart = scene(racks(s1=(1, 1)), close_gang("g", 2, policies=each, values="01", least=1), until=2).run()
    assert apart.why("g-0") == (
        "NotEnoughSubGroups",
        'The sub-group "p/0" starts when it has all of its 2 pods, and it has 1. Create the others.',
    )


@pytest.mark.parametrize(("least", "next_"), [(2, ""), (4, "the next one, ")])
def test_it_says_that_no_rack_has_room(least: int, next_: str) -> None:
    """There is room for one of two. Either that one runs and the other waits, or the group needs both."""
    group = close_gang("g", 4, policies=[policy("p", 2, 0, RACK)], values="0011", least=least)
    found = scene(racks(s1=(1, 1), s2=(1, 1)), gpu_pod("old", on="s2-0"), group, until=2).run()
    code, message = found.why("g-3")
    assert code == "SubGroupShort"
    assert message.startswith(
        f'For {next_}"p/1", no domain up to tier 1 has room for all 2 pods that must start together.'
    )
