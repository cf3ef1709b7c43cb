"""A configuration file that is right: what we make of it, in both dialects."""

import pytest

from stromboli.scheduling.configuration.configuration_file import (
    Configuration,
    ConfigurationError,
    default_configuration,
    load_configuration,
)
from stromboli.scheduling.configuration.volcano_names import FLAGS_WITHOUT_EFFECT

ACTIONS = ("enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill")
PLUGINS = (
    *("priority", "gang", "conformance", "pdb"),
    *("drf", "predicates", "proportion", "nodeorder", "binpack"),
)


def read(text: str) -> Configuration:
    return load_configuration(text, where="scheduler.yaml", actions=ACTIONS, plugins=PLUGINS)


def plugins_of(configuration: Configuration) -> list[list[str]]:
    return [[option.name for option in tier.plugins] for tier in configuration.tiers]


TIERS = """
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: drf
  - name: binpack
    arguments:
      binpack.weight: 10
      binpack.cpu: "5"
"""
STRING_DIALECT = """
actions: "enqueue, reserve,allocate "
configurations:
- name: reserve
  arguments: {starvingJobTimeThreshold: 172800, reservedNodePercent: 50}
"""
LIST_DIALECT = """
actions:
- name: enqueue
- {name: reserve, arguments: {starvingJobTimeThreshold: 172800, reservedNodePercent: 50}}
- allocate
"""


@pytest.mark.parametrize("actions", [STRING_DIALECT, LIST_DIALECT], ids=["string", "list"])
def test_both_dialects_mean_the_same(actions: str) -> None:
    configuration = read(actions + TIERS)
    assert [(action.name, dict(action.arguments)) for action in configuration.actions] == [
        ("enqueue", {}),
        ("reserve", {"starvingJobTimeThreshold": 172800, "reservedNodePercent": 50}),
        ("allocate", {}),
    ]
    assert plugins_of(configuration) == [["priority", "gang", "conformance"], ["drf", "binpack"]]
    assert configuration.warnings == ()


def test_plugins_keep_their_flags_and_arguments_and_lines() -> None:
    configuration = read("actions: allocate" + TIERS)  # TIERS begins with a line end, so "tiers:" is line 2.
    gang = configuration.tiers[0].plugins[1]
    binpack = configuration.tiers[1].plugins[1]
    assert not gang.is_enabled("preemptable")
    assert gang.is_enabled("jobReady")
    assert (gang.line, binpack.line) == (5, 10)
    assert binpack.arguments.integer("binpack.weight", 1) == 10
    assert binpack.arguments.integer("binpack.cpu", 1) == 5


def test_an_action_may_run_twice_with_one_set_of_arguments() -> None:
    configuration = read(
        """
        actions: "allocate, backfill, allocate"
        configurations: [{name: allocate, arguments: {x: 1}}]
        tiers: [{plugins: [{name: gang}]}]
        """
    )
    assert [dict(action.arguments) for action in configuration.actions] == [{"x": 1}, {}, {"x": 1}]


def test_of_two_configurations_of_an_action_the_first_counts() -> None:
    configuration = read(
        """
        actions: reserve
        configurations:
        - {name: reserve, arguments: {scope: node}}
        - {name: reserve, arguments: {scope: amount}}
        tiers: [{plugins: [{name: gang}]}]
        """
    )
    assert dict(configuration.actions[0].arguments) == {"scope": "node"}


def test_what_stands_with_the_action_beats_configurations() -> None:
    configuration = read(
        """
        actions: [{name: reserve, arguments: {scope: amount}}]
        configurations: [{name: reserve, arguments: {scope: node, reservedNodePercent: 20}}]
        tiers: [{plugins: [{name: gang}]}]
        """
    )
    assert dict(configuration.actions[0].arguments) == {"scope": "amount", "reservedNodePercent": 20}


ON = [
    ("JobOrder", ["jobOrder"]),
    ("QueueOrder", ["queueOrder"]),
    ("NamespaceOrder", ["namespaceOrder"]),
    ("TaskOrder", ["taskOrder"]),
    ("JobReady", ["jobReady"]),
    ("JobPipelined", ["jobPipelined"]),
    ("JobEnqueued", ["jobEnqueueable", "jobEnqueued"]),
    ("JobStarving", ["jobStarving"]),
    ("Preemptable", ["preemptable"]),
    ("Reclaimable", ["reclaimable"]),
    ("Preemptive", ["preemptive"]),
    ("Predicate", ["predicate"]),
    ("NodeOrder", ["nodeOrder"]),
    ("ResourceNodeOrder", ["nodeOrderOnResource"]),
    ("BestNode", ["bestNode"]),
    ("TargetJob", ["targetJob"]),
    ("ReservedNodes", ["reservedNodes"]),
    ("Victim", ["victim"]),
    ("Overused", ["overused"]),
    ("Allocatable", ["allocatable"]),
    ("HyperNodeOrder", ["hyperNodeOrder"]),
    ("HyperNodeGradient", ["hyperNodeGradient"]),
    ("SubJobReady", ["subJobReady"]),
    ("SubJobPipelined", ["subJobPipelined"]),
    ("SubJobOrder", ["subJobOrder"]),
]
OFF = [("Hierarchy", ["hierarchy"]), ("ClusterOrder", ["clusterOrder"])]


@pytest.mark.parametrize("prefix", ["enable", "enabled"])
@pytest.mark.parametrize(("flag", "kinds", "unless_set"), [(*row, True) for row in ON] + [(*row, False) for row in OFF])
def test_a_flag_switches_its_kinds_and_no_other(prefix: str, flag: str, kinds: list[str], unless_set: bool) -> None:
    word = "false" if unless_set else "true"
    configuration = read(
        f"actions: allocate\ntiers: [{{plugins: [{{name: gang, {prefix}{flag}: {word}}}, {{name: drf}}]}}]"
    )
    gang, drf = configuration.tiers[0].plugins
    has_effect = FLAGS_WITHOUT_EFFECT.isdisjoint(kinds)
    ignored = f'scheduler.yaml, line 2: plugin "gang": "{prefix}{flag}" has no effect'
    assert configuration.warnings == (() if has_effect else (ignored,))
    for other, other_kinds in ON + OFF:
        for kind in other_kinds:
            usual = (other, other_kinds) in ON
            assert drf.is_enabled(kind) is usual
            assert gang.is_enabled(kind) is (not usual if kind in kinds else usual)


def test_empty_values_are_as_if_left_out() -> None:
    configuration = read(
        "actions: allocate\n"
        "configurations:\n"
        "metrics:\n"
        "tiers: [{plugins: [{name: gang, enableJobOrder: , arguments: }]}, {plugins: }]"
    )
    assert plugins_of(configuration) == [["gang"], []]
    assert configuration.tiers[0].plugins[0].is_enabled("jobOrder")


def test_metrics_say_how_often_nodes_are_measured() -> None:
    text = "actions: allocate\nmetrics:\n  type: prometheus\n  interval: 1m\n" + TIERS
    configuration = read(text)
    assert configuration.metrics_interval == 60
    assert configuration.warnings == (
        'scheduler.yaml, line 3: "metrics": "type" has no effect; what nodes use is read from metrics.k8s.io',
    )
    assert read("actions: allocate\n" + TIERS).metrics_interval == 30


@pytest.mark.parametrize("interval", ["often", "0s", "[1m]"])
def test_an_interval_of_metrics_that_is_none_is_an_error(interval: str) -> None:
    with pytest.raises(ConfigurationError, match=r'^scheduler\.yaml, line 2: "metrics": argument "interval" must be '):
        read(f"actions: allocate\nmetrics: {{interval: {interval}}}\n" + TIERS)


def test_yaml_anchors_and_merges_work() -> None:
    configuration = read(
        "actions: allocate\n"
        "tiers:\n"
        "- plugins:\n"
        "  - &gang {name: gang, enableJobOrder: false, enablePredicate: false}\n"
        "- plugins:\n"
        "  - {<<: *gang, enableJobOrder: true}\n"
    )
    first, second = (tier.plugins[0] for tier in configuration.tiers)
    assert (first.is_enabled("jobOrder"), second.is_enabled("jobOrder")) == (False, True)
    assert not second.is_enabled("predicate")


def test_aliases_of_aliases_cost_no_more_than_their_text() -> None:
    # Each line names the one above twice: 2 to the power of 16 values, if every alias were followed.
    lines = ["l0: &l0 [x]", *(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, 17))]
    configuration = read("actions: allocate\n" + TIERS + "\n".join(lines))
    assert len(configuration.warnings) == 17


def test_the_built_in_configuration() -> None:
    plugins = (*PLUGINS, "overcommit", "node_reservation", "reservation")
    configuration = default_configuration(actions=ACTIONS, plugins=plugins)
    assert [action.name for action in configuration.actions] == list(ACTIONS)
    assert plugins_of(configuration) == [
        ["priority", "gang", "conformance", "pdb"],
        ["overcommit", "drf", "predicates", "proportion", "nodeorder", "node_reservation", "reservation"],
    ]
    drf = configuration.tiers[1].plugins[1]
    assert not drf.is_enabled("preemptable")
    assert drf.is_enabled("namespaceOrder")
    switched_off = [
        option.name for tier in configuration.tiers for option in tier.plugins if not option.is_enabled("preemptable")
    ]
    assert switched_off == ["drf"]


def test_the_built_in_configuration_leaves_out_what_does_not_exist() -> None:
    configuration = default_configuration(actions=["allocate", "enqueue"], plugins=["gang", "priority"])
    assert [action.name for action in configuration.actions] == ["enqueue", "allocate"]
    assert plugins_of(configuration) == [["priority", "gang"]]
    assert configuration.warnings == ()
