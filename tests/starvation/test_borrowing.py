"""Who may run on lent room, and who has to give it back.

One node of two CPUs, of which X has one until 3 s; the gang A wants two. B may want the other CPU meanwhile.
"""

from __future__ import annotations

import pytest

from starvation.scenes import BACKFILL, Document, Outcome, gang, node, pod, priority_class, queue, scene
from starvation.stories import LENDING

WAITING = {**LENDING, "mode": "wait"}
BEGIN: list[Document] = [node("n1", 2), pod("x", on="n1", run=3), *gang("a", 1, 1, run=4)]


def run(*parts: Document | list[Document], backfill: Document = LENDING, until: float = 8) -> Outcome:
    return scene(BEGIN, *parts, backfill=backfill, until=until).run()


def test_who_opts_out_of_borrowing_takes_the_room_for_good() -> None:
    # A cannot use it yet, and nobody keeps it closed. B ends at 8.
    for borrower in (
        [pod("b-0", run=8, backfill="false")],
        gang("b", 1, run=8, notes={BACKFILL: "False"}),
        gang("b", 1, run=8, backfill="false"),
    ):
        outcome = run(borrower)
        assert outcome.started == {"b-0": 0, "a-0": 8, "a-1": 8}
        assert not outcome.pod("b-0")["backfill"]


def test_who_may_not_be_evicted_takes_the_room_for_good_unless_lent_room_is_waited_for() -> None:
    b = pod("b", run=5, preemptable=False)
    for mode in (LENDING, WAITING):
        outcome = run(b, backfill=mode)
        assert outcome.started == {"b": 0, "a-0": 5, "a-1": 5}
        assert outcome.pod("b")["backfill"] == (mode is WAITING)


def test_a_gang_borrows_whole_or_not_at_all() -> None:
    # One CPU is lent, and two are wanted.
    assert "b-0" not in run(gang("b", 1, 1, run=8), until=6).started


def test_a_gang_gives_back_whole_what_it_cannot_give_back_in_part() -> None:
    # Four CPUs: X has one until 3, A wants four. B borrows two of three and cannot do with one of them; the third is
    # lent to C.
    documents = [
        node("n1", 4), pod("x", on="n1", run=3), *gang("a", 2, 2, run=4), *gang("b", 1, 1, run=20), pod("c", run=20),
    ]  # fmt: skip
    outcome = scene(documents, backfill=LENDING, until=6).run()
    assert {"b-0", "b-1", "c"} <= {name for name, time in outcome.started.items() if time == 0}
    assert sorted(name for _, name in outcome.happened("Evicted")) == ["b-0", "b-1", "c"]
    assert outcome.started["a-0"] == outcome.started["a-1"] == 4


def test_only_those_in_the_way_are_evicted() -> None:
    # Five CPUs, and A wants four: X leaves one, so one of the two borrowers may stay, the one who comes first.
    documents = [
        node("n1", 5), pod("x", 2, on="n1", run=3), *gang("a", 2, 2, run=4), pod("b", run=20), pod("c", run=20),
    ]  # fmt: skip
    outcome = scene(documents, backfill=LENDING, until=6).run()
    assert outcome.happened("Evicted") == [(3.0, "c")]
    assert outcome.started["a-0"] == 4


def test_where_a_budget_protects_the_borrower_it_is_waited_for() -> None:
    budget: Document = {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "b"}}},
    }  # fmt: skip
    b = pod("b", run=6)
    b["metadata"]["labels"] = {"app": "b"}
    outcome = run(budget, b)
    assert outcome.happened("Evicted") == []
    assert outcome.happened("Conditional") == [(3.0, "a-1")]
    assert outcome.started == {"b": 0, "a-0": 6, "a-1": 6}


@pytest.mark.parametrize("name", [BACKFILL, "scheduling.k8s.io/kube-batch-backfill"])
def test_the_mark_is_on_the_pod(name: str) -> None:
    # Also a pod that was started by another scheduler, and marked by it, gives its room back.
    b = pod("b", on="n1", run=20)
    b["metadata"]["annotations"][name] = "true"
    outcome = run(b)
    assert outcome.happened("Evicted") == [(3.0, "b")]
    assert outcome.started == {"a-0": 4, "a-1": 4}
    b["metadata"]["annotations"][name] = "false"
    assert run(b).started == {}


def test_what_is_lent_counts_in_the_queue_and_is_given_back_also_if_only_the_queue_is_full() -> None:
    # q may have two CPUs, and B has one of them, on lent room. At 3 there are two CPUs for the gang of the same queue,
    # but it may have both only without B.
    documents = [
        node("n1", 3), queue("q", capability={"cpu": 2}), pod("x", 2, on="n1", run=3),
        *gang("a", 1, 1, queue="q", run=4), pod("b", queue="q", run=20),
    ]  # fmt: skip
    story = scene(documents, backfill=LENDING, until=5)
    assert story.at(2).report["queues"]["q"]["allocated"] == {"cpu": "1"}
    outcome = story.run()
    assert outcome.happened("Evicted") == [(3.0, "b")]
    assert outcome.started["a-0"] == outcome.started["a-1"] == 4


@pytest.mark.parametrize("mode", ["preemption", "wait"])
def test_who_came_after_a_borrower_started_neither_sends_it_away_nor_counts_on_its_room(mode: str) -> None:
    # x has one of two CPUs, so the gang cannot start and its CPU is lent to b from 1 to 13. Late has a higher priority
    # than b, but lent nothing: it came at 5. Nobody preempts here.
    documents = [
        priority_class("high", 100), node("n", 2), pod("x", on="n", run=30), *gang("a", 1, 1), pod("b", at=1, run=12),
        pod("late", at=5, run=5, priority="high"),
    ]  # fmt: skip
    outcome = scene(documents, backfill={**LENDING, "mode": mode}, leave_out=("preempt",), until=15).run()
    assert outcome.pod("b")["backfill"]
    assert outcome.happened("Evicted") == []
    assert outcome.happened("Conditional") == []
    assert outcome.started["late"] == 13


SERVICE: Document = {
    "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "b"},
    "spec": {
        "replicas": 1, "selector": {"matchLabels": {"app": "b"}},
        "template": {
            "metadata": {"labels": {"app": "b"}},
            "spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}]},
        },
    },
}  # fmt: skip


def test_room_is_kept_behind_a_borrower_that_ends() -> None:
    # From 3 on A would have the free CPU and that of B, which ends at 7. C wants the free one.
    story = scene(BEGIN, pod("b", run=7), pod("c", at=4, run=20), backfill=WAITING)
    assert story.at(2).reserved == {}
    assert story.at(5).reserved == {"n1": ["a"]}
    assert story.at(7).started == {"b": 0, "a-0": 7, "a-1": 7}


def test_room_is_not_kept_behind_a_service() -> None:
    story = scene(BEGIN, SERVICE, pod("c", at=4, run=3), backfill=WAITING, until=8)
    outcome = story.run()
    assert outcome.happened("Conditional") == []
    assert story.at(5).reserved == {}
    assert outcome.started["c"] == 4
    assert outcome.why("a-0")[0] == "GangShort"
