"""One scheduling cycle: from a snapshot of the cluster to decisions.

`Scheduler.run` is all a world needs. The steps are separate methods, so that benchmarks and metrics can time each, and
tests can look between them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from stromboli.cluster import Cluster, Ledger, Snapshot

from .conclusion import conclude
from .configuration import Configuration, PluginOption
from .decisions import Cycle, Decision
from .features import FEATURES, PREPARATIONS
from .plugin import Plugin
from .registry import BUILT_IN_PLUGINS, Registry
from .session import Memories, Session
from .turns import Turns


def open_session(
    snapshot: Snapshot,
    configuration: Configuration,
    plugin_of: Callable[[PluginOption], Plugin],
    now: float,
    memories: Memories | None = None,
    turns: Turns | None = None,
    decided: list[Decision] | None = None,
) -> Session:
    """Plugins register tier by tier in the order of the configuration, then the features do. `decided`: what an earlier
    session of this cycle decided; decisions are added there."""
    session = Session(snapshot, configuration, now, memories, turns)
    if decided is not None:
        session.cycle.decisions = decided
    for prepare in PREPARATIONS:
        prepare(session)
    for number, tier in enumerate(configuration.tiers):
        for option in tier.plugins:
            plugin = plugin_of(option)
            with session.registering(option.name, number, option.is_enabled, is_ours=option.name in BUILT_IN_PLUGINS):
                plugin.open(session)
            with session.registering(option.name, number):
                session.points.close.add(partial(plugin.close, session))
    for open_feature in FEATURES:
        open_feature(session)
    return session


def end_actions(session: Session) -> None:
    """Call what was registered for the end."""
    session.points.close.call()


def close_session(session: Session) -> Cycle:
    """Call what was registered for the end, record the outcome of each job, and return the decisions."""
    end_actions(session)
    conclude(session)
    return session.cycle


class Scheduler:
    """Runs cycles with one configuration. Between cycles it keeps only what saves work: a scheduler that has just
    started decides the same."""

    def __init__(self, configuration: Configuration, registry: Registry) -> None:
        self.configuration = configuration
        self.registry = registry
        self._memories: Memories = {}
        self._ledger: Ledger | None = None  # of the cluster that the memories are about

    def open(
        self, snapshot: Snapshot, now: float, turns: Turns | None = None, decided: list[Decision] | None = None
    ) -> Session:
        """`turns` and `decided`: of a cycle that may need several sessions."""
        if snapshot.ledger is not self._ledger:
            self._ledger = snapshot.ledger
            self._memories = {}
        return open_session(snapshot, self.configuration, self._plugin, now, self._memories, turns, decided)

    def forget(self) -> None:
        """Drop what earlier sessions remembered: one of them failed, and nobody knows how far it had come."""
        self._memories = {}

    def _plugin(self, option: PluginOption) -> Plugin:
        return self.registry.plugin(option.name)(option.arguments)

    def act(self, session: Session, after_action: Callable[[str], None] | None = None) -> None:
        """Run the actions. `after_action` is called with the name of each. The binds in `session.cycle` are final by
        then: no later action takes one back."""
        for option in self.configuration.actions:
            session.turns.begin(option.name)
            self.registry.action(option.name)(option.arguments).execute(session)
            if after_action is not None:
                after_action(option.name)
        session.turns.begin("")

    def run(self, cluster: Cluster, now: float) -> Cycle:
        session = self.open(cluster.snapshot(), now)
        self.act(session)
        return close_session(session)
