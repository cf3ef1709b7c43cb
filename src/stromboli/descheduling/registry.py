"""Finds the descheduler's plugins by name, and checks a policy with them.

Built-in plugins are in a table. Others come with installed distributions, by entry points of the group
`stromboli.descheduler_plugins`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Final, TypeVar

from stromboli.containment import announce_plugin
from stromboli.scheduling.configuration import Configuration, ConfigurationError, quoted

from .plugin import EvictorPlugin, Plugin
from .policy import Policy, Profile, load_policy
from .strategy import BalancePlugin, DeschedulePlugin

_BUILT_IN: Final[Mapping[str, str]] = {
    "DefaultEvictor": "evictor",
    "Defragmentation": "plugins.defragmentation",
    "HighNodeUtilization": "plugins.node_utilization",
    "LoadAware": "plugins.node_utilization",
    "LowNodeUtilization": "plugins.node_utilization",
    "PodLifeTime": "plugins.pod_life_time",
    "RemoveDuplicates": "plugins.duplicates",
    "RemoveFailedPods": "plugins.failed_pods",
    "RemovePodsHavingTooManyRestarts": "plugins.too_many_restarts",
    "RemovePodsViolatingInterPodAntiAffinity": "plugins.inter_pod_anti_affinity",
    "RemovePodsViolatingNodeAffinity": "plugins.node_affinity",
    "RemovePodsViolatingNodeTaints": "plugins.node_taints",
    "RemovePodsViolatingTopologySpreadConstraint": "plugins.topology_spread",
}
"""The modules of the plugins, each of which has a class of the plugin's name."""
P = TypeVar("P", bound=Plugin)


class Registry:
    def __init__(self, *, installed: Iterable[EntryPoint] | None = None) -> None:
        self._paths = {name: f"stromboli.descheduling.{module}:{name}" for name, module in _BUILT_IN.items()}
        self._classes: dict[str, type[Plugin]] = {}
        self._distributions: dict[str, str] = {}  # of plugins that are not built in
        for entry in entry_points(group="stromboli.descheduler_plugins") if installed is None else installed:
            if entry.name in self._paths:
                raise ConfigurationError(f"descheduler plugin {quoted(entry.name)} is provided twice; uninstall one")
            self._paths[entry.name] = entry.value
            self._distributions[entry.name] = entry.dist.name if entry.dist is not None else "(unnamed)"

    def plugin(self, name: str) -> type[Plugin]:
        if name not in self._classes:
            module, _, attribute = self._paths[name].partition(":")
            found = getattr(import_module(module), attribute)
            if not (isinstance(found, type) and issubclass(found, Plugin)):
                raise ConfigurationError(f"descheduler plugin {quoted(name)} is not a plugin")
            self._classes[name] = found
            if name in self._distributions:
                of = quoted(self._distributions[name])
                announce_plugin(found, f"descheduler plugin {quoted(name)} of distribution {of}")
        return self._classes[name]

    def register(self, name: str, plugin: type[Plugin]) -> None:
        """Use this class for `name`, in this registry only."""
        self._paths[name] = ""
        self._classes[name] = plugin

    def names(self, base: type[Plugin]) -> list[str]:
        return sorted(name for name in self._paths if issubclass(self.plugin(name), base))

    def create(self, profile: Profile, name: str, base: type[P]) -> P:
        plugin = self.plugin(name)(profile.arguments_of(name).unasked())
        assert isinstance(plugin, base)
        return plugin

    def load(self, text: str, *, where: str = "policy") -> Policy:
        """Read the text of a policy file and check it, including all arguments."""
        policy = load_policy(
            text,
            where=where,
            deschedule=self.names(DeschedulePlugin),
            balance=self.names(BalancePlugin),
            evictors=self.names(EvictorPlugin),
        )
        warnings = [*policy.warnings]
        for profile in policy.profiles:
            for name in (*profile.evictors, *profile.deschedule, *profile.balance):
                arguments = profile.arguments_of(name).unasked()
                plugin = self.plugin(name)(arguments)
                warnings += [*arguments.warnings(), *plugin.warnings()]
        return replace(policy, warnings=tuple(dict.fromkeys(warnings)))


def warnings_about(policy: Policy, configuration: Configuration) -> list[str]:
    """What does not go together with the scheduler's configuration."""
    warnings = []
    balance = {name for profile in policy.profiles for name in profile.balance}
    plugins = {option.name: option for tier in configuration.tiers for option in tier.plugins}
    actions = {action.name for action in configuration.actions}
    if "Defragmentation" in balance:
        nodeorder = plugins.get("nodeorder")
        spreads = nodeorder is not None and nodeorder.arguments.unasked().number("leastrequested.weight", 1) > 0
        packs = "binpack" in plugins or (
            nodeorder is not None and nodeorder.arguments.unasked().number("mostrequested.weight", 0) > 0
        )
        if spreads and not packs:
            warnings.append(
                "Defragmentation packs pods, and the scheduler's nodeorder spreads them (leastrequested.weight): new "
                "pods fill emptied nodes again; add the plugin binpack, or set leastrequested.weight to 0"
            )
        pending = any(
            profile.arguments_of("Defragmentation").unasked().boolean("forPending", False)
            for profile in policy.profiles
            if "Defragmentation" in profile.balance
        )
        if pending and "reserve" not in actions:
            warnings.append(
                "Defragmentation with forPending needs the scheduler's action reserve: without it no node can be set "
                "aside for a job, and nothing is moved"
            )
    return warnings
