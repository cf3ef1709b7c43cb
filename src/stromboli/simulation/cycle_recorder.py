"""Records the cycles of a simulation, in the format of the scheduler's own recordings.

A recording of a cluster and one of a simulation are the same file, so that a scenario can show how a recording is used,
and a test can replay any of them.
"""

from __future__ import annotations

from pathlib import Path

from stromboli import __version__
from stromboli.api import names
from stromboli.cluster import Applied, Cluster, ClusterEvent, Deleted
from stromboli.files import append
from stromboli.insight.recording import configuration_line, cycle_line, start_line
from stromboli.scheduling.configuration import Configuration, configuration_text
from stromboli.scheduling.decisions import Cycle

from .engine import Engine, SchedulerProtocol


def record_decisions(engine: Engine, configuration: Configuration, path: Path) -> None:
    """Call it before the run. The file is written anew."""
    append(path, b"", anew=True)
    events: list[ClusterEvent] = []

    class Recorded:
        def __init__(self, scheduler: SchedulerProtocol) -> None:
            self._scheduler = scheduler
            events[:] = [Applied(obj) for obj in engine.world.store.everything()]
            append(path, start_line(__version__, names.DEFAULT_SCHEDULER))
            append(path, configuration_line(configuration_text(configuration)))

        def run(self, cluster: Cluster, now: float) -> Cycle:
            cycle = self._scheduler.run(cluster, now)
            append(path, cycle_line(now, events, cycle.decisions))
            events.clear()
            return cycle

    def observe(event: Applied | Deleted) -> None:
        events.append(event)

    engine.on_event = observe
    engine.wrap_scheduler(Recorded)
