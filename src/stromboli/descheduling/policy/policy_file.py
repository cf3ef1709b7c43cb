"""The policy file: the Kubernetes descheduler's format (`descheduler/v1alpha2`), with the plugins that exist here.

    apiVersion: descheduler/v1alpha2
    kind: DeschedulerPolicy
    deschedulingInterval: 10m            # or deschedulingIntervalCronExpression: "0 3 * * *"
    maxNoOfPodsToEvictTotal: 20
    profiles:
    - name: defragment
      pluginConfig:
      - {name: DefaultEvictor, args: {minPodAge: 5m}}
      - {name: Defragmentation, args: {ResourceType: gpu, forPending: true}}
      plugins:
        balance: {enabled: [Defragmentation]}

The interval and the limit per workload are additions of ours. As with the scheduler's configuration, an unknown plugin
or a value of the wrong type is an error that names the line, and an unknown key is a warning.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from stromboli.api import LabelSelector, LabelSelectorRequirement
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.scheduling.configuration import Arguments, ConfigurationError, quoted
from stromboli.scheduling.configuration.arguments import place
from stromboli.scheduling.configuration.located_yaml import Located, read_located

from .schedule import CronError, Schedule

API_VERSION: Final = "descheduler/v1alpha2"
KIND: Final = "DeschedulerPolicy"
DEFAULT_INTERVAL: Final = 300.0
DEFAULT_EVICTOR: Final = "DefaultEvictor"

_POINTS: Final = ("presort", "sort", "deschedule", "balance", "filter", "preEvictionFilter")
_LIMITS: Final = {
    "maxNoOfPodsToEvictPerNode": "per_node",
    "maxNoOfPodsToEvictPerNamespace": "per_namespace",
    "maxNoOfPodsToEvictPerWorkload": "per_workload",
    "maxNoOfPodsToEvictTotal": "per_run",
}
_WITHOUT_EFFECT: Final = ("gracePeriodSeconds", "evictionFailureEventNotification", "metricsProviders")
_KEYS: Final = (
    "apiVersion", "kind", "metadata", "profiles", "nodeSelector", "deschedulingInterval",
    "deschedulingIntervalCronExpression", *_LIMITS, *_WITHOUT_EFFECT,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Limits:
    """How many pods one run may move; None: as many as it likes."""

    per_node: int | None = None
    per_namespace: int | None = None
    per_workload: int | None = None
    per_run: int | None = None


@dataclass(frozen=True)
class Profile:
    """Plugins that run together, each with its arguments; the evictor plugins judge the pods of all others."""

    name: str
    deschedule: tuple[str, ...] = ()
    balance: tuple[str, ...] = ()
    evictors: tuple[str, ...] = (DEFAULT_EVICTOR,)
    arguments: Mapping[str, Arguments] = field(default_factory=dict)

    def arguments_of(self, plugin: str) -> Arguments:
        return self.arguments.get(plugin, Arguments(owner=f"plugin {quoted(plugin)}"))


@dataclass(frozen=True)
class Policy:
    profiles: tuple[Profile, ...] = ()
    schedule: Schedule = field(default_factory=Schedule)
    limits: Limits = field(default_factory=Limits)
    node_selector: LabelSelector | None = None  # which nodes take part; None: all
    warnings: tuple[str, ...] = ()

    def profile(self, name: str) -> Profile | None:
        return next((profile for profile in self.profiles if profile.name == name), None)


def load_policy(
    text: str,
    *,
    where: str = "policy",
    deschedule: Collection[str],
    balance: Collection[str],
    evictors: Collection[str],
) -> Policy:
    """Read the text of a policy file. The names are those of the plugins that exist, by extension point."""
    return _File(where, deschedule, balance, evictors).read(read_located(text, where=where))


class _File:
    def __init__(
        self, where: str, deschedule: Collection[str], balance: Collection[str], evictors: Collection[str]
    ) -> None:
        self._where = where
        self._known = {
            "deschedule": deschedule, "balance": balance, "filter": evictors, "preEvictionFilter": evictors,
            "presort": (), "sort": (),
        }  # fmt: skip
        self._all = sorted({*deschedule, *balance, *evictors})
        self._warnings: list[tuple[int, str]] = []

    def read(self, root: Located) -> Policy:
        content = root.mapping("the policy")
        kind = content.get("kind")
        if kind is None or kind.value != KIND:
            found = "nothing" if kind is None else quoted(kind.value)
            raise (kind or root).error(f'"kind" must be {KIND}, not {found}')
        version = content.get("apiVersion")
        if version is not None and version.value != API_VERSION:
            raise version.error(f'"apiVersion" must be {API_VERSION}, not {quoted(version.value)}')
        self._warn_of_unknown(content, _KEYS)
        for name in _WITHOUT_EFFECT:
            if name in content:
                self._warn(content[name].line, f"{quoted(name)} has no effect here")
        listed = content["profiles"].sequence('"profiles"') if "profiles" in content else ()
        profiles = tuple(self._profile(entry) for entry in listed)
        names = [profile.name for profile in profiles]
        if not profiles:
            raise root.error('"profiles" is empty, so there is nothing to do')
        if len(set(names)) < len(names):
            raise content["profiles"].error("two profiles have the same name")
        return Policy(
            profiles,
            self._schedule(content),
            Limits(**{field: self._limit(content, name) for name, field in _LIMITS.items()}),
            _selector(content["nodeSelector"]) if "nodeSelector" in content else None,
            tuple(f"{place(self._where, line)}: {sentence}" for line, sentence in sorted(self._warnings)),
        )

    def _schedule(self, content: Mapping[str, Located]) -> Schedule:
        interval, cron = content.get("deschedulingInterval"), content.get("deschedulingIntervalCronExpression")
        if interval is not None and cron is not None:
            raise cron.error('"deschedulingInterval" and "deschedulingIntervalCronExpression" are both set; keep one')
        if cron is not None:
            try:
                return Schedule(cron=cron.text('"deschedulingIntervalCronExpression"'))
            except CronError as error:
                raise cron.error(f'"deschedulingIntervalCronExpression": {error}') from None
        if interval is None:
            return Schedule(interval=DEFAULT_INTERVAL)
        given = interval.value
        try:
            seconds = (
                -1.0
                if isinstance(given, bool) or not isinstance(given, str | int | float)
                else float(parse_duration(given))
            )
        except QuantityError:
            seconds = -1.0
        if seconds < 0:
            raise interval.error(f'"deschedulingInterval" must be a duration such as 10m, not {quoted(given)}')
        return Schedule(interval=seconds)

    def _limit(self, content: Mapping[str, Located], name: str) -> int | None:
        given = content.get(name)
        if given is None or given.value is None:
            return None
        if isinstance(given.value, bool) or not isinstance(given.value, int) or given.value < 0:
            raise given.error(f"{quoted(name)} must be a whole number of 0 or more, not {quoted(given.value)}")
        return given.value

    def _profile(self, entry: Located) -> Profile:
        content = entry.mapping('an entry of "profiles"')
        self._warn_of_unknown(content, ("name", "pluginConfig", "plugins"))
        if "name" not in content:
            raise entry.error('a profile without a "name"')
        name = content["name"].text('"name"')
        arguments = {}
        for item in content["pluginConfig"].sequence('"pluginConfig"') if "pluginConfig" in content else ():
            plugin, given = self._plugin_config(item)
            if plugin in arguments:
                raise item.error(f"plugin {quoted(plugin)} is configured twice in profile {quoted(name)}")
            arguments[plugin] = given
        enabled = self._enabled(content["plugins"]) if "plugins" in content else {}
        if not enabled.get("deschedule") and not enabled.get("balance"):
            raise entry.error(f"profile {quoted(name)} enables no plugin; known: {', '.join(self._all)}")
        evictors = tuple(dict.fromkeys((*enabled.get("filter", ()), *enabled.get("preEvictionFilter", ()))))
        profile = Profile(
            name,
            deschedule=enabled.get("deschedule", ()),
            balance=enabled.get("balance", ()),
            # As in Kubernetes, the default evictor always judges.
            evictors=tuple(dict.fromkeys((DEFAULT_EVICTOR, *evictors))),
            arguments=arguments,
        )
        used = {*profile.deschedule, *profile.balance, *profile.evictors}
        for plugin in arguments:
            if plugin not in used:
                self._warn(entry.line, f"profile {quoted(name)}: {quoted(plugin)} is configured, but not enabled")
        return profile

    def _plugin_config(self, item: Located) -> tuple[str, Arguments]:
        content = item.mapping('an entry of "pluginConfig"')
        self._warn_of_unknown(content, ("name", "args"))
        if "name" not in content:
            raise item.error('an entry of "pluginConfig" without a "name"')
        name = content["name"].text('"name"')
        if name not in self._all:
            raise content["name"].error(self._unknown(name))
        given = content["args"].mapping(f'"args" of {quoted(name)}') if "args" in content else {}
        values = {key: value.plain() for key, value in given.items()}
        lines = {key: value.line for key, value in given.items()}
        return name, Arguments(values, lines=lines, owner=f"plugin {quoted(name)}", where=self._where)

    def _enabled(self, plugins: Located) -> dict[str, tuple[str, ...]]:
        content = plugins.mapping('"plugins"')
        self._warn_of_unknown(content, _POINTS)
        enabled: dict[str, tuple[str, ...]] = {}
        for point, given in content.items():
            if point not in _POINTS:
                continue
            sets = given.mapping(quoted(point))
            self._warn_of_unknown(sets, ("enabled", "disabled"))
            names = [item.text(f'a plugin of "{point}"') for item in _items(sets, "enabled")]
            disabled = {item.value for item in _items(sets, "disabled")}
            known = self._known[point]
            for item in _items(sets, "enabled"):
                if item.value not in self._all:
                    raise item.error(self._unknown(item.value))
                if item.value not in known:
                    listed = ", ".join(sorted(known)) or "none"
                    raise item.error(f"{quoted(item.value)} is no plugin for {quoted(point)}; known there: {listed}")
            enabled[point] = tuple(name for name in dict.fromkeys(names) if name not in disabled)
        return enabled

    def _unknown(self, name: object) -> str:
        known = f"known: {', '.join(self._all)}"
        return f"unknown plugin {quoted(name)}; {known}"

    def _warn_of_unknown(self, content: Mapping[str, Located], known: Collection[str]) -> None:
        for key, value in content.items():
            if key not in known:
                self._warn(value.line, f"unknown key {quoted(key)} is ignored; known: {', '.join(known)}")

    def _warn(self, line: int, sentence: str) -> None:
        self._warnings.append((line, sentence))


def _selector(given: Located) -> LabelSelector | None:
    """A selector as kubectl takes it: `zone=a,gpu`, `!spot`, `zone!=b`."""
    text = given.text('"nodeSelector"')
    requirements = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        key, equals, value = part.replace("==", "=").partition("=")
        values = [value.strip()]
        if key.endswith("!"):
            requirements.append(LabelSelectorRequirement(key=key[:-1].strip(), operator="NotIn", values=values))
        elif equals:
            requirements.append(LabelSelectorRequirement(key=key.strip(), operator="In", values=values))
        elif key.startswith("!"):
            requirements.append(LabelSelectorRequirement(key=key[1:].strip(), operator="DoesNotExist"))
        else:
            requirements.append(LabelSelectorRequirement(key=key.strip(), operator="Exists"))
        if not requirements[-1].key or " " in requirements[-1].key:
            raise given.error(f'"nodeSelector" must be like zone=a,gpu or !spot, not {quoted(text)}')
    return LabelSelector(match_expressions=requirements) if requirements else None


def _items(sets: Mapping[str, Located], name: str) -> tuple[Located, ...]:
    return sets[name].sequence(quoted(name)) if name in sets else ()


__all__ = ["ConfigurationError", "Limits", "Policy", "Profile", "load_policy"]
