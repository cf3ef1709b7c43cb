"""A configuration file that is wrong: one line that names the file, the line and what to do."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli.errors import UserError
from stromboli.scheduling.configuration.configuration_file import Configuration, ConfigurationError, load_configuration

ACTIONS = ("enqueue", "allocate", "reserve")
PLUGINS = ("gang", "drf", "proportion", "priority")


def read(text: str) -> Configuration:
    return load_configuration(text, where="scheduler.yaml", actions=ACTIONS, plugins=PLUGINS)


MISTAKES = {
    "unknown plugin": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: priority\n  - name: gangg\n",
        'scheduler.yaml, line 5: unknown plugin "gangg"; known: drf, gang, priority, proportion',
    ),
    "unknown action in a string": (
        '# ours\nactions: "enqueue, alocate"\n',
        'scheduler.yaml, line 2: unknown action "alocate"; known: allocate, enqueue, reserve',
    ),
    "unknown action in a list": (
        "actions:\n- name: enqueue\n- name: alocate\n",
        'scheduler.yaml, line 3: unknown action "alocate"; known: allocate, enqueue, reserve',
    ),
    "unknown action in configurations": (
        "actions: allocate\nconfigurations:\n- name: alocate\n",
        'scheduler.yaml, line 3: unknown action "alocate"; known: allocate, enqueue, reserve',
    ),
    "a comma too many": (
        'actions: "enqueue, allocate,"\n',
        'scheduler.yaml, line 1: unknown action ""; known: allocate, enqueue, reserve',
    ),
    "no actions at all": (
        "tiers: []\n",
        'scheduler.yaml, line 1: "actions" names no action; known: allocate, enqueue, reserve',
    ),
    "an empty string of actions": (
        'tiers: []\nactions: " "\n',
        'scheduler.yaml, line 2: "actions" names no action; known: allocate, enqueue, reserve',
    ),
    "an empty file": (
        "",
        'scheduler.yaml, line 1: "actions" names no action; known: allocate, enqueue, reserve',
    ),
    "actions a number": (
        "\n\nactions: 5\n",
        'scheduler.yaml, line 3: "actions" must be a string such as "enqueue, allocate", or a list',
    ),
    "an action that is a number": (
        "actions:\n- allocate\n- 5\n",
        'scheduler.yaml, line 3: an entry of "actions" must be a string, not 5',
    ),
    "an action without a name": (
        "actions:\n- arguments: {}\n",
        'scheduler.yaml, line 2: action without a "name"; known: allocate, enqueue, reserve',
    ),
    "tiers a map": (
        "actions: allocate\ntiers: {plugins: []}\n",
        'scheduler.yaml, line 2: "tiers" must be a list, not a mapping',
    ),
    "a tier that is a list": (
        "actions: allocate\ntiers:\n- [gang]\n",
        'scheduler.yaml, line 3: an entry of "tiers" must be a mapping, not a list',
    ),
    "plugins a map": (
        "actions: allocate\ntiers:\n- plugins: {name: gang}\n",
        'scheduler.yaml, line 3: "plugins" must be a list, not a mapping',
    ),
    "a plugin that is a text": (
        "actions: allocate\ntiers:\n- plugins:\n  - gang\n",
        'scheduler.yaml, line 4: an entry of "plugins" must be a mapping, not "gang"',
    ),
    "a plugin without a name": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - enableJobOrder: true\n",
        'scheduler.yaml, line 5: plugin without a "name"; known: drf, gang, priority, proportion',
    ),
    "a plugin whose name is empty": (
        "actions: allocate\ntiers:\n- plugins:\n  - name:\n    arguments: {}\n",
        'scheduler.yaml, line 4: "name" must be a string, not nothing',
    ),
    "a flag that is a text": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableJobOrder: maybe\n",
        'scheduler.yaml, line 5: "enableJobOrder" must be true or false, not "maybe"',
    ),
    "a flag that is a number": (
        "actions: allocate\ntiers:\n- plugins:\n  - {name: gang,\n     enabledVictim: 1}\n",
        'scheduler.yaml, line 5: "enabledVictim" must be true or false, not 1',
    ),
    "a flag under both its names": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    enableVictim: true\n    enabledVictim: true\n",
        'scheduler.yaml, line 6: "enabledVictim" is set twice, under both its names; keep one of them',
    ),
    "arguments a list": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n    arguments: [1]\n",
        'scheduler.yaml, line 5: "arguments" of plugin "gang" must be a mapping, not a list',
    ),
    "configurations a map": (
        "actions: allocate\nconfigurations: {name: allocate}\n",
        'scheduler.yaml, line 2: "configurations" must be a list, not a mapping',
    ),
    "metrics a text": (
        "actions: allocate\nmetrics: prometheus\n",
        'scheduler.yaml, line 2: "metrics" must be a mapping, not "prometheus"',
    ),
    "the file a list": (
        "- actions: allocate\n",
        "scheduler.yaml, line 1: a configuration must be a mapping, not a list",
    ),
    "two rules for one set of queues": (
        "actions: allocate\ntiers:\n- plugins:\n  - name: drf\n    enableHierarchy: true\n  - name: proportion\n",
        "scheduler.yaml, line 4: drf with enableHierarchy and proportion both divide the queues, by different "
        "rules; remove one of them from this tier",
    ),
    "a key twice": (
        "actions: allocate\ntiers: []\nactions: enqueue\n",
        'scheduler.yaml, line 3: "actions" is set twice; keep one of them',
    ),
    "a key that is a list": (
        "actions: allocate\n? [a]\n: b\n",
        "scheduler.yaml, line 2: a key must be a string",
    ),
    "a value inside itself": (
        "actions: allocate\nmetrics: &loop\n  again: *loop\n",
        "scheduler.yaml, line 2: not valid YAML: a value must not contain itself",
    ),
    "a date instead of an action": (
        "actions: 2024-02-31\n",
        'scheduler.yaml, line 1: unknown action "2024-02-31"; known: allocate, enqueue, reserve',
    ),
    "a tag of a type that JSON does not have": (
        "actions: allocate\nmetrics:\n  since: !!timestamp 2024-02-28\n",
        'scheduler.yaml, line 3: not valid YAML: the tag "tag:yaml.org,2002:timestamp" is not supported',
    ),
    "a tag that does not fit its value": (
        "actions: allocate\nmetrics:\n  since: !!int ten\n",
        'scheduler.yaml, line 3: "ten" is not a value YAML can read',
    ),
    "fifty thousand brackets": (
        "actions: " + 50_000 * "[" + 50_000 * "]",
        "scheduler.yaml, line 1: not valid YAML: it is nested more than 100 levels deep",
    ),
    "fifty thousand dashes": (
        "actions:\n" + 50_000 * "- " + "a\n",
        "scheduler.yaml, line 2: not valid YAML: it is nested more than 100 levels deep",
    ),
    "aliases of aliases": (
        "actions: allocate\nl0: &l0 [x]\n" + "".join(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]\n" for n in range(1, 61)),
        "scheduler.yaml, line 21: not valid YAML: its aliases stand for more than 1000000 values",
    ),
    "a long chain of aliases": (
        "actions: allocate\nl0: &l0 [x]\n" + "".join(f"l{n}: &l{n} [*l{n - 1}]\n" for n in range(1, 2000)),
        "scheduler.yaml, line 102: not valid YAML: it is nested more than 100 levels deep",
    ),
    "a line end in a name": (
        'actions: "a\\nb"\n',
        'scheduler.yaml, line 1: unknown action "a\\nb"; known: allocate, enqueue, reserve',
    ),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistake(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert str(caught.value) == message
    assert isinstance(caught.value, UserError)
    assert isinstance(caught.value, ValueError)


BROKEN_YAML = {
    "a bracket that stays open": ("actions: a\ntiers: [\n", "scheduler.yaml, line 3: not valid YAML: "),
    "a tab": ("actions: allocate\n\ttiers: []\n", "scheduler.yaml, line 2: not valid YAML: "),
    "two documents": ("actions: a\n---\nactions: b\n", "scheduler.yaml, line 2: not valid YAML: "),
    "a foreign tag": ("actions: !python/name os\n", "scheduler.yaml, line 1: not valid YAML: "),
    "an unknown anchor": ("actions:\n- *no\n", "scheduler.yaml, line 2: not valid YAML: "),
    "a control character": ("actions: a\x01b\n", "scheduler.yaml: not valid YAML: "),
}


@pytest.mark.parametrize(("text", "beginning"), BROKEN_YAML.values(), ids=BROKEN_YAML)
def test_broken_yaml_is_one_line_with_its_place(text: str, beginning: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(text)
    assert str(caught.value).startswith(beginning)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) > len(beginning)


def test_hierarchy_and_proportion_may_stand_in_different_tiers() -> None:
    configuration = read(
        "actions: allocate\ntiers: [{plugins: [{name: drf, enableHierarchy: true}]}, {plugins: [{name: proportion}]}]"
    )
    assert configuration.tiers[0].plugins[0].is_enabled("hierarchy")


def test_unknown_keys_are_warnings_in_the_order_of_the_file() -> None:
    configuration = read(
        "verbosity: 3\n"
        "actions: allocate\n"
        "tiers:\n"
        "- rank: 1\n"
        "  plugins:\n"
        "  - name: gang\n"
        "    enableEverything: true\n"
        "configurations:\n"
        "- name: allocate\n"
        "  argument: {}\n"
        "- name: reserve\n"
        "  arguments: {scope: node}\n"
        "- name: allocate\n"
    )
    assert configuration.warnings == (
        'scheduler.yaml, line 1: unknown key "verbosity" is ignored; known: actions, tiers, configurations, '
        "topologyKeys, metrics",
        'scheduler.yaml, line 4: unknown key "rank" is ignored; known: plugins',
        'scheduler.yaml, line 7: plugin "gang": unknown key "enableEverything" is ignored',
        'scheduler.yaml, line 10: unknown key "argument" is ignored; known: name, arguments',
        'scheduler.yaml, line 11: arguments for "reserve" are ignored: it is not in "actions"',
        'scheduler.yaml, line 13: action "allocate" is configured twice; the first one is used',
    )


def test_a_scenario_is_recognised() -> None:
    with pytest.raises(ConfigurationError) as refused:
        read("apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: Pod\n")
    assert str(refused.value) == (
        "scheduler.yaml, line 2: this looks like a scenario or a manifest (kind: Node), not like a scheduler "
        'configuration, which has "actions" and "tiers"'
    )


def test_a_file_without_plugins_is_legal_and_warned_of() -> None:
    configuration = read("actions: allocate\n")
    assert configuration.tiers == ()
    assert configuration.warnings == (
        "scheduler.yaml, line 1: no plugins are configured, so there are no gangs, shares or priorities",
    )


@given(st.text(alphabet="actionstierplug: -[]{}\n\"',&*!|>#%@01\t\x00é", max_size=60))
def test_any_text_at_all_is_read_or_refused_in_one_line(text: str) -> None:
    message = "scheduler.yaml"
    try:
        read(text)
    except ConfigurationError as error:
        message = str(error)
    assert message.startswith("scheduler.yaml")
    assert "\n" not in message
