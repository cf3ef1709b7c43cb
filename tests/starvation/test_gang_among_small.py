"""A gang of two on a node with two CPUs, one of them in use; and B, C and D, who want one CPU each.

Without lending the free CPU goes to B for good. With it B runs on what the gang cannot use yet, and gives it
back: by eviction, or when it has ended.
"""

from __future__ import annotations

import pytest

from starvation.scenes import gang, node, pod, scene, stream
from starvation.stories import LENDING, STORIES

EVICTING = STORIES["X9"]
WAITING = STORIES["X9, waiting"]


@pytest.mark.parametrize(
    ("round", "evicting", "waiting"),
    [
        (0, {"x", "b"}, {"x", "b"}),  # A found one CPU of two; it is lent to B
        (1, {"x", "b"}, {"x", "b"}),
        (2, {"x", "b"}, {"x", "b"}),
        (3, set(), {"b"}),  # X has ended. A counts on both CPUs, so C and D get neither; B is evicted, or waited for
        (4, {"a-0", "a-1"}, {"b"}),
        (7, {"a-0", "a-1"}, {"b"}),
        (8, {"c", "d"}, {"a-0", "a-1"}),  # A has run for four seconds, or begins, as B has ended
        (12, set(), {"c", "d"}),
    ],
)
def test_who_runs_in_each_round(round: int, evicting: set[str], waiting: set[str]) -> None:
    assert EVICTING.at(round).running == evicting
    assert WAITING.at(round).running == waiting


def test_the_one_who_borrowed_is_marked_and_evicted_once() -> None:
    outcome = EVICTING.run()
    assert outcome.happened("Evicted") == [(3.0, "b")]
    said = "The pod ran on lent resources. default/a goes first and can start there now."
    assert outcome.messages("Evicted") == [said]
    assert {name for name in "abcd" if name != "a" and outcome.pod(name)["backfill"]} == {"b"}
    assert not outcome.pod("a-0")["backfill"]


def test_nobody_is_evicted_where_lent_room_is_waited_for() -> None:
    outcome = WAITING.run()
    assert outcome.happened("Evicted") == []
    assert outcome.happened("Conditional") == [(3.0, "a-1")]  # once, not in every round


def test_while_it_waits_it_says_for_whom() -> None:
    code, sentence = WAITING.at(5).why("a-0")
    assert code == "ConditionallyReady"
    assert "default/b" in sentence


def test_grace_is_waited_for() -> None:
    documents = [{**d} for d in EVICTING.documents if d["metadata"]["name"] != "b"]
    slow = EVICTING.but(documents=[*documents, pod("b", run=20, grace=2)]).run()
    # Evicted at 3, gone at 5.
    assert slow.started["a-0"] == slow.started["a-1"] == 5
    assert slow.happened("Evicted") == [(3.0, "b")]


def test_without_lending_the_free_cpu_is_given_away() -> None:
    plain = EVICTING.but(backfill={}).run()
    assert plain.happened("Evicted") == []
    assert not plain.pod("b")["backfill"]
    # X ends at 3 and C follows at once (until 6), then D (until 9), B has the other CPU until 8: A gets both at 9.
    assert plain.started["a-0"] == 9


ENDLESS = [
    node("n1", 2), pod("x", on="n1", run=3), gang("a", 1, 1, run=4), stream("s", every=1, run=2, end=1000),
]  # fmt: skip


def test_small_pods_without_end_starve_a_gang_where_nothing_is_lent_nor_set_aside() -> None:
    assert "a-0" not in scene(*ENDLESS, until=1000).run().started


def test_small_pods_without_end_do_not_delay_a_gang_that_can_take_its_room_back() -> None:
    outcome = scene(*ENDLESS, backfill=LENDING, until=12).run()
    assert outcome.started["a-0"] == outcome.started["a-1"] == 4  # X ends at 3, and one cycle for the eviction


def test_small_pods_without_end_delay_a_gang_that_waits_by_one_of_their_runs() -> None:
    outcome = scene(*ENDLESS, backfill={**LENDING, "mode": "wait"}, until=12).run()
    # At 3 it counts on both CPUs. Who runs on lent room then is gone two seconds later at most.
    assert outcome.started["a-0"] == outcome.started["a-1"] <= 3 + 2
    assert outcome.happened("Evicted") == []
