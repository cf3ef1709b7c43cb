"""Values in objects that cannot be used as they are: what counts instead, and that its owner is warned once."""

from __future__ import annotations

from pathlib import Path

import pytest

from builders import cluster, group, node, pod, priority_class, queue, quota
from simulation.scenario_runner import run_text
from stromboli.api import KObject
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Notice
from stromboli.scheduling.registry import Registry


def warnings(known: Cluster) -> list[tuple[str, str, str]]:
    """The warnings of one cycle with the built-in configuration."""
    registry = Registry()
    cycle = Scheduler(registry.default(), registry).run(known, 0.0)
    return [(one.kind, one.key, one.reason) for one in cycle.decisions if isinstance(one, Notice) and one.warning]


class TestWeights:
    @pytest.mark.parametrize(
        ("written", "weight"),
        [("3", 3), (3, 3), ("1k", 1000), ("3.0", 3), (3.0, 3), ("3000m", 3), ("2Ki", 2048), ("1e30", 10**30)],
    )
    def test_a_weight_is_a_quantity(self, written: str | int | float, weight: int) -> None:
        known = cluster(quota("ns1/q", weight=written))
        assert known.namespaces["ns1"].weight == weight
        assert warnings(known) == []

    @pytest.mark.parametrize("written", ["0", "-1", "1.5", "100m", "three", "", "1e999"])
    def test_anything_else_counts_as_one_with_a_warning(self, written: str) -> None:
        known = cluster(quota("ns1/q", weight=written))
        assert known.namespaces["ns1"].weight == 1
        assert warnings(known) == [("ResourceQuota", "ns1/q", "InvalidWeight")]

    def test_the_warning_comes_once_for_each_value(self) -> None:
        bad = quota("ns1/q", weight="zero")
        known = cluster(bad)
        assert len(warnings(known)) == 1
        known.apply(Applied(bad))
        assert warnings(known) == []
        known.apply(Applied(quota("ns1/q", weight="none")))
        assert len(warnings(known)) == 1
        known.apply(Applied(quota("ns1/q", weight="2")))
        assert warnings(known) == []
        known.apply(Applied(quota("ns1/q", weight="none")))
        assert len(warnings(known)) == 1
        known.apply(Deleted(bad))
        assert (warnings(known), known.quotas) == ([], {})

    def test_in_a_simulation(self, tmp_path: Path) -> None:
        registry = Registry()
        report = run_text(
            tmp_path,
            """
apiVersion: v1
kind: ResourceQuota
metadata: {name: q, namespace: team}
spec: {hard: {volcano.sh/namespace.weight: "1.5"}}
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: team, annotations: {sim.stromboli.io/run: 5s}}
spec: {containers: [{name: main, resources: {requests: {cpu: 1}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {allocatable: {cpu: 1, pods: 10}}
""",
            scheduler=Scheduler(registry.default(), registry),
        )
        [event] = [event for event in report["events"] if event.get("reason") == "InvalidWeight"]
        assert event["object"] == "team/q"
        assert 'must be a whole number of at least 1, not "1.5"' in event["message"]


class TestPriorityClasses:
    def scene(self, *classes: KObject) -> Cluster:
        return cluster(
            queue("default"), node("n1", cpu=4), classes, group("ns1/pg", priority_class="high"),
            pod("ns1/p", group="pg", cpu=1),
        )  # fmt: skip

    def test_one_that_is_missing_counts_as_0_with_a_warning(self) -> None:
        known = self.scene(priority_class("usual", 50, is_default=True))
        assert warnings(known) == [("PodGroup", "ns1/pg", "NoPriorityClass")]
        assert known.jobs["ns1/pg"].priority == 0
        assert warnings(known) == []

    def test_one_that_arrives_later_counts(self) -> None:
        known = self.scene()
        warnings(known)
        known.apply(Applied(priority_class("high", 10)))
        assert warnings(known) == []
        assert known.jobs["ns1/pg"].priority == 10
        known.apply(Deleted(priority_class("high", 10)))
        assert len(warnings(known)) == 1
        assert known.jobs["ns1/pg"].priority == 0

    def test_one_that_arrives_before_the_first_cycle_is_no_reason_to_warn(self) -> None:
        known = self.scene()
        known.apply(Applied(priority_class("high", 10)))
        assert warnings(known) == []

    def test_without_a_class_the_default_counts(self) -> None:
        known = cluster(priority_class("usual", 50, is_default=True), queue("default"), group("ns1/pg"))
        assert warnings(known) == []
        assert known.jobs["ns1/pg"].priority == 50
