"""No more pods are evicted than it takes.

First the cases in which it once took more, or might; then small clusters in which every smaller set of victims is tried.
"""

from __future__ import annotations

from collections import Counter

import pytest

from fairness.scenes import Document, Run, flat, nodes, pods, priority_class, queue, replica_set

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
