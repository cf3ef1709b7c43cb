"""The scheduler's configuration file: which actions run, and which plugins they follow.

The format is Volcano's, so files written for Volcano work here. There are two ways to write the actions:

    actions: "enqueue, allocate"            actions:
    configurations:                         - name: enqueue
    - name: allocate                        - name: allocate
      arguments: {...}                        arguments: {...}

`tiers` is a list of lists of plugins. Flags of a plugin disable single kinds of its callbacks. `topologyKeys` are
labels of nodes, from the widest to the narrowest, that say which nodes are close together.

We are stricter than Volcano on purpose. With an unknown name or a value of the wrong type, the scheduler would silently
follow other rules than the file says, so both are errors that name the line. An unknown key changes nothing and may
belong to another version, so it is only a warning. `volcano_names` has the names of Volcano's that stand for something
else here.

This module does not know which plugins and actions exist, or which arguments they have. The caller gives the names, and
plugins and actions check their arguments when the registry creates them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

from .arguments import Arguments, ConfigurationError, place, quoted
from .located_yaml import Located, read_located
from .topology_keys import read_topology_keys
from .volcano_names import DONE_OTHERWISE, FLAGS_WITHOUT_EFFECT, NOT_BUILT, Kind

Flag = Literal[
    "allocatable", "bestNode", "clusterOrder", "hierarchy", "hyperNodeGradient", "hyperNodeOrder",
    "jobEnqueueable", "jobEnqueued", "jobOrder", "jobPipelined", "jobReady", "jobStarving", "namespaceOrder",
    "nodeOrder", "nodeOrderOnResource", "overused", "predicate", "preemptable", "preemptive", "queueOrder",
    "reclaimable", "reservedNodes", "subJobOrder", "subJobPipelined", "subJobReady", "targetJob", "taskOrder",
    "victim",
]  # fmt: skip
"""A kind of callbacks that a flag of a plugin disables."""

# What follows `enable` or `enabled` in a flag's name -> the kinds of callbacks that the flag controls, mostly one of
# the same name. Both prefixes are accepted for all flags, because existing files use either without a clear rule.
_FLAGS: Final[Mapping[str, tuple[Flag, ...]]] = {
    kind[0].upper() + kind[1:]: (kind,)
    for kind in get_args(Flag)
    if kind not in ("jobEnqueueable", "nodeOrderOnResource")
} | {"JobEnqueued": ("jobEnqueueable", "jobEnqueued"), "ResourceNodeOrder": ("nodeOrderOnResource",)}
_OBJECT: Final = re.compile(r"^kind: *([A-Za-z]+) *$", re.MULTILINE)
METRICS_INTERVAL: Final = 30.0
_OFF_UNLESS_SET: Final = frozenset({"hierarchy", "clusterOrder"})

_DEFAULT_ACTIONS: Final = ("enqueue", "reclaim", "allocate", "preempt", "reserve", "backfill")
_DEFAULT_TIERS: Final = (
    ("priority", "gang", "conformance", "pdb"),
    ("overcommit", "drf", "predicates", "proportion", "nodeorder", "network-topology-aware", "node_reservation",
     "reservation"),
)  # fmt: skip
# Preemption inside a queue follows priority alone. If drf could permit it as well, two jobs of one queue could evict
# each other again and again.
_DEFAULT_SWITCHES: Final[Mapping[str, Mapping[str, bool]]] = {"drf": {"preemptable": False}}
# More than nodeorder's preference for empty nodes, which would break large domains.
_DEFAULT_ARGUMENTS: Final[Mapping[str, Mapping[str, object]]] = {"network-topology-aware": {"weight": 10}}


@dataclass(frozen=True)
class PluginOption:
    """A plugin in a configuration. `enabled` has only the kinds of callbacks that the file mentions."""

    name: str
    enabled: Mapping[str, bool] = field(default_factory=dict)
    arguments: Arguments = field(default_factory=Arguments)
    line: int = 0  # 0: not from a file

    def is_enabled(self, kind: Flag) -> bool:
        return self.enabled.get(kind, kind not in _OFF_UNLESS_SET)


@dataclass(frozen=True)
class Tier:
    """Plugins of one tier. For some callbacks a lower tier is asked only if the tiers above have no opinion."""

    plugins: tuple[PluginOption, ...]


@dataclass(frozen=True)
class ActionOption:
    """An action in a configuration, with its arguments."""

    name: str
    arguments: Arguments = field(default_factory=Arguments)
    line: int = 0


@dataclass(frozen=True)
class Configuration:
    """The actions and plugins of a scheduler. `warnings` are full sentences with their place, in file order."""

    actions: tuple[ActionOption, ...]
    tiers: tuple[Tier, ...]
    warnings: tuple[str, ...] = ()
    topology_keys: tuple[str, ...] = ()  # from the widest to the narrowest
    metrics_interval: float = METRICS_INTERVAL  # seconds between two measurements of nodes

    def plugins(self, *names: str) -> list[PluginOption]:
        """Those of these names, in the order of the file."""
        return [option for tier in self.tiers for option in tier.plugins if option.name in names]


def load_configuration(
    text: str,
    *,
    where: str = "configuration",
    actions: Collection[str],
    plugins: Collection[str],
) -> Configuration:
    """Read the text of a configuration file. `actions` and `plugins` are the names that exist."""
    kind = _OBJECT.search(text)
    if kind is not None:
        # All files of a simulation are YAML, and it is easy to pass the wrong one.
        raise ConfigurationError(
            f"this looks like a scenario or a manifest (kind: {kind[1]}), not like a scheduler configuration, which "
            'has "actions" and "tiers"',
            where=where,
            line=text.count("\n", 0, kind.start()) + 1,
        )
    return _File(where, actions=actions, plugins=plugins).read(read_located(text, where=where))


def configuration_text(configuration: Configuration) -> str:
    """A file that means the same, on one line; for records of what a scheduler ran with."""
    flags = {kinds[0]: name for name, kinds in _FLAGS.items()}
    actions = [{"name": action.name, "arguments": dict(action.arguments)} for action in configuration.actions]
    tiers = [
        {
            "plugins": [
                {"name": plugin.name}
                | {f"enabled{flags[kind]}": on for kind, on in plugin.enabled.items() if kind in flags}
                | ({"arguments": dict(plugin.arguments)} if plugin.arguments else {})
                for plugin in tier.plugins
            ]
        }
        for tier in configuration.tiers
    ]
    keys = {"topologyKeys": configuration.topology_keys} if configuration.topology_keys else {}
    return json.dumps({"actions": actions, **keys, "tiers": tiers})


def default_configuration(*, actions: Collection[str], plugins: Collection[str]) -> Configuration:
    """The configuration without a file: all features whose plugins and actions exist."""
    tiers = (
        Tier(
            tuple(
                PluginOption(
                    name,
                    enabled=_DEFAULT_SWITCHES.get(name, {}),
                    arguments=Arguments(_DEFAULT_ARGUMENTS.get(name, {}), owner=f"plugin {quoted(name)}"),
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
    """Reads one file: collects warnings, and stops at the first error."""

    def __init__(self, where: str, *, actions: Collection[str], plugins: Collection[str]) -> None:
        self._where = where
        self._actions = actions
        self._plugins = plugins
        self._warnings: list[tuple[int, str]] = []  # (line, sentence)

    def read(self, root: Located) -> Configuration:
        content = root.mapping("a configuration")
        self._warn_of_unknown(content, ("actions", "tiers", "configurations", "topologyKeys", "metrics"))
        actions = self._read_actions(content.get("actions", Located(None, root.line, self._where)))
        if "configurations" in content:
            actions = self._configured(actions, content["configurations"])
        tiers: tuple[Tier, ...] = ()
        if "tiers" in content:
            tiers = tuple(self._read_tier(tier) for tier in content["tiers"].sequence('"tiers"'))
        if not any(tier.plugins for tier in tiers):
            self._warn(root.line, "no plugins are configured, so there are no gangs, shares or priorities")
        interval = self._read_metrics(content["metrics"]) if "metrics" in content else METRICS_INTERVAL
        keys = read_topology_keys(content.get("topologyKeys"), [one for tier in tiers for one in tier.plugins])
        return Configuration(
            actions=actions,
            tiers=tiers,
            topology_keys=keys,
            warnings=tuple(f"{place(self._where, line)}: {text}" for line, text in sorted(self._warnings)),
            metrics_interval=interval,
        )

    def _read_metrics(self, given: Located) -> float:
        """Volcano's files also say where measurements are."""
        content = given.mapping('"metrics"')
        for key, value in content.items():
            if key != "interval":
                sentence = f'"metrics": {quoted(key)} has no effect; what nodes use is read from metrics.k8s.io'
                self._warn(value.line, sentence)
        lines = {key: value.line for key, value in content.items()}
        values = {key: value.plain() for key, value in content.items()}
        arguments = Arguments(values, lines=lines, owner='"metrics"', where=self._where)
        return arguments.duration("interval", METRICS_INTERVAL, minimum=1)

    def _read_actions(self, given: Located) -> tuple[ActionOption, ...]:
        if isinstance(given.value, str):
            entries = tuple(Located(name.strip(), given.line, self._where) for name in given.value.split(","))
        elif given.value is None or isinstance(given.value, tuple):
            entries = given.sequence('"actions"')
        else:
            raise given.error('"actions" must be a string such as "enqueue, allocate", or a list')
        if not entries or (len(entries) == 1 and entries[0].value == ""):
            raise given.error(f'"actions" names no action; known: {_listed(self._actions)}')
        actions = _once_each([read for entry in entries if (read := self._read_action(entry)) is not None])
        if not actions:
            raise given.error(f'"actions" names no action that runs; known: {_listed(self._actions)}')
        return actions

    def _read_action(self, entry: Located) -> tuple[ActionOption, bool] | None:
        """An action, and whether it runs instead of one that the file names; None if none does."""
        if isinstance(entry.value, dict):
            return self._read_named_arguments(entry, what='an entry of "actions"', warns=True)
        written = entry.text('an entry of "actions"')
        name = self._known(entry, written, "action", self._actions, warns=True)
        if not name:
            return None
        return ActionOption(name, self._read_arguments({}, f"action {quoted(name)}"), entry.line), name != written

    def _read_named_arguments(
        self, entry: Located, *, what: str, warns: bool = False
    ) -> tuple[ActionOption, bool] | None:
        content = entry.mapping(what)
        self._warn_of_unknown(content, ("name", "arguments"))
        written, name = self._read_name(entry, content, "action", self._actions, warns=warns)
        if not name:
            return None
        arguments = self._read_arguments(content, f"action {quoted(name)}")
        return ActionOption(name, arguments, entry.line), name != written

    def _configured(self, actions: tuple[ActionOption, ...], given: Located) -> tuple[ActionOption, ...]:
        """The actions with the arguments from `configurations`; arguments in the action itself have precedence."""
        configured: dict[str, Arguments] = {}
        for entry in given.sequence('"configurations"'):
            read = self._read_named_arguments(entry, what='an entry of "configurations"')
            if read is None:
                continue
            option, is_other = read
            if option.name in configured:
                if is_other:
                    continue  # of an action that does what this one does as well
                self._warn(entry.line, f"action {quoted(option.name)} is configured twice; the first one is used")
            elif option.name not in {action.name for action in actions}:
                self._warn(entry.line, f'arguments for {quoted(option.name)} are ignored: it is not in "actions"')
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
            read = [self._read_plugin(item) for item in content["plugins"].sequence('"plugins"')]
            plugins = tuple(plugin for plugin in read if plugin is not None)
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

    def _read_plugin(self, entry: Located) -> PluginOption | None:
        content = entry.mapping('an entry of "plugins"')
        _, name = self._read_name(entry, content, "plugin", self._plugins, warns=True)
        if not name:
            return None
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
                if FLAGS_WITHOUT_EFFECT.issuperset(kinds):
                    self._warn(value.line, f"plugin {quoted(name)}: {quoted(key)} has no effect")
        arguments = self._read_arguments(content, f"plugin {quoted(name)}")
        return PluginOption(name, enabled, arguments, entry.line)

    def _read_name(
        self, entry: Located, content: Mapping[str, Located], kind: Kind, known: Collection[str], *, warns: bool
    ) -> tuple[str, str]:
        """As it is written, and what it stands for (see `_known`)."""
        if "name" not in content:
            raise entry.error(f'{kind} without a "name"; known: {_listed(known)}')
        written = content["name"].text('"name"')
        return written, self._known(content["name"], written, kind, known, warns=warns)

    def _known(self, at: Located, name: str, kind: Kind, known: Collection[str], *, warns: bool) -> str:
        """The name of what runs; "" if nothing does. `warns`: whether to say so where that is not what is written."""
        if name in known:
            return name
        otherwise = DONE_OTHERWISE.get((kind, name))
        if otherwise is None:
            if (kind, name) in NOT_BUILT:
                raise at.error(f"{kind} {quoted(name)} of Volcano is not built here: {NOT_BUILT[kind, name]}")
            raise at.error(f"unknown {kind} {quoted(name)}; known: {_listed(known)}")
        if warns:
            self._warn(at.line, f"{kind} {quoted(name)}: {otherwise.advice}")
        return otherwise.name

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


def _once_each(read: list[tuple[ActionOption, bool]]) -> tuple[ActionOption, ...]:
    """Without actions that run instead of others and run anyway."""
    as_written = {option.name for option, is_other in read if not is_other}
    actions: list[ActionOption] = []
    for option, is_other in read:
        if not (is_other and option.name in {*as_written, *(action.name for action in actions)}):
            actions.append(option)
    return tuple(actions)


def _kinds(flag: str) -> tuple[Flag, ...]:
    for prefix in ("enabled", "enable"):
        if flag.startswith(prefix) and flag.removeprefix(prefix) in _FLAGS:
            return _FLAGS[flag.removeprefix(prefix)]
    return ()


def _listed(names: Collection[str]) -> str:
    return ", ".join(sorted(names))
