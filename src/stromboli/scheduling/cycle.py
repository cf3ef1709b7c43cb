"""One scheduling cycle, from what we know to what should happen.

`Scheduler.run` is all a world needs. The steps are separate methods, so that a benchmark can time them and a test can
look between them.
"""

from __future__ import annotations

from stromboli.cluster import Cluster, Snapshot
from stromboli.scheduling.configuration.file import Configuration

from .decisions import Cycle
from .plugin import Plugin
from .registry import Registry
from .session import Session


class Scheduler:
    """A configuration, ready to run. It keeps nothing from one cycle to the next."""

    def __init__(self, configuration: Configuration, registry: Registry) -> None:
        self.configuration = configuration
        self.registry = registry

    def open(self, snapshot: Snapshot, now: float) -> Session:
        plugins: dict[int, Plugin] = {}
        for tier in self.configuration.tiers:
            for option in tier.plugins:
                plugins[id(option)] = self.registry.plugin(option.name)(option.arguments)
        return Session(snapshot, self.configuration, plugins, now)

    def act(self, session: Session) -> None:
        for option in self.configuration.actions:
            self.registry.action(option.name)(option.arguments).execute(session)

    def run(self, cluster: Cluster, now: float) -> Cycle:
        session = self.open(cluster.snapshot(), now)
        self.act(session)
        return session.close()
