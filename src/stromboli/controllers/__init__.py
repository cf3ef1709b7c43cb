"""What keeps objects true: controllers without input or output of their own.

`Controllers` is all of them behind one door. A world hands in its objects and the time, carries out the
changes it gets back, and asks again until there are none; it says when a pod has gone; and it may ask when
something will next be due, so that virtual time can jump there. What a controller remembers between two
passes can be lost at any moment: `Controllers()` again is a restart.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api import Job, Pod, names
from stromboli.api.generated_groups import is_generated
from stromboli.controllers.job.controller import JobController

from . import budget, podgroup, queue
from .changes import Belonging, Change, Create, Delete, Notify, Objects, Provide, Update
from .pod_owners import PodIndex
from .refusals import Refusals
from .replicaset import ReplicaSetController


class Controllers:
    def __init__(
        self,
        *,
        scheduler_name: str = names.DEFAULT_SCHEDULER,
        stand_in: bool = True,
        furnish_jobs: bool = False,
        check: bool = False,
        always: Sequence[str] = (names.DEFAULT_QUEUE,),
    ) -> None:
        """What a world leaves to us differs.

        `stand_in`: Kubernetes' own controllers are not there, so keep ReplicaSets and disruption budgets for them.
        `furnish_jobs`: pods really run, so give those of Jobs what the job's volumes and plugins say.
        `check`: nobody has checked the objects before.
        `always`: queues that are made when they are not there.
        """
        self._scheduler_name = scheduler_name
        self._stands_in = stand_in
        self._always = tuple(always)
        self._refusals = Refusals(checks=check)
        self._replica_sets = ReplicaSetController()
        self._jobs = JobController(self._refusals, furnishes=furnish_jobs)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        """One pass of every controller. All see the same objects; what one changes, the next pass sees."""
        pods = PodIndex(objects)
        self._refusals.start_pass()
        changes: list[Change] = []
        if self._stands_in:
            changes += self._replica_sets.reconcile(objects, pods, now)
            changes += budget.reconcile(objects, pods)
        changes += self._jobs.reconcile(objects, pods, now)
        changes += podgroup.reconcile(objects, pods, self._refusals, now, scheduler_name=self._scheduler_name)
        changes += queue.reconcile(objects, self._refusals, now, always=self._always)
        return changes

    def undone(self, change: Change) -> None:
        """Call it before the next pass for a change that could not be made: what led to it is not over."""
        if isinstance(change, Update) and isinstance(change.object, Job):
            self._jobs.undone(change.object)

    def pod_gone(self, pod: Pod, now: float, *, evicted: bool) -> None:
        """Call it when a pod is evicted and when its object goes; the second time says nothing new."""
        if self._stands_in:
            self._replica_sets.pod_gone(pod, now)
        self._jobs.pod_gone(pod, now, evicted=evicted)

    def next_due(self, objects: Objects, now: float) -> float | None:
        """When there will be something to do although nothing happens; as of the last pass."""
        dues = (self._replica_sets.next_due(now), self._jobs.next_due(now))
        return min((due for due in dues if due is not None), default=None)


__all__ = [
    "Belonging",
    "Change",
    "Controllers",
    "Create",
    "Delete",
    "Notify",
    "Objects",
    "Provide",
    "Update",
    "is_generated",
]
