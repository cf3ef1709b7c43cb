"""What the Job controller remembers of a job between two passes.

Everything here may be lost in a restart. The job's status has what must not be lost (see pod_memory); the delays of
policies for other events than evictions start again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.api import JobSpec, Pod, PodGroupSpec

from .lifecycle_policy import JobEvent

LostPods = dict[str, tuple[Pod, float]]
"""Pods by name, each with the time of its deletion."""


@dataclass(slots=True)
class JobRecord:
    is_new: bool = True  # no pass has seen the job yet: its status may remember more than we do
    lost_pods: LostPods = field(default_factory=dict)  # pods that were deleted, but not by this controller
    event_times: dict[JobEvent, float] = field(default_factory=dict)  # since when each present event lasts
    name_conflict: str = ""  # name of a pod that cannot be created because another pod has it, once reported
    failed_write: str = ""  # why an object that the job owns could not be written, to be reported in the next pass
    due: float | None = None  # when to reconcile again although nothing changed
    last_turn: int = 0  # the pass in which the job, cut off by the budget, last created or deleted pods
    # The spec of the group, with what it was made from: the job's spec and the priorities of its tasks.
    group_spec: tuple[JobSpec, dict[str, int], PodGroupSpec] | None = None
    deleted_again: dict[str, float] = field(default_factory=dict)  # when it was last requested, by uid of the pod
    handled: tuple[LostPods, dict[JobEvent, float]] | None = None  # the events that this pass acts upon

    def mark_handled(self) -> None:
        """The job acts on its events."""
        self.handled = (self.lost_pods, self.event_times)
        self.lost_pods, self.event_times = {}, {}
        self.due = None

    def restore_handled(self) -> None:
        """The job could not act after all: its events must be handled again."""
        if self.handled is not None:
            lost_pods, event_times = self.handled
            self.lost_pods, self.event_times = lost_pods | self.lost_pods, event_times | self.event_times
            self.handled = None
