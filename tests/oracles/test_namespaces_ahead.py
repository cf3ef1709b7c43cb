"""Which namespace goes first, told to the one that does not."""

from __future__ import annotations

from builders import group, node, pod, quota
from oracles.stories import Story

TIERS = [["gang"], ["drf", "predicates", "nodeorder"]]


def story(*weights: tuple[str, int]) -> Story:
    """4 CPUs, all in use: 3 by namespace big, 1 by namespace small; both want one more."""
    return Story(
        node("n1", cpu=4),
        [quota(f"{namespace}/q", weight=weight) for namespace, weight in weights],
        [group(f"{n}/g", min_member=1, phase="Running") for n in ("big", "small")],
        [pod(f"big/r{i}", group="g", cpu=1, node="n1") for i in range(3)],
        pod("small/r0", group="g", cpu=1, node="n1"),
        pod("big/w", group="g", cpu=1),
        pod("small/w", group="g", cpu=1),
        actions="allocate",
        tiers=TIERS,
    ).run()


# big has 3/4 of the cluster, small 1/4. Both wait, and small goes first.
def test_who_has_more_is_told_who_goes_first_and_by_how_much() -> None:
    told = story()
    assert told.why("big/w") == "NamespaceShareAhead"
    assert told.message("big/w").startswith(
        "Namespace small goes first: its share in this queue is 25.0% at weight 1, the share of big is 75.0%"
    )
    assert told.why("small/w") == "InsufficientNode"


# With weight 3, big has 3/4 / 3 = 1/4, as much as small: neither is ahead, and nodes are all there is to say.
def test_even_shares_are_nobodys_fault() -> None:
    told = story(("big", 3))
    assert (told.why("big/w"), told.why("small/w")) == ("InsufficientNode", "InsufficientNode")


# With weight 4, big has 3/16 and goes first.
def test_a_weight_turns_it_around() -> None:
    told = story(("big", 4))
    assert (told.why("big/w"), told.why("small/w")) == ("InsufficientNode", "NamespaceShareAhead")
