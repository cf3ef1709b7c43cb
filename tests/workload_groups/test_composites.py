"""Groups of groups: a CompositePodGroup starts as many of its groups as it needs, or none."""

from __future__ import annotations

import pytest

from starvation.scenes import Document, gang, node, priority_class, restart
from together.situations import Report
from workload_groups.scenes import (
    bound,
    composite,
    condition,
    evicted,
    member,
    members,
    nodes,
    running,
    situation,
    why,
    workload_group,
)


def children(names: str, least: int, pods: int, *, parent: str = "c", key: str = "") -> list[Document]:
    """A group for each letter."""
    found: list[Document] = []
    for name in names:
        found += [workload_group(name, least, parent=parent, key=key), *members(name, pods)]
    return found


def racks(**cpus: float) -> list[Document]:
    """A node in each rack, and one without a rack that would have room for everything."""
    return [*(node(f"in-{rack}", cpu, labels={"rack": rack}) for rack, cpu in cpus.items()), node("outside", 99)]


def racks_of(report: Report) -> dict[str, set[str]]:
    """By group: the nodes of its pods."""
    found: dict[str, set[str]] = {}
    for name, pod in report["pods"].items():
        if pod["node"]:
            found.setdefault(name.removeprefix("default/").partition("-")[0], set()).add(pod["node"])
    return found


def test_as_many_groups_as_it_needs_or_none() -> None:
    # Two of three groups of two pods.
    parts = [composite("c", 2), *children("xyz", 2, 2)]
    assert bound(situation(*nodes(1, 3), *parts, until=3).run()) == {}
    found = situation(*nodes(1, 4), *parts, until=3).run()
    assert running(found) == {"x-0", "x-1", "y-0", "y-1"}
    assert condition(found, "c", "CompositePodGroupInitiallyScheduled")["status"] == "True"
    # The third starts by itself, once there is room for it as a whole.
    assert running(situation(*nodes(1, 5), *parts, until=3).run()) == {"x-0", "x-1", "y-0", "y-1"}
    assert len(running(situation(*nodes(1, 6), *parts, restart(2), until=4).run())) == 6


def test_nothing_starts_without_the_parent() -> None:
    found = situation(*nodes(1, 4), *children("x", 2, 2), until=3).run()
    assert why(found, "x-0") == (
        "NoPodGroup",
        "CompositePodGroup default/c, the parent of PodGroup default/x, does not exist; create it.",
    )


def test_trees_of_four_levels() -> None:
    tree = [composite("a", 1), composite("b", 1, parent="a"), composite("c", 2, parent="b")]
    assert bound(situation(*nodes(1, 3), *tree, *children("xy", 2, 2), until=3).run()) == {}
    assert len(running(situation(*nodes(1, 4), *tree, *children("xy", 2, 2), until=3).run())) == 4


def test_circles_are_refused() -> None:
    circle = [composite("a", 1, parent="b"), composite("b", 1, parent="a")]
    found = situation(*nodes(1, 4), *circle, *children("x", 1, 1, parent="a"), until=3).run()
    assert why(found, "x-0")[0] == "InvalidObject"
    assert "is a parent of itself" in why(found, "x-0")[1]


# -- domains --------------------------------------------------------------------------------------------------------


def test_a_constraint_of_the_composite_holds_for_all_its_groups() -> None:
    """It needs two of its groups. The third must be in the same rack, too, whole or not at all."""
    parts = [composite("c", 2, key="rack"), *children("xyz", 2, 2)]
    found = situation(*racks(a=5, b=6), *parts, until=3).run()
    assert racks_of(found) == {"x": {"in-b"}, "y": {"in-b"}, "z": {"in-b"}}
    for again in ([], [restart(2)]):
        found = situation(*racks(a=5, b=3), *parts, *again, until=4).run()
        assert racks_of(found) == {"x": {"in-a"}, "y": {"in-a"}}
    assert bound(situation(*racks(a=3, b=3), *parts, until=3).run()) == {}


def test_each_group_may_have_a_domain_of_its_own() -> None:
    parts = [composite("c", 2), *children("xy", 2, 2, key="rack")]
    found = situation(*racks(a=2, b=3), *parts, until=3).run()
    assert sorted(map(sorted, racks_of(found).values())) == [["in-a"], ["in-b"]]
    found = situation(*racks(a=3, b=1), *parts, until=3).run()
    assert bound(found) == {}
    assert why(found, "x-0") == (
        "SubGroupShort",
        "The groups that are needed start together, or none of them does. For PodGroup y, beside those that fit, no "
        "domain by the label rack has room for all 2 pods that must start together. Closest is rack a, with room for 1 "
        "of them.",
    )


def test_a_group_that_is_needed_and_lacks_pods_is_named() -> None:
    parts = [composite("c", 2), *children("x", 2, 2), *children("y", 2, 1)]
    assert why(situation(*nodes(1, 9), *parts, until=3).run(), "x-0") == (
        "NotEnoughPods",
        "The gang has too few pods of PodGroup y: 2 required, 1 created. Create the others or lower minCount.",
    )


def test_a_constraint_between_holds_for_the_groups_below() -> None:
    parts = [composite("a", 2), composite("c", 2, parent="a", key="rack"), *children("xy", 1, 1),
             *children("z", 3, 3, parent="a")]  # fmt: skip
    found = situation(*racks(a=1, b=2), *parts, until=3).run()
    assert racks_of(found) == {"x": {"in-b"}, "y": {"in-b"}, "z": {"outside"}}


def test_two_constraints_on_one_way_are_refused() -> None:
    parts = [composite("a", 1), composite("c", 1, parent="a", key="rack"), *children("x", 1, 1, key="host")]
    found = situation(*racks(a=5), *parts, until=3).run()
    assert why(found, "x-0") == (
        "InvalidObject",
        "PodGroup default/x has a topology constraint, and CompositePodGroup default/c above it, which starts together "
        "with others, has one, too. Only one of the two can be kept; create one of them without.",
    )


@pytest.mark.parametrize("whole", [True, False])
def test_a_group_that_is_not_needed_waits_for_all_its_pods(whole: bool) -> None:
    """It was whole with the pods that there were, so two of its three started."""
    late = member("y-2", "y", at=3)
    parts = [composite("c", 1, whole=whole, key="" if whole else "rack"), *children("x", 1, 1),
             workload_group("y", 3, parent="c"), *members("y", 2), late]  # fmt: skip
    found = situation(*racks(a=4), *parts, until=2).run()
    assert running(found) == {"x-0"}
    assert why(found, "y-0") == (
        "NotEnoughPods", "PodGroup y needs 3 pods to start, and has 2. Create the others, or lower minCount.",
    )  # fmt: skip
    assert running(situation(*racks(a=4), *parts, until=3).run()) == {"x-0", "y-0", "y-1", "y-2"}


def test_a_composite_that_is_not_needed_waits_for_all_its_groups() -> None:
    """Inside it, a group with too few pods keeps the others waiting only if they are too few without it."""
    outer = [composite("o", 1, key="rack"), *children("x", 1, 1, parent="o")]
    halves = [*children("y", 1, 1), workload_group("z", 2, parent="c"), member("z-0", "z")]
    found = situation(*racks(a=9), *outer, composite("c", 2, parent="o"), *halves, until=2).run()
    assert running(found) == {"x-0"}
    assert why(found, "y-0") == (
        "NotEnoughPods",
        "CompositePodGroup default/c needs 2 groups to start, and has 1. Create the others, or lower minGroupCount.",
    )
    found = situation(*racks(a=9), *outer, composite("c", 1, parent="o"), *halves, until=2).run()
    assert running(found) == {"x-0", "y-0"}


# -- disruption -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("whole", "gone"), [(True, 6), (False, 2)])
def test_disruption_mode_of_a_composite(whole: bool, gone: int) -> None:
    """The third group is not needed, so it can go alone, unless all must go together."""
    story = situation(
        *nodes(1, 6), priority_class("high", 10), composite("c", 2, whole=whole), *children("xyz", 2, 2),
        *gang("u", 1, priority="high", at=4), until=7,
    )  # fmt: skip
    found = story.run()
    assert len(evicted(found)) == gone
    assert "u-0" in running(found)


def test_a_group_inside_was_scheduled_for_ever_once_it_was() -> None:
    story = situation(
        *nodes(1, 4), priority_class("high", 10), composite("c", 2), *children("xy", 2, 2),
        *gang("u", 1, priority="high", at=4), until=9,
    )  # fmt: skip
    found = story.run()
    assert len(evicted(found)) == 4
    assert condition(found, "x", "PodGroupInitiallyScheduled")["status"] == "True"


def test_all_groups_of_a_composite_share_one_queue() -> None:
    queues = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": {}}
        for name in ("q", "r")
    ]
    found = situation(
        *nodes(1, 4), *queues, composite("c", 2, queue="q"), workload_group("x", 1, parent="c", queue="r"),
        member("x-0", "x"), workload_group("y", 1, parent="c"), member("y-0", "y"), until=3,
    ).run()  # fmt: skip
    assert {pod["queue"] for pod in found["pods"].values()} == {"q"}
    assert running(found) == {"x-0", "y-0"}
