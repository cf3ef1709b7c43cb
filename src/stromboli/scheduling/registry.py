"""Finds plugins and actions by name.

Built-in ones are in a table. Others come with installed distributions, which announce them by entry points of the
groups `stromboli.plugins` and `stromboli.actions`. In both cases a name stands for "module:attribute", and the module
is imported only when a configuration uses the name. So an unused plugin costs nothing, and a broken distribution
affects only those who use it.

A name is unique. A distribution whose name is already taken would silently change the meaning of existing files, so it
is rejected.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, Generic, TypeVar

from stromboli.containment import announce_plugin, plugin_failure
from stromboli.errors import UserError
from stromboli.scheduling.configuration import (
    Arguments,
    Configuration,
    ConfigurationError,
    default_configuration,
    load_configuration,
    quoted,
)
from stromboli.scheduling.configuration.volcano_names import WITHOUT_EFFECT

from .plugin import Action, Plugin

_ACTIONS: Final[Mapping[str, str]] = {
    "allocate": "stromboli.scheduling.actions.allocate:Allocate",
    "backfill": "stromboli.scheduling.actions.backfill:Backfill",
    "enqueue": "stromboli.scheduling.actions.enqueue:Enqueue",
    "preempt": "stromboli.scheduling.actions.preempt:Preempt",
    "reclaim": "stromboli.scheduling.actions.reclaim:Reclaim",
    "reserve": "stromboli.scheduling.actions.reserve:Reserve",
}
_OPTIONAL: Final = "stromboli.scheduling.plugins.optional"
_PLUGINS: Final[Mapping[str, str]] = {
    "binpack": "stromboli.scheduling.plugins.binpack:Binpack",
    "capacity": "stromboli.scheduling.plugins.capacity:Capacity",
    "conformance": "stromboli.scheduling.plugins.conformance:Conformance",
    "drf": "stromboli.scheduling.plugins.drf:Drf",
    "gang": "stromboli.scheduling.plugins.gang:Gang",
    "network-topology-aware": "stromboli.scheduling.plugins.network_topology_aware:NetworkTopologyAware",
    "node_reservation": "stromboli.scheduling.plugins.node_reservation:NodeReservation",
    "nodegroup": f"{_OPTIONAL}.nodegroup:Nodegroup",
    "nodeorder": "stromboli.scheduling.plugins.nodeorder:Nodeorder",
    "overcommit": "stromboli.scheduling.plugins.overcommit:Overcommit",
    "pdb": "stromboli.scheduling.plugins.pdb:Pdb",
    "predicates": "stromboli.scheduling.plugins.predicates:Predicates",
    "priority": "stromboli.scheduling.plugins.priority:Priority",
    "proportion": "stromboli.scheduling.plugins.proportion:Proportion",
    "reservation": "stromboli.scheduling.plugins.reservation:ReservationPlugin",
    "resource-strategy-fit": f"{_OPTIONAL}.resource_strategy_fit:ResourceStrategyFit",
    "resourcequota": f"{_OPTIONAL}.resourcequota:Resourcequota",
    "sla": f"{_OPTIONAL}.sla:Sla",
    "task-topology": f"{_OPTIONAL}.task_topology:TaskTopology",
    "usage": f"{_OPTIONAL}.usage:Usage",
}
# Alias -> name of the plugin. Both are valid in a file.
_PLUGIN_ALIASES: Final[Mapping[str, str]] = {"queue_reservation": "node_reservation"}

# Plugins that both divide the cluster among the queues: a configuration has to choose.
_EXCLUSIVE: Final = ("capacity", "proportion")

BUILT_IN_PLUGINS: Final = frozenset(_PLUGINS)

_Part = TypeVar("_Part", bound=Plugin | Action)


@dataclass(frozen=True)
class _Target:
    """Where a class is, and which distribution announced it ("" for built-in ones)."""

    path: str
    distribution: str = ""

    def load(self) -> object:
        module, _, attribute = self.path.partition(":")
        found: object = import_module(module)
        for name in attribute.split(".") if attribute else ():
            found = getattr(found, name)
        return found


class _Catalogue(Generic[_Part]):
    """Names and classes of one kind: plugins or actions."""

    def __init__(
        self, kind: str, base: type[_Part], built_in: Mapping[str, str], installed: Iterable[EntryPoint]
    ) -> None:
        self._kind = kind
        self._base = base
        self._targets = {name: _Target(path) for name, path in built_in.items()}
        self._classes: dict[str, type[_Part]] = {}
        for entry in sorted(installed, key=lambda entry: (entry.name, _distribution(entry))):
            if entry.name in self._targets:
                raise ConfigurationError(
                    f"distribution {quoted(_distribution(entry))} provides {kind} {quoted(entry.name)}, but that "
                    f"name is already taken; uninstall the distribution, or rename the {kind}"
                )
            self._targets[entry.name] = _Target(entry.value, _distribution(entry))

    def names(self) -> tuple[str, ...]:
        return tuple(sorted({*self._targets, *self._classes}))

    def register(self, name: str, part: type[_Part]) -> None:
        self._classes[name] = part

    def get(self, name: str) -> type[_Part]:
        if name not in self._classes:
            self._classes[name] = self._load(name)
        return self._classes[name]

    def _load(self, name: str) -> type[_Part]:
        target = self._targets.get(name)
        if target is None:
            raise ConfigurationError(f"unknown {self._kind} {quoted(name)}; known: {', '.join(self.names())}")
        if not target.distribution:
            found = target.load()
        else:
            try:
                found = target.load()
            except Exception as error:
                # Whatever a module raises on import, the user needs to know which distribution it is from.
                reason = " ".join(f"{type(error).__name__}: {error}".split())
                raise ConfigurationError(
                    f"{self._kind} {quoted(name)} of distribution {quoted(target.distribution)} cannot be "
                    f"imported from {target.path}: {reason}"
                ) from error
        if not (isinstance(found, type) and issubclass(found, self._base)):
            raise ConfigurationError(
                f"{self._kind} {quoted(name)} ({target.path}"
                + (f" of distribution {quoted(target.distribution)}" if target.distribution else "")
                + f") is not a subclass of {self._base.__module__}.{self._base.__qualname__}"
            )
        if target.distribution:
            announce_plugin(found, f"{self._kind} {quoted(name)} of distribution {quoted(target.distribution)}")
        return found


class Registry:
    """All plugins and actions that a configuration may name."""

    def __init__(
        self,
        *,
        installed_plugins: Iterable[EntryPoint] | None = None,
        installed_actions: Iterable[EntryPoint] | None = None,
        aliases: Mapping[str, str] = _PLUGIN_ALIASES,
    ) -> None:
        if installed_plugins is None:
            installed_plugins = entry_points(group="stromboli.plugins")
        if installed_actions is None:
            installed_actions = entry_points(group="stromboli.actions")
        self._plugins = _Catalogue("plugin", Plugin, _PLUGINS, installed_plugins)
        self._actions = _Catalogue("action", Action, _ACTIONS, installed_actions)
        self._aliases = dict(aliases)

    def plugin_names(self) -> tuple[str, ...]:
        """All names and aliases of plugins, sorted."""
        return tuple(sorted({*self._plugins.names(), *self._aliases}))

    def action_names(self) -> tuple[str, ...]:
        return self._actions.names()

    def plugin(self, name: str) -> type[Plugin]:
        return self._plugins.get(self._aliases.get(name, name))

    def action(self, name: str) -> type[Action]:
        return self._actions.get(name)

    def register_plugin(self, name: str, plugin: type[Plugin]) -> None:
        """Use this class for `name`, in this registry only; it replaces a built-in plugin of that name."""
        self._plugins.register(name, plugin)

    def register_action(self, name: str, action: type[Action]) -> None:
        self._actions.register(name, action)

    def load(self, text: str, *, where: str = "configuration") -> Configuration:
        """Read the text of a configuration file and check it, including all arguments."""
        configuration = load_configuration(text, where=where, actions=self.action_names(), plugins=self.plugin_names())
        return replace(configuration, warnings=configuration.warnings + self.check(configuration, where=where))

    def default(self) -> Configuration:
        """The built-in configuration, without actions and plugins that this registry does not have."""
        return default_configuration(actions=self.action_names(), plugins=self.plugin_names())

    def check(self, configuration: Configuration, *, where: str = "") -> tuple[str, ...]:
        """Create every plugin and action once, to find invalid arguments. Returns warnings about unused ones."""
        warnings: list[str] = []
        listed = {self._aliases.get(p.name, p.name): p.line for tier in configuration.tiers for p in tier.plugins}
        if all(name in listed for name in _EXCLUSIVE):
            both = " and ".join(quoted(name) for name in _EXCLUSIVE)
            raise ConfigurationError(
                f"plugins {both} both divide the queues, by different rules; remove one of them",
                where=where,
                line=max(listed[name] for name in _EXCLUSIVE),
            )
        for action in configuration.actions:
            arguments = action.arguments.unasked()
            _try_out(self.action(action.name), arguments, where, action.line)
            warnings.extend(arguments.warnings(WITHOUT_EFFECT.get(("action", action.name))))
        for tier in configuration.tiers:
            for plugin in tier.plugins:
                arguments = plugin.arguments.unasked()
                _try_out(self.plugin(plugin.name), arguments, where, plugin.line)
                warnings.extend(arguments.warnings(WITHOUT_EFFECT.get(("plugin", plugin.name))))
        return tuple(dict.fromkeys(warnings))


def _try_out(part: type[Plugin | Action], arguments: Arguments, where: str, line: int) -> None:
    """An error in the constructor of somebody's plugin is one of the configuration: whoever names the plugin can remove
    it there, and a process that runs keeps the configuration that it has."""
    try:
        part(arguments)
    except UserError:
        raise
    except Exception as error:
        failure = plugin_failure(error)
        if failure is None:
            raise
        raise ConfigurationError(str(failure), where=where, line=line) from error


def _distribution(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else "(unnamed)"
