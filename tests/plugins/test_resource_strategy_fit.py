"""Strategies by resource: which nodes are filled and which are spread, and what is kept for scarce resources."""

from __future__ import annotations

from typing import Any

import pytest

from builders import GPU, START, cluster, group, node, plugin, pod, pods, session
from node_queries import refusals, scores, task_of
from stromboli.cluster import Cluster
from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.plugins.optional.resource_strategy_fit import ResourceStrategyFit
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

KIND = "volcano.sh/resource-strategy-scoring-type"
WEIGHTS = "volcano.sh/resource-strategy-weight"
MOST, LEAST = "MostAllocated", "LeastAllocated"


def opened(known: Cluster, **arguments: Any) -> Session:
    return session(known, tiers=[[plugin("resource-strategy-fit", arguments)]])


def scored(known: Cluster, name: str = "p", **arguments: Any) -> dict[str, float]:
    found = scores(opened(known, **arguments), task_of(known, name))
    return {node: round(score, 3) for node, score in found.items()}


def two_nodes(**of_the_pod: Any) -> Cluster:
    """n1 has 8 CPUs, 16Gi and 4 GPUs, of which 4, 4Gi and 1 are used; n2 the same, and nothing is used."""
    offer: dict[str, Any] = {"cpu": 8, "memory": "16Gi", "gpu": 4}
    return cluster(
        node("n1", **offer), node("n2", **offer), group("pg"),
        pod("old", cpu=4, memory="4Gi", gpu=1, node="n1"),
        pod("p", **{"group": "pg", "cpu": 2, "memory": "4Gi", "gpu": 1} | of_the_pod),
    )  # fmt: skip


# -- strategies -----------------------------------------------------------------------------------------------------


# n1: CPU (8-6)/8 = 0.25 and memory (16-8)/16 = 0.5 are left, in the mean 0.375. n2: 0.75 and 0.75.
def test_without_strategies_nodes_with_free_cpu_and_memory_are_best() -> None:
    assert scored(two_nodes()) == {"n1": 375, "n2": 750}
    assert scored(two_nodes(), resourceStrategyFitWeight=-1) == {"n1": 375, "n2": 750}  # counts as 10


# GPUs, filled: n1 2/4, n2 1/4. CPU, spread: n1 0.25, n2 0.75. (2 x 0.5 + 0.25) / 3 and (2 x 0.25 + 0.75) / 3.
def test_each_resource_has_its_strategy_and_weight() -> None:
    strategies = {GPU: {"type": MOST, "weight": 2}, "cpu": {"type": LEAST, "weight": 1}}
    expected = {"n1": round(100 * 1.25 / 3, 3), "n2": round(100 * 1.25 / 3, 3)}
    assert scored(two_nodes(), resourceStrategyFitWeight=1, resources=strategies) == expected
    strategies[GPU] = {"type": MOST, "weight": 3}
    assert scored(two_nodes(), resourceStrategyFitWeight=1, resources=strategies) == {"n1": 43.75, "n2": 37.5}


def test_only_resources_that_the_pod_requests_count() -> None:
    strategies = {GPU: {"type": MOST, "weight": 9}, "memory": {"type": LEAST}}
    assert scored(two_nodes(gpu=None), resources=strategies) == {"n1": 500, "n2": 750}
    assert scored(two_nodes(gpu=None, memory=None), resources=strategies) == {"n1": 0, "n2": 0}


# Five CPUs more than the four that are used are too many for n1. The node gets nothing, whatever its memory.
def test_a_node_that_would_be_too_full_gets_nothing() -> None:
    assert scored(two_nodes(cpu=5))["n1"] == 0


# The pattern with the longer prefix counts: nvidia.com/* spreads, so n2 is better (3/4 left against 2/4).
def test_patterns_name_resources_by_their_first_letters() -> None:
    strategies = {"nvidia.*": {"type": MOST}, "nvidia.com/*": {"type": LEAST}}
    assert scored(two_nodes(), resourceStrategyFitWeight=1, resources=strategies) == {"n1": 50, "n2": 75}
    strategies[GPU] = {"type": MOST}
    assert scored(two_nodes(), resourceStrategyFitWeight=1, resources=strategies) == {"n1": 50, "n2": 25}


# What the pod asks for is filled up with CPU: 6/8 and 2/8. The other pod goes by the arguments.
def test_a_pod_brings_its_own_strategy() -> None:
    own = {KIND: MOST, WEIGHTS: '{"cpu": 1}'}
    known = two_nodes(annotations=own)
    assert scored(known) == {"n1": 750, "n2": 250}
    plain = cluster(
        *[one.object for one in known.nodes.values()],
        group("pg"),
        pod("p", group="pg", cpu=2),
        pod("q", group="pg", cpu=2, annotations=own),
    )
    assert scored(plain) == {"n1": 750, "n2": 750}
    assert scored(plain, "q") == {"n1": 250, "n2": 250}


@pytest.mark.parametrize("weights", ["", "{", "[1]", '{"cpu": "much"}', '{"cpu": -1}', '{"cpu": true}'])
def test_a_strategy_of_a_pod_that_cannot_be_read_is_none(weights: str) -> None:
    assert scored(two_nodes(annotations={KIND: MOST, WEIGHTS: weights})) == {"n1": 0, "n2": 0}
    assert scored(two_nodes(annotations={KIND: "Fullest", WEIGHTS: '{"cpu": 1}'})) == {"n1": 0, "n2": 0}


CONFIGURATION = """
actions: "allocate"
tiers:
- plugins: [{name: priority}, {name: gang}]
- plugins:
  - {name: predicates}
  - {name: resource-strategy-fit, arguments: ARGUMENTS}
"""


def places(known: Cluster, arguments: str) -> dict[str, str]:
    registry = Registry(installed_plugins=(), installed_actions=())
    configuration = registry.load(CONFIGURATION.replace("ARGUMENTS", arguments))
    assert configuration.warnings == ()
    cycle = Scheduler(configuration, registry).run(known, START + 1000)
    return {one.task.split("/")[-1]: one.node for one in cycle.decisions if isinstance(one, Bind)}


# Each pod of a gang changes the score for the next one.
def test_a_gang_is_packed_by_gpus_or_spread() -> None:
    def known() -> Cluster:
        nodes = [node(f"n{number}", cpu=8, gpu=4) for number in range(3)]
        return cluster(nodes, group("pg", min_member=6), pods("p", 6, group="pg", cpu=1, gpu=1))

    packed = places(known(), "{resources: {nvidia.com/gpu: {type: MostAllocated}}}")
    assert sorted(packed.values()) == ["n0"] * 4 + ["n1"] * 2
    spread = places(known(), "{resources: {nvidia.com/gpu: {type: LeastAllocated}}}")
    assert sorted(spread.values()) == ["n0"] * 2 + ["n1"] * 2 + ["n2"] * 2


# -- scarce resources, by score -------------------------------------------------------------------------------------


# a has both scarce resources, b one of them with half of their weight, c none; d lacks memory, which the pod asks for.
def test_nodes_with_scarce_resources_are_last() -> None:
    known = cluster(
        node("a", cpu=8, memory="8Gi", resources={"x.com/t4": 1, "x.com/a10": 1}),
        node("b", cpu=8, memory="8Gi", resources={"x.com/t4": 1}),
        node("c", cpu=8, memory="8Gi"),
        node("d", cpu=8),
        group("pg"), pod("p", group="pg", cpu=1, memory="1Gi"),
    )  # fmt: skip
    sra = {"enable": True, "resources": "x.com/t4, x.com/a10", "weight": 2}
    expected = {"a": 0, "b": 100, "c": 200, "d": 0}
    assert scored(known, resourceStrategyFitWeight=0, sra=sra) == expected
    heavier = {**sra, "resourceWeight": {"x.com/t4": 3}}
    assert scored(known, resourceStrategyFitWeight=0, sra=heavier)["b"] == 50
    assert scored(known, resourceStrategyFitWeight=0, sra={**sra, "enable": False}) == dict.fromkeys(expected, 0)


# -- scarce resources, by filter ------------------------------------------------------------------------------------

PROPORTION = {"enable": True, "resources": GPU, "resourceProportion": {f"{GPU}.cpu": 8, f"{GPU}.memory": 8}}


# Two idle GPUs keep 16 CPUs and 16 GB (10^9 bytes). n1 has 20 CPUs, n2 has 17: two CPUs are too many there. n3 has the
# CPUs but only 17 GB, of which two are asked for. n4 has no GPU, and n5 none that is idle.
def test_a_pod_that_asks_for_none_leaves_enough_beside_those_that_are_idle() -> None:
    known = cluster(
        node("n1", cpu=20, memory="20G", gpu=2),
        node("n2", cpu=17, memory="20G", gpu=2),
        node("n3", cpu=20, memory="17G", gpu=2),
        node("n4", cpu=2, memory="2G"),
        node("n5", cpu=3, memory="3G", gpu=1), pod("on5", cpu=1, memory="1G", gpu=1, node="n5"),
        group("pg"), pod("p", group="pg", cpu=2, memory="2G"), pod("q", group="pg", cpu=17, gpu=1),
    )  # fmt: skip
    current = opened(known, proportional=PROPORTION)
    assert refusals(current, task_of(known, "p")) == dict.fromkeys(["n2", "n3"], "PredicateProportion")
    assert refusals(current, task_of(known, "q")) == {}
    assert refusals(opened(known, proportional={**PROPORTION, "enable": False}), task_of(known, "p")) == {}


# Ten CPUs and one idle GPU that keeps four: six pods of one CPU fit, and two on the other node.
def test_a_gang_takes_only_what_is_not_kept() -> None:
    known = cluster(
        node("n1", cpu=10, memory="100G", gpu=1), node("n2", cpu=2, memory="100G"),
        group("pg"), pods("p", 12, group="pg", cpu=1, memory="1G"),
    )  # fmt: skip
    arguments = f"{{proportional: {{enable: true, resources: {GPU}, resourceProportion: {{{GPU}.cpu: 4}}}}}}"
    assert sorted(places(known, arguments).values()) == ["n1"] * 6 + ["n2"] * 2


# -- arguments ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"resourceStrategyFitWeight": "much"}, '"resourceStrategyFitWeight" must be a number, not "much"'),
        ({"resources": ["cpu"]}, '"resources" must be a mapping'),
        (
            {"resources": {"cpu": {"type": "Fullest"}}},
            '"resources", "cpu": argument "type" must be one of MostAllocated',
        ),
        ({"resources": {"*": {}}}, '"*" must be named by a resource'),
        ({"resources": {"a*b": {}}}, '"a*b" must be named by a resource'),
        ({"sra": {"enable": "perhaps"}}, '"sra": argument "enable" must be true or false'),
    ],
)
def test_mistakes_in_arguments_name_what_is_wrong(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        ResourceStrategyFit(Arguments(arguments))
    assert message in str(caught.value)


def test_unknown_arguments_inside_are_named() -> None:
    text = CONFIGURATION.replace("ARGUMENTS", "{sra: {enable: true, resourcs: a}, resources: {cpu: {kind: b}}}")
    registry = Registry(installed_plugins=(), installed_actions=())
    assert registry.load(text, where="s.yaml").warnings == (
        's.yaml, line 7: plugin "resource-strategy-fit", "resources", "cpu": unknown argument "kind" is ignored',
        's.yaml, line 7: plugin "resource-strategy-fit", "sra": unknown argument "resourcs" is ignored',
    )
