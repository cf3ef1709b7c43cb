"""A capability is lowered below what a queue uses: whoever preempts replaces what goes, so that the use never grows."""

from __future__ import annotations

import pytest

from starvation.scenes import node, patch, pod, priority_class, queue
from together.situations import Document, Situation, happened, replica_set


def reservation(cpu: int) -> Document:
    spec = {"priorityClassName": "high", "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    return {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation",
        "metadata": {"name": "r", "annotations": {"sim.stromboli.io/at": "5s"}},
        "spec": {
            "queue": "q", "template": {"spec": spec}, "owners": [{"labelSelector": {"matchLabels": {"app": "report"}}}],
        },
    }  # fmt: skip


@pytest.mark.parametrize("cpu", [1, 2, 3])
@pytest.mark.parametrize("kind", ["pod", "reservation"])
def test_idle_nodes_do_not_make_up_for_victims(kind: str, cpu: int) -> None:
    # 6 of 8 CPUs are used, 4 are allowed from 3 s on. The 2 idle ones must not spare any of the `cpu` victims.
    urgent = pod("urgent", cpu, queue="q", priority="high", at=5) if kind == "pod" else reservation(cpu)
    report = Situation(
        [
            node("n0", 8), queue("q", capability={"cpu": 6}), priority_class("high", 1000),
            replica_set("low", 6, 1, queue="q"), urgent,
            patch("Queue", "q", {"spec": {"capability": {"cpu": 4}}}, at=3),
        ],
        None,
        9,
    ).run()  # fmt: skip

    assert len(happened(report, "Evicted")) == cpu
    assert report["queues"]["q"]["allocated"] == {"cpu": "6"}
    started = report["pods"]["default/urgent"]["bound"] if kind == "pod" else report["reservations"]["r"]["phase"]
    assert started == (6.0 if kind == "pod" else "Available")
