"""The scheduler on a real API server.

component            starts and stops the parts, and decides when a cycle is run
cycle_runner         takes events in, runs a cycle in a thread, dispatches its decisions
containment          who is put aside after an error, and who had no turn
inbox                buffers watch events while a cycle runs
dispatcher           turns decisions into writes
binder               binds and evictions
status_writer        PodScheduled of pods, phase and conditions of groups, what queues have allocated;
                     status_patch_queue: sends the patches, the latest for each object
reservation_writer   creation and deletion of Reservations
responses            what became of a write; errors of the server itself
outcome_reporter     metrics, log lines and events about outcomes
recorder             a file with all events and decisions; imported only where one is written
metrics              counters and histograms; state_metrics: gauges from the last cycle
"""

from .component import SchedulerComponent
from .metrics import SchedulerMetrics

__all__ = ["SchedulerComponent", "SchedulerMetrics"]
