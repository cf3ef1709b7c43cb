"""What keeps objects true: controllers without input or output of their own.

`Controllers` is all of them behind one door. A world hands in its objects and the time, carries out the
changes it gets back, and asks again until there are none; it says when a pod has gone; and it may ask when
something will next be due, so that virtual time can jump there. What a controller remembers between two
passes can be lost at any moment: `Controllers()` again is a restart.
"""

from __future__ import annotations

from stromboli.api import Pod, names
from stromboli.api.groups import is_generated

from . import budget, podgroup, queue
from .changes import Change, Create, Delete, Notify, Objects, Update
from .job import JobController
from .owners import PodIndex
from .replicaset import ReplicaSetController


class Controllers:
    def __init__(self, *, scheduler_name: str = names.DEFAULT_SCHEDULER) -> None:
        self._scheduler_name = scheduler_name
        self._replica_sets = ReplicaSetController()
        self._jobs = JobController()

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        """One pass of every controller. All see the same objects; what one changes, the next pass sees."""
        pods = PodIndex(objects)
        changes = self._replica_sets.reconcile(objects, pods, now)
        changes += self._jobs.reconcile(objects, pods, now)
        changes += podgroup.reconcile(objects, pods, scheduler_name=self._scheduler_name)
        changes += queue.reconcile(objects)
        changes += budget.reconcile(objects, pods)
        return changes

    def pod_gone(self, pod: Pod, now: float, *, evicted: bool) -> None:
        """Call it when a pod is evicted and when its object goes; the second time says nothing new."""
        self._replica_sets.pod_gone(pod, now)
        self._jobs.pod_gone(pod, now, evicted=evicted)

    def next_due(self, objects: Objects, now: float) -> float | None:
        """When there will be something to do although nothing happens; as of the last pass."""
        dues = (self._replica_sets.next_due(now), self._jobs.next_due(now))
        return min((due for due in dues if due is not None), default=None)


__all__ = ["Change", "Controllers", "Create", "Delete", "Notify", "Objects", "Update", "is_generated"]
