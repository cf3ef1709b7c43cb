"""All controllers behind one interface.

A caller passes its objects and the time to `reconcile`, applies the changes it gets back, and calls again until there
are none. In between it reports

    every object that was created, changed or deleted       `observe`
    deleted pods, with the circumstances of the deletion    `pod_deleted`
    changes that could not be made                          `change_failed`, `owned_write_failed`
    what pods answered that it wanted to be asked           `probe_answered`

and it may ask when something is due next, so that virtual time can jump there. A pass visits what has changed since the
last one and what is due (see work_queue), so a pass in which nothing happened costs nothing, however large the cluster
is. The first pass reads and visits everything.

Whatever a controller remembers between two passes may be lost at any time: a new `ControllerManager` is a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from stromboli.api import CronJob, Job, JobTemplate, KObject, Pod, PodGroup, Queue, key, names
from stromboli.api.validation.limits import MAX_JOB_REPLICAS
from stromboli.cluster import Applied, Deleted

from .changes import Change, Objects, Probe, Update
from .cron import KUBERNETES, VOLCANO, CronJobController
from .disruption_budget import DisruptionBudgetController
from .flow import JobFlowController, JobTemplateController
from .hyper_nodes import HyperNodeController, HyperNodeDiscovery
from .job import JobController, PodLimits, check_job
from .object_warnings import ObjectWarnings
from .pod_index import PodIndex
from .podgroup import PodGroupController
from .queue import QueueController
from .queue_locks import QueueLocks
from .queue_tree import QueueTree
from .reservations import DEFAULT_RETENTION, ReservationController
from .validator import Validator
from .volume_provisioner import VolumeProvisioner
from .workloads import Surroundings, WorkloadControllers

Observer = Callable[[KObject | None, KObject | None], None]


class Controller(Protocol):
    """A controller as the manager runs it."""

    @property
    def observes(self) -> Sequence[type[KObject]]:
        """The kinds whose changes it has to know. Commands are none: they exist for a moment and are read in every
        pass."""
        ...

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        """An object was created (`before` is None), changed, or deleted (`after` is None). The controller notes whom to
        visit; it reads other objects in the next pass only, when all of them are up to date."""
        ...

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        """Visit what has changed or is due. A visit that returns changes is repeated in the next pass."""
        ...

    def next_due(self, now: float) -> float | None:
        """The first time after `now` at which it has to act although no object changes."""
        ...


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
        queue_locks: QueueLocks | None = None,
        reservation_retention: float = DEFAULT_RETENTION,
        provision_volumes: bool = False,
        topology_keys: Sequence[str] = (),
    ) -> None:
        """The options say what the environment leaves to us.

        `run_builtin_controllers`: Kubernetes' own controllers are absent, so reconcile workloads and disruption
        budgets as well.
        `run_job_plugins`: pods really run, so apply the volumes and plugins of Jobs to them.
        `validate`: no admission webhook or CRD rule has validated the objects.
        `required_queues`: queues that are created when they do not exist.
        `pod_limits`: how many pods of Jobs one pass may create and delete; without it, all that are needed.
        `max_job_replicas`: a Job with more replicas is rejected, if we validate.
        `provision_volumes`: nobody else makes volumes, binds claims and creates the claims of ephemeral volumes.
        `queue_locks`: locks nodes for queues; without it, the locks in the status of queues stay as they are.
        `reservation_retention`: after how many seconds Reservations that have ended are deleted; 0 means never.
        `topology_keys`: labels of nodes, from the widest to the narrowest, of which HyperNodes are made; none without.
        """
        self._pods = PodIndex()
        self._queue_locks = queue_locks
        self._validator = Validator(enabled=validate, check_job=check_job, max_job_replicas=max_job_replicas)
        self._jobs = JobController(self._pods, self._validator, run_plugins=run_job_plugins, limits=pod_limits)
        self._groups = PodGroupController(
            self._pods, self._validator, scheduler_name=scheduler_name,
            visits=None if pod_limits is None else pod_limits.visits,
        )  # fmt: skip
        self._flows = JobFlowController(self._pods, scheduler_name=scheduler_name, validates=validate)
        self._controllers: list[Controller] = [
            self._jobs,
            self._groups,
            QueueController(
                self._validator,
                required=tuple(required_queues),
                unfit=QueueTree() if validate else None,
                locks=queue_locks,
            ),
            ReservationController(retention=reservation_retention, validates=validate),
            HyperNodeController(),
            CronJobController(VOLCANO, validates=validate),
            self._flows,
            JobTemplateController(scheduler_name=scheduler_name, validates=validate),
        ]
        if topology_keys:
            self._controllers.append(HyperNodeDiscovery(topology_keys))
        if validate:  # a simulation refuses such queues and prints such warnings itself
            self._controllers.append(ObjectWarnings(own_queues=tuple(required_queues)))
        if run_builtin_controllers:
            self._controllers[:0] = [WorkloadControllers(Surroundings()), DisruptionBudgetController(self._pods)]
            self._controllers.append(CronJobController(KUBERNETES, validates=validate))
        if provision_volumes:
            self._controllers.append(VolumeProvisioner())
        self._observers: dict[type[KObject], list[Observer]] = {
            Job: [self._validator.observe],
            PodGroup: [self._validator.observe],
            Queue: [self._validator.observe],
            Pod: [self._pods.observe],
        }
        for controller in self._controllers:
            for kind in controller.observes:
                self._observers.setdefault(kind, []).append(controller.observe)
        self._seen: dict[type[KObject], dict[str, KObject]] = {}  # the observed objects
        self._has_started = False

    @property
    def unfinished(self) -> bool:
        """Whether the last pass left work for the next one, which should not wait for an event."""
        return self._jobs.unfinished or self._groups.unfinished

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        """One pass of every controller. All see the same objects; the next pass sees what this one changed."""
        if not self._has_started:
            self._has_started = True
            for kind in self._observers:
                for obj in objects.list(kind):
                    self.observe(Applied(obj))
        changes: list[Change] = []
        for controller in self._controllers:
            changes += controller.reconcile(objects, now)
        return changes

    def observe(self, event: Applied | Deleted) -> None:
        """Report that an object which `reconcile` reads was created, changed or deleted."""
        if not self._has_started:
            return  # the first pass reads everything
        obj = event.object
        # Those of an API server are of classes derived from these.
        kind = next((kind for kind in (Job, CronJob, JobTemplate) if isinstance(obj, kind)), type(obj))
        observers = self._observers.get(kind)
        if observers is None:
            return
        seen = self._seen.setdefault(kind, {})
        obj_key = key(obj)
        before = seen.get(obj_key)
        after = None
        if isinstance(event, Applied):
            after = seen[obj_key] = obj
        elif seen.pop(obj_key, None) is None:
            return
        if isinstance(before, Pod) and isinstance(after, Pod) and _is_same_to_controllers(before, after):
            self._pods.observe(before, after)
            return
        for observe in observers:
            observe(before, after)

    def change_failed(self, change: Change) -> None:
        """Report a change that could not be made, before the next pass: the event behind it is not handled yet."""
        if isinstance(change, Update) and isinstance(change.object, Job):
            self._jobs.update_failed(change.object)

    def owned_write_failed(self, job: Job, error: str) -> None:
        """Report that an object which a Job owns could not be written: its status says so after the next pass."""
        self._jobs.write_failed(job, error)

    def probe_answered(self, probe: Probe, now: float, *, answered: bool) -> None:
        """Report what became of a `Probe`."""
        self._flows.probe_answered(probe, answered=answered, now=now)

    def pod_deleted(self, pod: Pod, now: float, *, evicted: bool) -> None:
        """Report that a pod is evicted, and that its object is gone. The second report of a pod has no effect."""
        self._jobs.pod_deleted(pod, now, evicted=evicted)

    def next_due(self, now: float) -> float | None:
        """When a controller has to act although no object changes; as of the last pass."""
        dues = (controller.next_due(now) for controller in self._controllers)
        return min((due for due in dues if due is not None), default=None)

    def time_limit(self) -> float | None:
        """When a controller may decide differently because something has not happened for long."""
        return None if self._queue_locks is None else self._queue_locks.time_limit()


def _is_same_to_controllers(before: Pod, after: Pod) -> bool:
    """Whether only what no controller reads has changed. The scheduler says in the conditions of every waiting pod why
    it waits, again and again."""
    old, new = before.metadata, after.metadata
    was, now = before.status, after.status
    return (
        (old.uid, old.labels, old.annotations) == (new.uid, new.labels, new.annotations)
        and old.deletion_timestamp == new.deletion_timestamp
        and (old.owner_references, old.finalizers) == (new.owner_references, new.finalizers)
        and (was.phase, was.reason) == (now.phase, now.reason)
        and was.nominated_node_name == now.nominated_node_name
        and was.container_statuses == now.container_statuses
        and was.init_container_statuses == now.init_container_statuses
        and before.spec == after.spec
    )
