"""Names of Volcano's that mean something else here: what runs, what is said, and what is refused."""

from __future__ import annotations

import pytest

from stromboli.scheduling.configuration import Configuration, ConfigurationError
from stromboli.scheduling.configuration.volcano_names import DONE_OTHERWISE, NOT_BUILT, WITHOUT_EFFECT
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.registry import Registry

TIERS = "tiers: [{plugins: [{name: gang}]}]\n"


def load(text: str) -> Configuration:
    return Registry(installed_plugins=(), installed_actions=()).load(text, where="s.yaml")


def actions(configuration: Configuration) -> str:
    return " ".join(action.name for action in configuration.actions)


@pytest.mark.parametrize(
    ("written", "run"),
    [
        ("enqueue, allocate, gangpreempt, gangreclaim", "enqueue allocate preempt reclaim"),
        ("gangpreempt, allocate, preempt", "allocate preempt"),  # where the file has the name that is ours
        ("preempt, gangpreempt, allocate", "preempt allocate"),
        ("gangreclaim, allocate, gangreclaim", "reclaim allocate"),
        ("enqueue, shuffle, allocate", "enqueue allocate"),
        ("enqueue, elect, allocate, reserve", "enqueue allocate reserve"),
    ],
)
def test_an_action_runs_once_by_the_name_that_it_has_here(written: str, run: str) -> None:
    configuration = load(f'actions: "{written}"\n{TIERS}')
    assert actions(configuration) == run
    assert len(configuration.warnings) == sum(written.count(name) for name in ("gang", "shuffle", "elect"))
    assert all(warning.startswith("s.yaml, line 1: action ") for warning in configuration.warnings)


def test_its_arguments_are_those_of_what_runs() -> None:
    text = "actions:\n- name: gangpreempt\n  arguments: {maxDomains: 3, x: 1}\n" + TIERS
    configuration = load(text)
    assert actions(configuration) == "preempt"
    assert configuration.warnings == (
        's.yaml, line 2: action "gangpreempt": preempt does this here, and runs instead; write preempt',
        's.yaml, line 3: action "preempt": argument "maxDomains" has no effect: all domains are considered',
        's.yaml, line 3: action "preempt": unknown argument "x" is ignored',
    )


def test_configurations_of_actions_that_are_left_out_are_left_out() -> None:
    text = (
        'actions: "allocate, preempt, gangpreempt, shuffle"\nconfigurations:\n- {name: shuffle, arguments: {y: 1}}\n'
        "- {name: preempt, arguments: {predicateErrorCacheEnable: true}}\n- {name: gangpreempt, arguments: {z: 1}}\n"
    )
    configuration = load(text + TIERS)
    assert dict(configuration.actions[1].arguments) == {"predicateErrorCacheEnable": True}
    assert len(configuration.warnings) == 3
    assert "predicateErrorCacheEnable" in configuration.warnings[2]


def test_a_file_of_which_no_action_runs_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r'^s\.yaml, line 1: "actions" names no action that runs; known: al'):
        load("actions: shuffle\n" + TIERS)


def test_a_plugin_that_the_descheduler_replaces_is_left_out() -> None:
    text = (
        "actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: rescheduling\n    arguments: {interval: 5m}\n"
    )
    configuration = load(text)
    assert [option.name for option in configuration.tiers[0].plugins] == ["gang"]
    (warning,) = configuration.warnings
    assert warning.startswith('s.yaml, line 5: plugin "rescheduling": the descheduler moves pods here; ')


@pytest.mark.parametrize("name", [name for _, name in NOT_BUILT])
def test_what_is_not_built_is_refused_with_its_line(name: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load(f"actions: allocate\ntiers:\n- plugins:\n  - name: gang\n  - name: {name}\n")
    assert str(caught.value).startswith(f's.yaml, line 5: plugin "{name}" of Volcano is not built here: ')


def test_a_distribution_may_have_such_a_name() -> None:
    class Tdm(Plugin):
        name = "tdm"

    registry = Registry(installed_plugins=(), installed_actions=())
    registry.register_plugin("tdm", Tdm)
    configuration = registry.load("actions: allocate\ntiers: [{plugins: [{name: tdm}]}]\n")
    assert [option.name for option in configuration.tiers[0].plugins] == ["tdm"]
    assert configuration.warnings == ()


def test_no_argument_that_is_read_is_said_to_have_no_effect() -> None:
    for (kind, name), keys in WITHOUT_EFFECT.items():
        arguments = ", ".join(f"{key}: 1" for key in keys)
        if kind == "action":
            text = f"actions: [{{name: {name}, arguments: {{{arguments}}}}}]\n{TIERS}"
        else:
            text = f"actions: allocate\ntiers: [{{plugins: [{{name: {name}, arguments: {{{arguments}}}}}]}}]\n"
        assert [w.count("has no effect") for w in load(text).warnings] == [1] * len(keys)


def test_no_name_is_one_of_ours() -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    ours = {("action", name) for name in registry.action_names()} | {("plugin", n) for n in registry.plugin_names()}
    assert not ours & {*DONE_OTHERWISE, *NOT_BUILT}
