"""The cluster as a plan changes it: moves take effect at once, tentatively, and can be undone.

The view is a session of the scheduler, opened with the scheduler's own configuration on the descheduler's own copy of
the cluster. Where a pod could go is what the scheduler's filters say, with every move so far counted. Nothing is
written: the next snapshot of the copy reverts all of it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from stromboli.api import LabelSelector, names
from stromboli.api.migration_reservations import Migration, migration_of
from stromboli.api.selectors import matches_labels
from stromboli.cluster import OCCUPYING, Job, JobKey, Node, Status, Task
from stromboli.scheduling.gang import domain_to_stay_in
from stromboli.scheduling.session import Session

from .anomalies import Anomalies
from .cooldowns import Cooldowns
from .failed_plans import Circumstances
from .plan import Move
from .plan_objects import Objects
from .real_use import RealUse, requested

Mask = npt.NDArray[np.bool_]

_CRITICAL = "critical"


class View:
    def __init__(
        self,
        session: Session,
        objects: Objects,
        *,
        real_use: RealUse = requested,
        node_selector: LabelSelector | None = None,
        scheduler_name: str = "",
        anomalies: Anomalies | None = None,
    ) -> None:
        """`scheduler_name`: only pods of this scheduler are moved; "": of any. `anomalies`: as earlier runs left
        them."""
        self.anomalies = Anomalies() if anomalies is None else anomalies
        self.scheduler_name = scheduler_name
        self.session = session
        self.nodes = session.nodes
        self.objects = objects
        self.circumstances = Circumstances(objects, session.now)
        self.now = session.now
        self.real_use = real_use
        self.cooldowns = Cooldowns(session.now)
        found = (migration_of(reservation) for reservation in session.snapshot.reservations.values())
        self.migrations: list[Migration] = [migration for migration in found if migration is not None]
        self.moving_groups = {migration.group for migration in self.migrations}
        self.moving_uids = {migration.uid for migration in self.migrations}
        self._trail: list[tuple[Task, Status, Node | None]] = []
        self._selected = self._selected_rows(node_selector)
        self._at_rest = self._rows_at_rest()

    def _selected_rows(self, selector: LabelSelector | None) -> Mask:
        if selector is None:
            return np.ones(len(self.nodes), dtype=np.bool_)
        return np.array([matches_labels(selector, node.labels) for node in self.nodes.nodes], dtype=np.bool_)

    def _rows_at_rest(self) -> Mask:
        busy = {name for migration in self.migrations for name in (migration.source, migration.target)}
        return np.array(
            [node.name not in busy and not self.cooldowns.rests(node) for node in self.nodes.nodes], dtype=np.bool_
        )

    # -- nodes --------------------------------------------------------------------------------------------------

    @property
    def quiet(self) -> Mask:
        """Nodes that take part in no move and rest from none."""
        return self._at_rest & self._selected

    @property
    def sources(self) -> Mask:
        """Nodes that pods may leave. A cordoned node may be emptied; one that is not ready is left alone."""
        shielded = np.array([_is_shielded(node) for node in self.nodes.nodes], dtype=np.bool_)
        return self.quiet & self.nodes.ready & ~shielded

    @property
    def targets(self) -> Mask:
        return self.quiet & self.nodes.ready & self.nodes.schedulable

    def column_sum(self, matrix: np.ndarray, resources: Iterable[str]) -> npt.NDArray[np.float64]:
        """By row: the sum over these resources."""
        columns = [self.session.axis.index[name] for name in resources if name in self.session.axis.index]
        if not columns:
            return np.zeros(len(self.nodes), dtype=np.float64)
        return np.asarray(matrix[:, columns].sum(axis=1), dtype=np.float64)

    def utilization(self, resources: Iterable[str]) -> npt.NDArray[np.float64]:
        """Requests in percent of what nodes offer; NaN for nodes that offer nothing of it."""
        wanted = list(resources)
        offered = self.column_sum(self.nodes.allocatable, wanted)
        used = self.column_sum(self.nodes.used, wanted)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(offered > 0, 100.0 * used / offered, np.nan))

    def tasks_on(self, node: Node) -> list[Task]:
        """Tasks that occupy the node, apart from those that belong to it: static pods and those of DaemonSets."""
        found = [task for task in node.tasks.values() if _occupies(task) and not belongs_to_node(task)]
        return sorted(found, key=lambda task: task.key)

    def finished_tasks(self) -> list[Task]:
        """Tasks that have succeeded or failed, and whose pods are still there."""
        over = (Status.SUCCEEDED, Status.FAILED)
        found = [task for job in self.session.jobs for task in job.tasks.values() if task.status in over]
        return sorted(found, key=lambda task: task.key)

    # -- moves --------------------------------------------------------------------------------------------------

    def rows_for(self, task: Task) -> Mask:
        """Nodes that have room for the task now, pass the scheduler's filters, and are as close to the others of its
        group as it must be. The pod itself still counts where it runs: its successor's place is chosen before it
        leaves."""
        room = self.session.placement.room_now(task.job)
        with self.session.inside(domain_to_stay_in(self.session, task)):
            fitting = self.session.placement.fitting(task)
            return np.asarray(fitting.mask & fitting.has_room(room) & self.nodes.ready & self.nodes.schedulable)

    def move(self, task: Task, node: Node) -> bool:
        """Let a task run on another node. False, and nothing changed, if it would be too far from the others of its
        group, or the filters object once it has left."""
        home = domain_to_stay_in(self.session, task)
        if home is not None and not home.mask[node.row]:
            return False
        was = (task, task.status, task.node)
        if self.session.placement.fitting(task).depends_on_neighbours:
            self.session.ledger.move(task, Status.PENDING, None)
            if not self.session.placement.fitting(task).mask[node.row]:
                self.session.ledger.move(*was)
                return False
        self.session.ledger.move(task, Status.RUNNING, node)
        self._trail.append(was)
        return True

    def place(self, task: Task, node: Node) -> None:
        """Let a waiting task have room on a node."""
        self._trail.append((task, task.status, task.node))
        self.session.ledger.move(task, Status.ALLOCATED, node)

    @property
    def mark(self) -> int:
        """A point to return to."""
        return len(self._trail)

    def undo(self, mark: int) -> None:
        while len(self._trail) > mark:
            self.session.ledger.move(*self._trail.pop())

    def as_move(self, task: Task, source: Node, target: Node) -> Move:
        return Move(task.key, task.uid, source.name, target.name, self.session.amounts(task.request))

    # -- groups -------------------------------------------------------------------------------------------------

    def group_moves(self, job: Job | None) -> bool:
        """Whether pods of the group are being moved."""
        return job is not None and str(job.key) in self.moving_groups

    def job(self, key: JobKey) -> Job | None:
        """The group of this name, or that of an owner of this name: a Job, a ReplicaSet, or a pod of its own. If there
        are several, one that waits."""
        found = [job for job in self.session.jobs if job.key == key or _is_owned_by(job, key)]
        return min(found, key=lambda job: (job.key != key, not job.pending_count, job.key), default=None)


def _occupies(task: Task) -> bool:
    return task.status in OCCUPYING or task.status in (Status.RELEASING, Status.UNKNOWN)


def _is_owned_by(job: Job, key: JobKey) -> bool:
    owners = () if job.object is None else job.object.metadata.owner_references
    return any(f"{job.namespace}/{owner.name}" == key for owner in owners)


def belongs_to_node(task: Task) -> bool:
    meta = task.pod.metadata
    return names.MIRROR in meta.annotations or any(owner.kind == "DaemonSet" for owner in meta.owner_references)


def _is_shielded(node: Node) -> bool:
    """Nodes with the label `critical=true`, and those of the control plane, are never emptied."""
    return node.labels.get(_CRITICAL) == "true" or any(label in node.labels for label in names.CONTROL_PLANE)
