"""Room that a gang cannot use yet is closed to nobody, and borrowers go only for those who come before them."""

from __future__ import annotations

import pytest

from starvation.scenes import gang, node, pod, priority_class, queue
from together.situations import Situation, assert_restarts_change_nothing, happened, replica_set, situation, starts

LENDING = {"backfillNonBestEffort": True}

# A gang of five one-CPU pods on a node of four never starts. `steady` may not be preempted, so it cannot borrow; but
# there is nothing to wait for, and it takes its CPU for good when it comes.
NOT_PREEMPTABLE = situation(
    node("n1", 4), gang("huge", 1, 1, 1, 1, 1), pod("steady", 1, at=1, run=5, preemptable=False),
    backfill=LENDING, leave_out=("reserve",), until=10,
)  # fmt: skip

# `x` has two of four CPUs until 6 s. `lender` (200) needs four and lends two to `borrower` (100, 10 s) at 2 s; at 4 s
# it is deleted. `zero` (0) needs four as well, but comes after the borrower and lent nothing: it starts when the
# borrower has ended, at 12 s.
AFTER_THE_BORROWER = situation(
    priority_class("high", 100), priority_class("top", 200), node("n1", 4),
    pod("x", 2, on="n1", run=6, preemptable=False), gang("lender", 1, 1, 1, 1, priority="top", until=4),
    gang("zero", 1, 1, 1, 1, at=1, run=5), pod("borrower", 2, at=2, run=10, priority="high"),
    backfill=LENDING, leave_out=("reserve",), until=20,
)  # fmt: skip

# `huge` never starts: it needs three CPUs, and its queue may have two. It lends them to `p1` and `p2`. `p3` and `p4`
# came at the same time and are equal, so they come after those by name. What `p1` and `p2` borrowed must not put them
# last.
EQUALS = situation(
    queue("q", capability={"cpu": 2}), node("n1", 3), gang("huge", 1, 1, 1, queue="q"),
    [pod(f"p{number}", 1, queue="q", at=1, run=10) for number in (1, 2, 3, 4)],
    backfill=LENDING, leave_out=("reserve",), until=25,
)  # fmt: skip


def test_a_job_that_cannot_borrow_takes_room_that_a_gang_cannot_use() -> None:
    assert starts(NOT_PREEMPTABLE.run()) == {"default/steady": 1}


def test_a_borrower_is_not_evicted_by_a_gang_that_comes_after_it() -> None:
    report = AFTER_THE_BORROWER.run()
    assert happened(report, "Evicted") == []
    assert starts(report)["default/borrower"] == 2
    assert starts(report)["default/zero-0"] == 12


def test_a_borrower_is_not_evicted_by_an_equal_job_that_comes_after_it() -> None:
    report = EQUALS.run()
    assert happened(report, "Evicted") == []
    assert starts(report) == {"default/p1": 1, "default/p2": 1, "default/p3": 11, "default/p4": 11}


@pytest.mark.parametrize(
    "story", [NOT_PREEMPTABLE, AFTER_THE_BORROWER, EQUALS], ids=["not preemptable", "after the borrower", "equals"]
)
def test_restarts_change_nothing(story: Situation) -> None:
    assert_restarts_change_nothing(story)


def test_borrowers_that_a_budget_lets_go_one_by_one_do_not_go_together() -> None:
    # The gang needs all 4 CPUs. Two are used until 10 s, and a service of two pods borrows the others. The budget
    # allows each of these two to go, but not both.
    story = situation(
        node("n", 4),
        pod("long", 2, run=10),
        gang("gang", 2, 2, at=1),
        replica_set("web", 2, 1, at=2),
        {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web"},
            "spec": {"selector": {"matchLabels": {"app": "web"}}, "maxUnavailable": 1},
        },
        until=20, backfill=LENDING,
    )  # fmt: skip
    report = story.run()
    assert all(report["pods"][f"default/web-{number}"]["backfill"] for number in (0, 1))
    assert happened(report, "Evicted") == []
