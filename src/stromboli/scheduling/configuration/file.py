"""The scheduler's configuration file: which actions run, and which plugins have a say in them.

The format is Volcano's, so that a file that serves there serves here, in two dialects that mean the same:

    actions: "enqueue, allocate"            actions:
    configurations:                         - name: enqueue
    - name: allocate                        - name: allocate
      arguments: {...}                        arguments: {...}

Below that, `tiers` is a list of lists of plugins, each with flags that switch off single kinds of callbacks.

We are stricter than the original on purpose. A name that does not exist or a value of the wrong type would
make a scheduler that quietly follows other rules than the file says, so both are errors, with the line. A
key that we do not know changes nothing and may belong to another version, so it is only a warning.

Nothing in this module knows what plugins and actions exist, or which arguments they take: the names are
given by the caller, and the arguments are checked by those who read them (see the registry).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from .arguments import Arguments, ConfigurationError, place, quoted
from .located_yaml import Located, read_located

__all__ = [
    "ActionOption",
    "Arguments",
    "Configuration",
    "ConfigurationError",
    "PluginOption",
    "Tier",
    "default_configuration",
    "load_configuration",
]

# What follows `enable` or `enabled` in a flag's name -> the kinds of callbacks the flag switches. Both
# prefixes are accepted for all of them: which of the two a flag has in existing files follows no rule one
# could remember.
_FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "JobOrder": ("jobOrder",),
    "QueueOrder": ("queueOrder",),
    "NamespaceOrder": ("namespaceOrder",),
    "TaskOrder": ("taskOrder",),
    "ClusterOrder": ("clusterOrder",),
    "SubJobOrder": ("subJobOrder",),
    "JobReady": ("jobReady",),
    "JobPipelined": ("jobPipelined",),
    "JobEnqueued": ("jobEnqueueable", "jobEnqueued"),
    "JobStarving": ("jobStarving",),
    "SubJobReady": ("subJobReady",),
    "SubJobPipelined": ("subJobPipelined",),
    "TargetJob": ("targetJob",),
    "ReservedNodes": ("reservedNodes",),
    "Preemptable": ("preemptable",),
    "Reclaimable": ("reclaimable",),
    "Preemptive": ("preemptive",),
    "Victim": ("victim",),
    "Overused": ("overused",),
    "Allocatable": ("allocatable",),
    "Predicate": ("predicate",),
    "NodeOrder": ("nodeOrder",),
    "ResourceNodeOrder": ("nodeOrderOnResource",),
    "BestNode": ("bestNode",),
    "HyperNodeOrder": ("hyperNodeOrder",),
    "HyperNodeGradient": ("hyperNodeGradient",),
    "Hierarchy": ("hierarchy",),
}
_OFF_UNLESS_SET: Final = frozenset({"hierarchy", "clusterOrder"})

_DEFAULT_ACTIONS: Final = ("enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill")
_DEFAULT_TIERS: Final = (
    ("priority", "gang", "conformance", "pdb"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder", "node_reservation", "reservation"),
)
# Preemption inside a queue follows priority alone. With the share of drf as a second reason, two jobs of one
# queue could go on evicting each other.
_DEFAULT_SWITCHES: Final[Mapping[str, Mapping[str, bool]]] = {"drf": {"preemptable": False}}


@dataclass(frozen=True)
class PluginOption:
    """A plugin as the file lists it. `enabled` holds only the kinds of callbacks that the file mentions."""

    name: str
    enabled: Mapping[str, bool] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=Arguments)
    line: int = 0  # 0: no file says so, it is built in.

    def is_enabled(self, kind: str) -> bool:
        return self.enabled.get(kind, kind not in _OFF_UNLESS_SET)


@dataclass(frozen=True)
class Tier:
    """Plugins of one rank. A lower tier is asked only where the rules of a callback let the upper pass."""

    plugins: tuple[PluginOption, ...]


@dataclass(frozen=True)
class ActionOption:
    """An action, in the place where it runs, with its arguments."""

    name: str
    arguments: Arguments = field(default_factory=Arguments)
    line: int = 0


@dataclass(frozen=True)
class Configuration:
    """What the scheduler is told to do. `warnings` are full sentences with their place, in file order."""

    actions: tuple[ActionOption, ...]
    tiers: tuple[Tier, ...]
    warnings: tuple[str, ...] = ()
    metrics: Mapping[str, object] = field(default_factory=dict)


def load_configuration(
    text: str,
    *,
    where: str = "configuration",
    actions: Collection[str],
    plugins: Collection[str],
) -> Configuration:
    """Read a configuration file's text. `actions` and `plugins` are the names that exist."""
    return _File(where, actions=actions, plugins=plugins).read(read_located(text, where=where))


def default_configuration(*, actions: Collection[str], plugins: Collection[str]) -> Configuration:
    """What runs when no file is given: every feature we have, as far as its plugins and actions exist."""
    tiers = (
        Tier(
            tuple(
                PluginOption(
                    name,
                    enabled=_DEFAULT_SWITCHES.get(name, {}),
                    arguments=Arguments(owner=f"plugin {quoted(name)}"),
                )
                for name in names
                if name in plugins
            )
        )
        for names in _DEFAULT_TIERS
    )
    return Configuration(
        actions=tuple(
            ActionOption(name, Arguments(owner=f"action {quoted(name)}"))
            for name in _DEFAULT_ACTIONS
            if name in actions
        ),
        tiers=tuple(tier for tier in tiers if tier.plugins),
    )


class _File:
    """One reading of one file: collects warnings on the way, and stops at the first error."""

    def __init__(self, where: str, *, actions: Collection[str], plugins: Collection[str]) -> None:
        self._where = where
        self._actions = actions
        self._plugins = plugins
        self._warnings: list[tuple[int, str]] = []  # (line, sentence)

    def read(self, root: Located) -> Configuration:
        content = root.mapping("a configuration")
        self._warn_of_unknown(content, ("actions", "tiers", "configurations", "metrics"))
        actions = self._read_actions(content.get("actions", Located(None, root.line, self._where)))
        if "configurations" in content:
            actions = self._configured(actions, content["configurations"])
        tiers: tuple[Tier, ...] = ()
        if "tiers" in content:
            tiers = tuple(self._read_tier(tier) for tier in content["tiers"].sequence('"tiers"'))
        if not any(tier.plugins for tier in tiers):
            self._warn(root.line, "no plugins are configured, so there are no gangs, shares or priorities")
        metrics = content["metrics"].mapping('"metrics"') if "metrics" in content else {}
        return Configuration(
            actions=actions,
            tiers=tiers,
            warnings=tuple(f"{place(self._where, line)}: {text}" for line, text in sorted(self._warnings)),
            metrics={key: value.plain() for key, value in metrics.items()},
        )

    def _read_actions(self, given: Located) -> tuple[ActionOption, ...]:
        if isinstance(given.value, str):
            entries = tuple(Located(name.strip(), given.line, self._where) for name in given.value.split(","))
        elif given.value is None or isinstance(given.value, tuple):
            entries = given.sequence('"actions"')
        else:
            raise given.error('"actions" must be a string such as "enqueue, allocate", or a list')
        if not entries or (len(entries) == 1 and entries[0].value == ""):
            raise given.error(f'"actions" names no action; known: {_listed(self._actions)}')
        return tuple(self._read_action(entry) for entry in entries)

    def _read_action(self, entry: Located) -> ActionOption:
        if isinstance(entry.value, dict):
            return self._read_named_arguments(entry, what='an entry of "actions"')
        name = self._known(entry, entry.text('an entry of "actions"'), "action", self._actions)
        return ActionOption(name, self._read_arguments({}, f"action {quoted(name)}"), entry.line)

    def _read_named_arguments(self, entry: Located, *, what: str) -> ActionOption:
        content = entry.mapping(what)
        self._warn_of_unknown(content, ("name", "arguments"))
        name = self._read_name(entry, content, "action", self._actions)
        return ActionOption(name, self._read_arguments(content, f"action {quoted(name)}"), entry.line)

    def _configured(self, actions: tuple[ActionOption, ...], given: Located) -> tuple[ActionOption, ...]:
        """The actions with what `configurations` says of them; what stands with the action itself wins."""
        configured: dict[str, Arguments] = {}
        for entry in given.sequence('"configurations"'):
            option = self._read_named_arguments(entry, what='an entry of "configurations"')
            if option.name in configured:
                self._warn(entry.line, f"action {quoted(option.name)} is configured twice; the first one is used")
            elif option.name not in {action.name for action in actions}:
                self._warn(
                    entry.line, f'arguments for {quoted(option.name)} are ignored: it is not in "actions"'
                )
            configured.setdefault(option.name, option.arguments)
        return tuple(
            ActionOption(
                action.name,
                action.arguments.merged(configured.get(action.name, Arguments())),
                action.line,
            )
            for action in actions
        )

    def _read_tier(self, entry: Located) -> Tier:
        content = entry.mapping('an entry of "tiers"')
        self._warn_of_unknown(content, ("plugins",))
        plugins: tuple[PluginOption, ...] = ()
        if "plugins" in content:
            plugins = tuple(self._read_plugin(item) for item in content["plugins"].sequence('"plugins"'))
        names = {option.name for option in plugins}
        for option in plugins:
            if option.name == "drf" and option.is_enabled("hierarchy") and "proportion" in names:
                raise ConfigurationError(
                    "drf with enableHierarchy and proportion both divide the queues, by different rules; "
                    "remove one of them from this tier",
                    where=self._where,
                    line=option.line,
                )
        return Tier(plugins)

    def _read_plugin(self, entry: Located) -> PluginOption:
        content = entry.mapping('an entry of "plugins"')
        name = self._read_name(entry, content, "plugin", self._plugins)
        enabled: dict[str, bool] = {}
        for key, value in content.items():
            kinds = _kinds(key)
            if key in ("name", "arguments"):
                continue
            if not kinds:
                self._warn(value.line, f"plugin {quoted(name)}: unknown key {quoted(key)} is ignored")
            elif any(kind in enabled for kind in kinds):
                raise value.error(f"{quoted(key)} is set twice, under both its names; keep one of them")
            elif value.value is not None:
                enabled.update(dict.fromkeys(kinds, value.flag(quoted(key))))
        arguments = self._read_arguments(content, f"plugin {quoted(name)}")
        return PluginOption(name, enabled, arguments, entry.line)

    def _read_name(
        self, entry: Located, content: Mapping[str, Located], kind: str, known: Collection[str]
    ) -> str:
        if "name" not in content:
            raise entry.error(f'{kind} without a "name"; known: {_listed(known)}')
        return self._known(content["name"], content["name"].text('"name"'), kind, known)

    def _known(self, at: Located, name: str, kind: str, known: Collection[str]) -> str:
        if name not in known:
            raise at.error(f"unknown {kind} {quoted(name)}; known: {_listed(known)}")
        return name

    def _read_arguments(self, content: Mapping[str, Located], owner: str) -> Arguments:
        given = content["arguments"].mapping(f'"arguments" of {owner}') if "arguments" in content else {}
        return Arguments(
            {key: value.plain() for key, value in given.items()},
            lines={key: value.line for key, value in given.items()},
            owner=owner,
            where=self._where,
        )

    def _warn_of_unknown(self, content: Mapping[str, Located], known: Collection[str]) -> None:
        for key, value in content.items():
            if key not in known:
                self._warn(value.line, f"unknown key {quoted(key)} is ignored; known: {', '.join(known)}")

    def _warn(self, line: int, sentence: str) -> None:
        self._warnings.append((line, sentence))


def _kinds(flag: str) -> tuple[str, ...]:
    for prefix in ("enabled", "enable"):
        if flag.startswith(prefix) and flag.removeprefix(prefix) in _FLAGS:
            return _FLAGS[flag.removeprefix(prefix)]
    return ()


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
