"""The registry: names lead to classes, and every mistake in a file is found when the file is loaded."""

import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, EntryPoint
from pathlib import Path

import pytest

from stromboli.scheduling.configuration.arguments import Arguments, ConfigurationError
from stromboli.scheduling.plugin import Action, Plugin
from stromboli.scheduling.registry import Registry


class Tidy(Plugin):
    name = "tidy"

    def __init__(self, arguments: Arguments) -> None:
        self.weight = arguments.integer("weight", 1, minimum=0)


class Sweep(Action):
    name = "sweep"

    def __init__(self, arguments: Arguments) -> None:
        self.mode = arguments.text("mode", "fast", choices=("fast", "slow"))


def registry_with_examples(**settings: object) -> Registry:
    registry = Registry(installed_plugins=(), installed_actions=(), **settings)  # type: ignore[arg-type]
    registry.register_plugin("tidy", Tidy)
    registry.register_action("sweep", Sweep)
    return registry


def installed(folder: Path, distribution: str, group: str, **entries: str) -> Iterable[EntryPoint]:
    """The entry points of a distribution that was installed in `folder`."""
    information = folder / f"{distribution}-1.0.dist-info"
    information.mkdir()
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    lines = [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items())]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n")
    return Distribution.at(information).entry_points.select(group=group)


def test_the_built_in_names() -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    assert {"allocate", "backfill", "enqueue", "preempt", "reclaim"} <= set(registry.action_names())
    assert {
        *("priority", "gang", "conformance", "drf", "proportion"),
        *("predicates", "nodeorder", "binpack", "overcommit", "pdb"),
    } <= set(registry.plugin_names())
    assert list(registry.plugin_names()) == sorted(registry.plugin_names())


def test_every_built_in_can_be_built_without_arguments() -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    for name in registry.action_names():
        assert registry.action(name)(Arguments()).name == name
    for name in registry.plugin_names():
        assert isinstance(registry.plugin(name)(Arguments()), Plugin)


def test_the_built_in_configuration_passes_its_own_check() -> None:
    registry = Registry(installed_plugins=(), installed_actions=())
    assert registry.check(registry.default()) == ()


def test_an_alias_is_a_name_like_any_other() -> None:
    registry = registry_with_examples(aliases={"orderly": "tidy"})
    assert registry.plugin("orderly") is Tidy
    configuration = registry.load("actions: sweep\ntiers: [{plugins: [{name: orderly}]}]")
    assert configuration.tiers[0].plugins[0].name == "orderly"


def test_an_unknown_name_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ConfigurationError, match=r'^unknown plugin "tydi"; known: .*tidy'):
        registry_with_examples().plugin("tydi")
    with pytest.raises(ConfigurationError, match=r'^unknown action "swep"; known: .*sweep'):
        registry_with_examples().action("swep")


FILE = """\
actions:
- name: sweep
  arguments:
    mode: {mode}
tiers:
- plugins:
  - name: tidy
    arguments:
      weight: {weight}
      wieght: 3
"""


def test_loading_checks_the_arguments_too() -> None:
    registry = registry_with_examples()
    configuration = registry.load(FILE.format(mode="slow", weight=2), where="scheduler.yaml")
    assert configuration.warnings == ('scheduler.yaml, line 10: plugin "tidy": unknown argument "wieght" is ignored',)
    with pytest.raises(ConfigurationError) as caught:
        registry.load(FILE.format(mode="slow", weight=-1), where="scheduler.yaml")
    assert str(caught.value) == ('scheduler.yaml, line 9: plugin "tidy": argument "weight" must be 0 or more, not -1')
    with pytest.raises(ConfigurationError) as caught:
        registry.load(FILE.format(mode="later", weight=1), where="scheduler.yaml")
    assert str(caught.value) == (
        'scheduler.yaml, line 4: action "sweep": argument "mode" must be one of fast, slow, not "later"'
    )


def test_plugins_of_installed_distributions_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tidy_cluster.py").write_text(
        "from stromboli.scheduling.plugin import Action, Plugin\n"
        "class Broom(Plugin):\n    name = 'broom'\n"
        "class Mop(Action):\n    name = 'mop'\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registry = Registry(
        installed_plugins=installed(tmp_path, "one", "stromboli.plugins", broom="tidy_cluster:Broom"),
        installed_actions=installed(tmp_path, "two", "stromboli.actions", mop="tidy_cluster:Mop"),
    )
    assert "broom" in registry.plugin_names()
    assert "mop" in registry.action_names()
    assert "tidy_cluster" not in sys.modules, "nobody has asked for it yet"
    assert registry.plugin("broom").name == "broom"
    assert registry.action("mop").name == "mop"
    monkeypatch.delitem(sys.modules, "tidy_cluster")


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (
            "no_such_module:Thing",
            'plugin "broom" of distribution "untidy" cannot be imported from no_such_module:Thing: '
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        (
            "json:Thing",
            'plugin "broom" of distribution "untidy" cannot be imported from json:Thing: '
            "AttributeError: module 'json' has no attribute 'Thing'",
        ),
        (
            "json:JSONDecoder",
            'plugin "broom" (json:JSONDecoder of distribution "untidy") is not a subclass of '
            "stromboli.scheduling.plugin.Plugin",
        ),
        (
            "json:loads",
            'plugin "broom" (json:loads of distribution "untidy") is not a subclass of '
            "stromboli.scheduling.plugin.Plugin",
        ),
    ],
)
def test_a_broken_distribution_is_named_to_those_who_use_it(tmp_path: Path, target: str, message: str) -> None:
    registry = Registry(
        installed_plugins=installed(tmp_path, "untidy", "stromboli.plugins", broom=target),
        installed_actions=(),
    )
    registry.register_plugin("tidy", Tidy)
    assert registry.plugin("tidy") is Tidy
    with pytest.raises(ConfigurationError) as caught:
        registry.plugin("broom")
    assert str(caught.value) == message


def test_nobody_may_take_a_name_that_is_taken(tmp_path: Path) -> None:
    entries = installed(tmp_path, "usurper", "stromboli.plugins", gang="usurper:Gang")
    with pytest.raises(ConfigurationError) as caught:
        Registry(installed_plugins=entries, installed_actions=())
    assert str(caught.value) == (
        'distribution "usurper" provides plugin "gang", but that name is already taken; '
        "uninstall the distribution, or rename the plugin"
    )
