"""Where a group goes on that runs already: in the domain of its pods, which nothing else says.

Racks r1 and r2 are in one block. Pods request one GPU, and nodes have one, unless a test says otherwise.
"""

from __future__ import annotations

import pytest

from explanations.close_scenes import close_gang, close_job, gpu_pod, hard, policy, racks
from starvation.scenes import Document, Outcome, patch, restart, scene

RACK = hard(highestTierAllowed=1)
SOFT = {"mode": "soft"}


def where(outcome: Outcome, name: str) -> list[str]:
    return [node for pod, node in sorted(outcome.nodes.items()) if pod.startswith(f"{name}-")]


def without_a_node(nodes: list[Document], name: str, *, after: float) -> list[Document]:
    for node in nodes:
        if node["metadata"]["name"] == name and node["kind"] == "Node":
            node["metadata"]["annotations"]["sim.stromboli.io/until"] = f"{after}s"
    return nodes


def members(*names: str) -> Document:
    return {"spec": {"members": [{"type": "Node", "selector": {"exactMatch": {"name": name}}} for name in names]}}


def sent_away(outcome: Outcome) -> list[tuple[float, str]]:
    return [(e["t"], e["object"]) for e in outcome.report["events"] if e["reason"] == "DomainOutgrown"]


# -- the tree changes under a group ----------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [[], [restart(4)], [restart(6)]])
def test_new_pods_join_most_of_the_others_and_nobody_is_evicted(again: list[Document]) -> None:
    """Three pods run in r1. Then r1-0 is counted to r2, and the fourth pod comes."""
    group, *pods = close_gang("g", 4, topology=RACK, least=2)
    pods[3]["metadata"]["annotations"]["sim.stromboli.io/at"] = "6s"
    moved = [
        patch("HyperNode", "r1", members("r1-1", "r1-2"), at=3),
        patch("HyperNode", "r2", members("r2-0", "r2-1", "r1-0"), at=3.5),
    ]
    found = scene(racks(r1=(1, 1, 2), r2=(2, 2)), group, pods, moved, until=10).run(*again)
    assert found.started["g-3"] == 6.0
    assert where(found, "g") == ["r1-2", "r1-0", "r1-1", "r1-2"]
    assert found.happened("Evicted") == []


def test_what_is_written_on_a_group_does_not_say_where_it_is() -> None:
    """The first pod runs in r2 already, so the rest goes there, although r1 is empty."""
    group, *pods = close_gang("g", 3, topology=RACK)
    pods[0]["spec"]["nodeName"] = "r2-1"
    group["metadata"]["annotations"]["volcano.sh/job-allocated-hypernode"] = "r1"
    found = scene(racks(r1=(1, 1, 1), r2=(1, 1, 1)), group, pods, until=3).run()
    assert sorted(where(found, "g")) == ["r2-0", "r2-1", "r2-2"]


# -- its domain has become too small ---------------------------------------------------------------------------------


def test_a_soft_group_goes_a_tier_up_at_once() -> None:
    nodes = without_a_node(racks(r1=(1, 1, 1), r2=(1, 1)), "r1-2", after=5)
    found = scene(nodes, close_job("g", 3, SOFT), until=12).run()
    assert where(found, "g") == ["r1-0", "r1-1", "r2-0"]
    assert found.started["g-w-2"] < 8


@pytest.mark.parametrize("again", [[], [restart(300)], [restart(606)]])
def test_a_hard_group_is_sent_away_whole_after_the_timeout(again: list[Document]) -> None:
    """r1 loses a node at 5 s and has two left for three pods. The pod waits since 5 s, and 600 s more than that."""
    nodes = without_a_node(racks(r1=(1, 1, 1), r2=(1, 1, 1)), "r1-2", after=5)
    story = scene(nodes, close_job("g", 3, RACK), until=620)
    assert sent_away(story.run(*again)) == [(606.0, "default/g-w-0"), (606.0, "default/g-w-1")]
    assert sorted(where(story.run(*again), "g")) == ["r2-0", "r2-1", "r2-2"]


def test_it_stays_where_no_other_domain_could_hold_it() -> None:
    nodes = without_a_node(racks(r1=(1, 1, 1), r2=(1, 1)), "r1-2", after=5)
    found = scene(nodes, close_job("g", 3, RACK), until=620).run()
    assert sent_away(found) == []
    assert found.why("g-w-2")[0] == "DomainShort"


def test_it_waits_in_a_domain_that_others_leave() -> None:
    """r1 has enough once "old" is gone, so nobody is evicted; it ends at 650 s."""
    nodes = without_a_node(racks(r1=(1, 1, 1, 1), r2=(1, 1, 1)), "r1-2", after=5)
    found = scene(nodes, gpu_pod("old", on="r1-3", run=650), close_job("g", 3, RACK), until=660).run()
    assert sent_away(found) == []
    assert found.nodes["g-w-2"] == "r1-3"


def test_only_a_sub_group_goes_if_that_is_enough() -> None:
    """Each of two sub-groups has a rack of two nodes. r2 loses one, and r3 could hold the sub-group. A pod that nobody
    creates anew stands for what a controller does."""
    nodes = without_a_node(racks(r1=(1, 1), r2=(1, 1), r3=(1, 1)), "r2-1", after=5)
    group = close_gang("g", 4, policies=[policy("p", 2, 2, RACK)], values="aabb")
    late = gpu_pod("g-new", group="g", at=7)
    late["metadata"]["labels"] = {"unit": "b"}
    found = scene(nodes, group, gpu_pod("other", on="r3-0", run=20), late, until=620).run()
    assert sent_away(found) == [(608.0, "default/g-2")]


# -- more pods than it needs -----------------------------------------------------------------------------------------


def test_a_domain_with_room_for_all_goes_before_one_of_a_lower_tier() -> None:
    # r1 has room for 3 of 5 pods, of which 2 are needed, and the block for 7.
    group = close_gang("g", 5, topology=hard(highestTierAllowed=2), least=2)
    assert len(scene(racks(r1=(1, 1, 1), r2=(2, 2)), group, until=3).run().started) == 5


def test_of_domains_that_have_too_few_for_all_the_largest_is_taken() -> None:
    # r1 has room for 3 of 5 pods, r2 for 4.
    found = scene(racks(r1=(1, 1, 1), r2=(2, 2)), close_gang("g", 5, topology=RACK, least=2), until=3).run()
    assert sorted(where(found, "g")) == ["r2-0", "r2-0", "r2-1", "r2-1"]
    code, message = found.why("g-4")
    assert code == "DomainShort"
    assert message.startswith("The group runs in rack r2 and may not leave it, and there is no room for one more pod.")


def test_pods_that_are_added_later_obey_too() -> None:
    group, *pods = close_gang("g", 4, topology=RACK, least=2)
    for pod in pods[2:]:
        pod["metadata"]["annotations"]["sim.stromboli.io/at"] = "5s"
    found = scene(racks(r1=(1, 1, 1), r2=(1, 1, 1, 1)), gpu_pod("old", on="r2-0", run=3), group, pods, until=9).run()
    assert len(where(found, "g")) == 3
    assert {node[:2] for node in where(found, "g")} in ({"r1"}, {"r2"})
