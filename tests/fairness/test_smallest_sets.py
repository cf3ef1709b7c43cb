"""No more pods are evicted than it takes.

First cases in which it once took more; then small clusters in which every smaller set of victims is tried.
"""

from __future__ import annotations

from collections import Counter

import pytest

from fairness.scenes import Document, Run, flat, nodes, patch, pods, priority_class, queue, replica_set

# -- borrowed room ----------------------------------------------------------------------------------------------------


def borrowed(*more: Document) -> list[Document]:
    """8 CPUs at equal weights; "mine" has all of them. Since 2, "yours" wants half, and cannot have it: mine is not
    reclaimable. So mine deserves 4 and has 8."""
    return flat(
        nodes(8), queue("mine", reclaimable=False), queue("yours"), priority_class("high", 100),
        replica_set("ns/low", 8, queue="mine"), replica_set("ns/other", 8, queue="yours", at=2), more,
    )  # fmt: skip


# One for one leaves mine with what it had. (Down to 4 CPUs with the new pod, five would have to go.)
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_a_queue_that_has_borrowed_gives_up_only_what_its_own_pod_needs(wanted: int) -> None:
    run = Run(borrowed(*pods("ns/urgent", 1, cpu=wanted, queue="mine", priority="high", at=5)), cycles=12)
    assert len(run.evictions) == wanted
    assert {eviction.claimant for eviction in run.evictions} == {"ns/urgent-0"}
    assert run.running() == Counter({("mine", "ns"): 8})


# The queue was told to have 4 CPUs at most when it had 8. One for one is no more than it has, so it is allowed; and
# what was allowed when a pod was evicted for it is allowed when the room is free.
def test_a_queue_above_its_limit_keeps_its_promises() -> None:
    limited = patch("Queue", "mine", {"spec": {"capability": {"cpu": 4}}}, at=3)
    urgent = pods("ns/urgent", 1, queue="mine", priority="high", at=5)
    run = Run([*borrowed(*urgent), limited], cycles=12)
    assert [eviction.claimant for eviction in run.evictions] == ["ns/urgent-0"]
    assert "ns/urgent-0" in run.binds[6]
