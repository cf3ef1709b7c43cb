"""A pod runs on resources that are lent to it: its owner cannot make that forgotten."""

from __future__ import annotations

import pytest

from starvation.scenes import Scene, patch, restart
from starvation.stories import LENDING, gang_among_small

# One node of two CPUs. X has the one until 3 s, the gang A wants both, and lends the other to B meanwhile.
SCENE = Scene(gang_among_small(), backfill=LENDING, until=12)
MARKS = ("scheduling.stromboli.io/backfill", "scheduling.k8s.io/kube-batch-backfill")


@pytest.mark.parametrize("value", [None, "false", "maybe"])
def test_a_borrower_that_removes_its_mark_goes_all_the_same(value: str | None) -> None:
    told = SCENE.run()
    [borrower] = {event["object"] for event in told.report["events"] if event["type"] == "Evicted"}
    assert told.report["pods"][borrower]["backfill"]
    removed = patch("Pod", borrower.partition("/")[2], {"metadata": {"annotations": dict.fromkeys(MARKS, value)}}, at=2)
    forgotten = SCENE.run(removed)
    assert forgotten.report["events"] == told.report["events"]
    again = SCENE.run(removed, *(restart(second) for second in range(12)))
    assert again.report["events"] == told.report["events"], "a restart does not make it forgotten, either"
