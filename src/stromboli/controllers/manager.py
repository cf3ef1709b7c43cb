"""All controllers behind one interface.

A caller passes its objects and the time to `reconcile`, applies the changes it gets back, and calls again until there
are none. It reports deleted pods, and it may ask when something is due next, so that virtual time can jump there.
Whatever a controller remembers between two passes may be lost at any time: a new `ControllerManager` is a restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api import Job, Pod, names
from stromboli.api.defaults import MAX_JOB_REPLICAS

from . import disruption_budget, podgroup, queue
from .changes import Change, Objects, Update
from .job import JobController, PodLimits, check_job
from .object_warnings import ObjectWarnings
from .pod_index import PodIndex
from .queue_tree import QueueTree
from .replicaset import ReplicaSetController
from .validator import Validator


class ControllerManager:
    def __init__(
        self,
        *,
        scheduler_name: str = names.DEFAULT_SCHEDULER,
        run_builtin_controllers: bool = True,
        run_job_plugins: bool = False,
        validate: bool = False,
        required_queues: Sequence[str] = (names.DEFAULT_QUEUE,),
        pod_limits: PodLimits | None = None,
        max_job_replicas: int = MAX_JOB_REPLICAS,
    ) -> None:
        """The options say what the environment leaves to us.

        `run_builtin_controllers`: Kubernetes' own controllers are absent, so reconcile ReplicaSets and disruption
        budgets as well.
        `run_job_plugins`: pods really run, so apply the volumes and plugins of Jobs to them.
        `validate`: no admission webhook or CRD rule has validated the objects.
        `required_queues`: queues that are created when they do not exist.
        `pod_limits`: how many pods of Jobs one pass may create and delete; without it, all that are needed.
        `max_job_replicas`: a Job with more replicas is rejected, if we validate.
        """
        self._scheduler_name = scheduler_name
        self._runs_builtin_controllers = run_builtin_controllers
        self._required_queues = tuple(required_queues)
        self._validator = Validator(enabled=validate, check_job=check_job, max_job_replicas=max_job_replicas)
        # A simulation refuses such queues and prints such warnings itself.
        self._queue_tree = QueueTree() if validate else None
        self._warnings = ObjectWarnings(own_queues=self._required_queues) if validate else None
        self._replica_sets = ReplicaSetController()
        self._jobs = JobController(self._validator, run_plugins=run_job_plugins, limits=pod_limits)

    @property
    def unfinished(self) -> bool:
        """Whether the last pass left work for the next one, which should not wait for an event."""
        return self._jobs.unfinished

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        """One pass of every controller. All see the same objects; the next pass sees what this one changed."""
        pods = PodIndex(objects)
        self._validator.start_pass()
        changes: list[Change] = []
        if self._runs_builtin_controllers:
            changes += self._replica_sets.reconcile(objects, pods, now)
            changes += disruption_budget.reconcile(objects, pods)
        changes += self._jobs.reconcile(objects, pods, now)
        changes += podgroup.reconcile(objects, pods, self._validator, now, scheduler_name=self._scheduler_name)
        changes += queue.reconcile(
            objects, self._validator, now, required=self._required_queues, unfit=self._queue_tree
        )
        if self._warnings is not None:
            changes += self._warnings.reconcile(objects)
        return changes

    def change_failed(self, change: Change) -> None:
        """Report a change that could not be made, before the next pass: the event behind it is not handled yet."""
        if isinstance(change, Update) and isinstance(change.object, Job):
            self._jobs.update_failed(change.object)

    def owned_write_failed(self, job: Job, error: str) -> None:
        """Report that an object which a Job owns could not be written: its status says so after the next pass."""
        self._jobs.write_failed(job, error)

    def pod_deleted(self, pod: Pod, now: float, *, evicted: bool) -> None:
        """Report that a pod is evicted, and that its object is gone. The second report of a pod has no effect."""
        if self._runs_builtin_controllers:
            self._replica_sets.pod_deleted(pod, now)
        self._jobs.pod_deleted(pod, now, evicted=evicted)

    def next_due(self, objects: Objects, now: float) -> float | None:
        """When a controller has to act although no object changes; as of the last pass."""
        dues = (self._replica_sets.next_due(now), self._jobs.next_due(now))
        return min((due for due in dues if due is not None), default=None)
