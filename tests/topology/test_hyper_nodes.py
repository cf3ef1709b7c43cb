"""HyperNodes become domains; those that contradict others are left out, and it is said why."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from random import Random

import pytest

from builders import hyper_node
from stromboli.api import HyperNode, LabelSelector, LabelSelectorRequirement
from stromboli.cluster.topology import Members, PatternMatches, Resolved, Tree, members, resolve

LABELS = {
    "n1": {"rack": "r1", "zone": "z1"},
    "n2": {"rack": "r1", "zone": "z1"},
    "n3": {"rack": "r2", "zone": "z1"},
    "n4": {"rack": "r2"},
}


def nodes(names: Iterable[str] = LABELS) -> Members:
    return Members([(name, LABELS.get(name, {})) for name in sorted(names)], PatternMatches())


def resolved(*objects: HyperNode) -> Resolved:
    return resolve(objects, nodes())


def domains(found: Resolved) -> dict[str, list[str]]:
    return {name: [f"n{row + 1}" for row in rows] for name, _, _, rows in found.found}


def problems(found: Resolved) -> dict[str, tuple[str, str, bool]]:
    return {name: (one.reason, one.message, one.left_out) for name, one in found.problems.items()}


def test_members_are_selected_by_name_expression_or_labels() -> None:
    found = resolved(
        hyper_node("by-name", 1, nodes=["n1", "n2"], tier_name="rack"),
        hyper_node("by-expression", 2, regex="^n[34]$"),
        hyper_node("by-labels", 3, labels={"zone": "z1"}),
        hyper_node("all", 4, "by-name", "by-expression"),
    )
    assert domains(found) == {
        "by-name": ["n1", "n2"],
        "by-expression": ["n3", "n4"],
        "all": ["n1", "n2", "n3", "n4"],
    }
    assert found.found[0][:3] == ("by-name", 1, "rack")
    # It would have to have n4, too.
    assert problems(found) == {
        "by-labels": (
            "Overlap",
            "It has 1 of the 2 nodes of by-expression, whose tier 2 is below its own. It must have all of them or "
            "none.",
            True,
        )
    }
    assert found.counts == {"by-name": 2, "by-expression": 2, "by-labels": 3, "all": 4}


def test_an_expression_matches_any_part_of_a_name() -> None:
    """As in Volcano, unless it says where the name begins and ends."""
    assert domains(resolved(hyper_node("a", 1, regex="[12]"))) == {"a": ["n1", "n2"]}


def test_selectors_of_labels_have_expressions() -> None:
    rack = hyper_node("a", 1, labels={"zone": "z1"})
    selector = rack.spec.members[0].selector.label_match
    assert selector is not None
    selector.match_expressions.append(LabelSelectorRequirement(key="rack", operator="NotIn", values=["r2"]))
    assert domains(resolved(rack)) == {"a": ["n1", "n2"]}
    everything = hyper_node("b", 1)
    everything.spec.members.extend(rack.spec.members)
    everything.spec.members[0].selector.label_match = LabelSelector()
    assert domains(resolved(everything)) == {"b": ["n1", "n2", "n3", "n4"]}


def test_members_that_do_not_exist_are_reported_and_the_others_count() -> None:
    found = resolved(
        hyper_node("a", 1, nodes=["n1", "n9"]),
        hyper_node("b", 1, regex="rack-.*", nodes=["n8"]),
        hyper_node("c", 2, "a", "x"),
        hyper_node("d", 2, *[f"x{number}" for number in range(5)], labels={"rack": "r9"}),
    )
    assert domains(found)["c"] == ["n1"]
    assert problems(found) == {
        "a": ("MembersMissing", "It has 1 node by its other members: there is no node n9.", False),
        "b": (
            "MembersMissing",
            'It has no nodes: there is no node n8; no node has a name that "rack-.*" matches.',
            False,
        ),
        "c": ("MembersMissing", "It has 1 node by its other members: there is no HyperNode x.", False),
        "d": (
            "MembersMissing",
            "It has no nodes: there is no HyperNode x0; there is no HyperNode x1; there is no HyperNode x2; and 3 more "
            "members without nodes.",
            False,
        ),
    }


def test_a_cycle_leaves_out_its_members_and_what_has_them() -> None:
    found = resolved(
        hyper_node("a", 1, "c"),
        hyper_node("b", 2, "a"),
        hyper_node("c", 3, "b"),
        hyper_node("top", 4, "c"),
        hyper_node("r", 1, nodes=["n1"]),
    )
    assert domains(found) == {"r": ["n1"]}
    assert problems(found) == {
        "a": ("Cycle", "It is a member of itself: a → c → b → a. Remove one of these members.", True),
        "b": ("Cycle", "It is a member of itself: b → a → c → b. Remove one of these members.", True),
        "c": ("Cycle", "It is a member of itself: c → b → a → c. Remove one of these members.", True),
        "top": ("MemberLeftOut", "Its member c cannot be used (Cycle), so neither can it.", True),
    }


def test_a_node_is_in_one_domain_of_a_tier() -> None:
    """The first by name has it; the other one, and what it is in, is left out."""
    found = resolved(
        hyper_node("r2", 1, nodes=["n2", "n3"]),
        hyper_node("r1", 1, nodes=["n1", "n2"]),
        hyper_node("block", 2, "r2"),
        hyper_node("zone", 3, "r1"),
    )
    assert domains(found) == {"r1": ["n1", "n2"], "zone": ["n1", "n2"]}
    assert problems(found) == {
        "r2": (
            "Overlap",
            "1 node of it, such as n2, is in r1, which has the same tier (1). A node can be in one HyperNode of a tier "
            "only.",
            True,
        ),
        "block": ("MemberLeftOut", "Its member r2 cannot be used (Overlap), so neither can it.", True),
    }


def test_a_hyper_node_is_a_member_of_one_other() -> None:
    found = resolved(hyper_node("r", 1, nodes=["n1"]), hyper_node("b2", 3, "r"), hyper_node("b1", 3, "r"))
    assert domains(found) == {"r": ["n1"], "b1": ["n1"]}
    assert problems(found) == {
        "b2": ("TwoParents", "Its member r is a member of b1, too. A HyperNode can be in one other only.", True)
    }


def test_a_tier_is_above_those_of_its_members() -> None:
    found = resolved(hyper_node("r", 2, nodes=["n1"]), hyper_node("b", 2, "r"))
    assert domains(found) == {"r": ["n1"]}
    assert problems(found)["b"] == (
        "TierOrder",
        "Its tier is 2, and that of its member r is 2. The tier must be above those of all members.",
        True,
    )


def test_a_name_belongs_to_one_tier() -> None:
    found = resolved(
        hyper_node("a", 1, nodes=["n1"], tier_name="rack"), hyper_node("b", 2, nodes=["n2"], tier_name="rack")
    )
    assert domains(found) == {"a": ["n1"], "b": ["n2"]}
    assert problems(found) == {
        "b": ("TierName", "It calls tier 2 rack, as a calls tier 1. Groups that name this tier get tier 1.", False)
    }


OBJECTS = (
    hyper_node("r1", 1, nodes=["n1", "n2"]),
    hyper_node("r2", 1, nodes=["n2", "n3"]),
    hyper_node("x", 2, "y", "r1"),
    hyper_node("y", 3, "x"),
    hyper_node("z", 4, labels={"zone": "z1"}),
)


@pytest.mark.parametrize("order", list(permutations(range(len(OBJECTS))))[::11])
def test_the_order_of_objects_changes_nothing(order: tuple[int, ...]) -> None:
    found, usual = resolved(*(OBJECTS[index] for index in order)), resolved(*OBJECTS)
    assert (domains(found), problems(found), list(found.problems)) == (
        domains(usual),
        problems(usual),
        list(usual.problems),
    )


@pytest.mark.parametrize("seed", range(40))
def test_whatever_is_written_the_domains_are_a_tree(seed: int) -> None:
    """Random HyperNodes, most of them contradicting others: what is in use has the properties of a tree, and each of
    the others has a problem."""
    random = Random(seed)
    names = [f"n{number}" for number in range(12)]
    objects = [
        hyper_node(
            f"h{number}",
            random.randint(1, 4),
            *random.sample([f"h{other}" for other in range(14)], random.choice((0, 0, 1, 2))),
            nodes=random.sample(names, random.choice((0, 1, 2, 4))),
        )
        for number in range(12)
    ]
    found = resolve(objects, nodes(names))
    used = {name: set(rows.tolist()) for name, _, _, rows in found.found}
    tiers = {name: tier for name, tier, _, _ in found.found}
    for one in used:
        for other in used:
            if one < other and used[one] & used[other]:
                assert tiers[one] != tiers[other]
                lower, higher = sorted((one, other), key=tiers.__getitem__)
                assert used[lower] <= used[higher]
    assert set(used) == {obj.metadata.name for obj in objects} - {
        n for n, one in found.problems.items() if one.left_out
    }
    tree = Tree(12, [(name, tier, tier_name, rows.tolist()) for name, tier, tier_name, rows in found.found])
    assert len(tree.domains) == sum(bool(rows) for rows in used.values())


def test_patterns_are_asked_about_new_nodes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def begins_with_n(name: str) -> bool:
        asked.append(name)
        return name.startswith("n")

    monkeypatch.setattr(members, "quick_test", lambda text: begins_with_n)
    patterns, rack = PatternMatches(), hyper_node("a", 1, regex="^n")
    for names, new in ((["n1", "m1"], ["m1", "n1"]), (["n1", "n2"], ["n2"]), (["n2"], []), (["n1", "n2"], ["n1"])):
        names.sort()
        found = resolve([rack], Members([(name, {}) for name in names], patterns))
        assert [names[row] for row in found.found[0][3]] == [name for name in names if name[0] == "n"]
        assert sorted(asked) == new
        asked.clear()
