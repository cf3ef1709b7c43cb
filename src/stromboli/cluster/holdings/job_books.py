"""What jobs and queues have, as a part of the ledger: how many tasks in which status, and their requests.

Only the ledger calls this, together with what it writes to the columns of nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.cluster.model import Job, JobKey, Status, Task, TaskKey
from stromboli.cluster.resources import ResourceAxis, Vector

from .holding_books import HoldingBooks

_PENDING = Status.PENDING


class JobBooks(HoldingBooks):
    def __init__(self, axis: ResourceAxis) -> None:
        super().__init__(axis)
        # Jobs that changed since the outcome of all was last recorded, and jobs that were not at rest then.
        self.changed_jobs: dict[JobKey, Job] = {}
        self.unsettled_jobs: dict[JobKey, Job] = {}
        # Their tasks in the order of the changes, tentative and permanent. Read like the log of rows.
        self.task_log: list[Task] = []
        # Tasks of jobs that terminate on a node.
        self.releasing: dict[TaskKey, Task] = {}

    def active_jobs(self) -> list[Job]:
        """All jobs but those that were at rest when the outcome was recorded, and did not change since."""
        return list({**self.unsettled_jobs, **self.changed_jobs}.values())

    def all_recorded(self) -> None:
        """The outcome of all jobs is recorded."""
        self.unsettled_jobs = {job.key: job for job in self.active_jobs() if not job.is_at_rest}
        self.changed_jobs.clear()

    def forget(self, job: Job) -> None:
        """The job no longer exists."""
        self.changed_jobs.pop(job.key, None)
        self.unsettled_jobs.pop(job.key, None)

    # -- the ledger's own -----------------------------------------------------------------------------------------

    def _add_share(self, job: Job, amount: Vector, sign: int) -> None:
        queue = job.queue
        self.queue_log.append(queue)
        inside = queue.by_namespace.get(job.namespace)
        if inside is None:
            inside = queue.by_namespace[job.namespace] = self.axis.zeros()
        if sign > 0:
            job.allocated += amount
            queue.allocated += amount
            inside += amount
        else:
            job.allocated -= amount
            queue.allocated -= amount
            inside -= amount

    def _add_leaving(self, task: Task, job: Job, sign: int) -> None:
        inside = job.queue.leaving_in.setdefault(job.namespace, self.axis.zeros())
        inside += sign * task.shape.request
        if sign > 0:
            self.releasing[task.key] = task
        else:
            del self.releasing[task.key]
            if not inside.any():
                del job.queue.leaving_in[job.namespace]

    def _count(self, task: Task, change: int) -> None:
        job = task.job
        if job is None:
            return
        self.changed_jobs[job.key] = job
        self.task_log.append(task)
        status = task.status
        job.counts[status] += change
        is_pending_best_effort = status is _PENDING and task.shape.best_effort
        if is_pending_best_effort:
            job.pending_best_effort += change
        if task.gated and status is _PENDING:
            job.gated += change
        # Tasks without a role count under "": `minTaskMember` may have a minimum for them, too.
        counts = job.role_counts.get(task.role)
        if counts is None:
            counts = job.role_counts[task.role] = [0] * len(Status)
        counts[status] += change
        if is_pending_best_effort:
            before = job.role_pending_best_effort.get(task.role, 0)
            job.role_pending_best_effort[task.role] = before + change

    def _set_status(self, task: Task, status: Status) -> None:
        """Change the status of a task, and nothing but the counts of its job with it."""
        old, job = task.status, task.job
        if _PENDING in (old, status) and (task.shape.best_effort or task.gated):
            self._count(task, -1)
            task.status = status
            self._count(task, +1)
            return
        task.status = status
        if job is not None:
            self.changed_jobs[job.key] = job
            self.task_log.append(task)
            for counts in (job.counts, job.role_counts[task.role]):
                counts[old] -= 1
                counts[status] += 1

    def _set_status_of_many(self, tasks: Sequence[Task], status: Status) -> None:
        """`_set_status` for tasks of one job and one status."""
        first = tasks[0]
        old, job = first.status, first.job
        assert job is not None
        if _PENDING in (old, status) and any(task.shape.best_effort or task.gated for task in tasks):
            for task in tasks:
                self._set_status(task, status)
            return
        by_role: dict[str, int] = {}
        for task in tasks:
            task.status = status
            by_role[task.role] = by_role.get(task.role, 0) + 1
        self.changed_jobs[job.key] = job
        self.task_log.extend(tasks)
        job.counts[old] -= len(tasks)
        job.counts[status] += len(tasks)
        for role, number in by_role.items():
            counts = job.role_counts[role]
            counts[old] -= number
            counts[status] += number
