"""Binpack: how full each node would be, by weights."""

from __future__ import annotations

import pytest

from builders import GPU, cluster, group, node, pod, session
from node_queries import scores, task_of
from stromboli.cluster import Cluster
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.plugins.binpack import Binpack

FOO = "example.com/foo"


def worked_example() -> Cluster:
    """n1 2C4Gi with 1C1Gi used, n2 4C16Gi with 4 GPUs, n3 2C4Gi with 16 foo and 1.5C used."""
    return cluster(
        node("n1", cpu=2, memory="4Gi"),
        node("n2", cpu=4, memory="16Gi", gpu=4),
        node("n3", cpu=2, memory="4Gi", resources={FOO: 16}),
        group("pg"),
        pod("on1", cpu=1, memory="1Gi", node="n1"), pod("on3", cpu="1500m", node="n3"),
        pod("p1", group="pg", cpu=1, memory="1Gi"),
        pod("p2", group="pg", cpu="1500m"),
        pod("p3", group="pg", cpu=2, memory="10Gi", gpu=2),
        pod("p4", group="pg", cpu=3, memory="4Gi", resources={FOO: 3}),
    )  # fmt: skip


FIRST = {
    "binpack.weight": 10,
    "binpack.cpu": 2,
    "binpack.memory": 3,
    "binpack.resources": f" {GPU} , {FOO}",
    f"binpack.resources.{GPU}": 7,
    f"binpack.resources.{FOO}": 8,
}
SECOND = {
    "binpack.weight": 1,
    "binpack.cpu": 1,
    "binpack.memory": 1,
    "binpack.resources": GPU,
    f"binpack.resources.{GPU}": 23,
}


# p1 on n1: cpu 2 × (1+1)/2 = 2, memory 3 × (1+1)/4 = 1.5; 3.5 / 5 × 100 × 10 = 700.
# p1 on n3: 1.5 + 1 > 2 CPUs, so nothing.
# p4 on n2: cpu 2 × 3/4 = 1.5, memory 3 × 4/16 = 0.75, no foo there but its 8 count: 2.25 / 13 × 1000 = 173.08.
@pytest.mark.parametrize(
    ("arguments", "task", "expected"),
    [
        (FIRST, "p1", {"n1": 700, "n2": 137.5, "n3": 0}),
        (FIRST, "p2", {"n1": 0, "n2": 375, "n3": 0}),
        (FIRST, "p3", {"n1": 0, "n2": 531.25, "n3": 0}),
        (FIRST, "p4", {"n1": 0, "n2": 173.076923, "n3": 0}),
        (SECOND, "p1", {"n1": 75, "n2": 15.625, "n3": 0}),
        (SECOND, "p2", {"n1": 0, "n2": 37.5, "n3": 0}),
        (SECOND, "p3", {"n1": 0, "n2": 50.5, "n3": 0}),
        (SECOND, "p4", {"n1": 0, "n2": 50, "n3": 0}),
    ],
)
def test_the_worked_example(arguments: dict[str, object], task: str, expected: dict[str, float]) -> None:
    known = worked_example()
    cycle = session(known, tiers=[[Binpack(Arguments(arguments))]])
    assert scores(cycle, task_of(known, task)) == pytest.approx(expected)


def test_negative_weights_count_as_one_and_names_are_trimmed() -> None:
    plugin = Binpack(
        Arguments({"binpack.weight": -3, "binpack.cpu": "-1", "binpack.resources": " a.io/x ,, b.io/y,a.io/x "})
    )
    assert plugin.score.pack == 1
    assert plugin.score.pack_weights == (("cpu", 1), ("memory", 1), ("a.io/x", 1), ("b.io/y", 1))


def test_a_weight_of_zero_switches_it_off() -> None:
    known = worked_example()
    cycle = session(known, tiers=[[Binpack(Arguments({"binpack.weight": 0}))]])
    assert cycle.resource_score.pack == 0
    assert scores(cycle, task_of(known, "p1")) == {"n1": 0, "n2": 0, "n3": 0}


def test_arguments_are_all_asked_for_and_a_wrong_one_is_an_error() -> None:
    arguments = Arguments(FIRST)
    Binpack(arguments)
    assert arguments.warnings() == ()
    with pytest.raises(ConfigurationError, match=r"binpack\.cpu"):
        Binpack(Arguments({"binpack.cpu": "much"}))
