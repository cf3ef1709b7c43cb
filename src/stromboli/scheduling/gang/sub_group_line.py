"""Which sub-groups of a job come next, and what they lack.

Those that have lost pods come before those that have not started. A sub-group is tried only if all the pods that it
lacks are there and wait.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from stromboli.cluster import OCCUPYING, Job, Status, Task
from stromboli.cluster.topology import SubGroup, SubGroupPolicy, sub_groups

PLACED = OCCUPYING | {Status.PIPELINED, Status.CONDITIONAL}
"""Statuses of tasks that have a place of any kind."""
STARTED = OCCUPYING | {Status.SUCCEEDED}


def placed_rows(tasks: Iterable[Task]) -> list[int]:
    """Where those of some tasks are that have a place."""
    return [task.node.row for task in tasks if task.status in PLACED and task.node is not None]


def missing_members(group: SubGroup) -> int:
    """How many pods a sub-group lacks to be whole."""
    return max(0, group.size - sum(task.status in PLACED or task.status is Status.SUCCEEDED for task in group.tasks))


class WaitingTasks:
    """Some tasks of a job, by their sub-groups, of which there may be as many as tasks."""

    def __init__(self, job: Job, tasks: Iterable[Task]) -> None:
        self._of_group: dict[SubGroup | None, list[Task]] = {}
        of_task = sub_groups(job).of_task
        if not of_task:
            self._of_group[None] = [*tasks]
            return
        for task in tasks:
            self._of_group.setdefault(of_task.get(task.key), []).append(task)

    @property
    def groups(self) -> list[SubGroup]:
        """In the order of their first tasks."""
        return [group for group in self._of_group if group is not None]

    def of(self, group: SubGroup | None) -> list[Task]:
        """Those in a sub-group, or in none, in their order."""
        return self._of_group.get(group, [])


def waiting_members(group: SubGroup, tasks: WaitingTasks) -> list[Task]:
    """Those of these tasks that are in the sub-group and have no place, in their order."""
    return [task for task in tasks.of(group) if task.status not in PLACED]


def lacking_groups(job: Job, policy: SubGroupPolicy) -> int:
    """How many more sub-groups of a policy must be whole before the job can start."""
    if not policy.least:
        return 0
    return max(0, policy.least - sum(not missing_members(group) for group in sub_groups(job).of_policy(policy)))


def next_groups(job: Job, policy: SubGroupPolicy, tasks: WaitingTasks) -> list[SubGroup]:
    """The sub-groups of a policy that could become whole with these tasks, in the order in which they are tried."""
    found = [
        group
        for group in sub_groups(job).of_policy(policy)
        if 0 < missing_members(group) <= len(waiting_members(group, tasks))
    ]
    return sorted(found, key=lambda group: missing_members(group) == group.size)


def needed_groups(job: Job, tasks: WaitingTasks) -> list[SubGroup]:
    """The next sub-groups without which the job cannot start."""
    if job.layout is None:
        return []
    return [
        group
        for policy in job.layout.policies
        if (lacking := lacking_groups(job, policy))
        for group in next_groups(job, policy, tasks)[:lacking]
    ]


def is_whole(group: SubGroup, counted: Collection[Status]) -> bool:
    return sum(task.status in counted for task in group.tasks) >= max(1, group.size)


def can_spare(job: Job, group: SubGroup) -> bool:
    """Whether a job can go on without a sub-group that is whole."""
    if not is_whole(group, STARTED):
        return False
    if job.ready_count - sum(task.status in STARTED for task in group.tasks) < job.min_available:
        return False
    return group.policy.least == 0 or whole_groups(job, group.policy) > group.policy.least


def whole_groups(job: Job, policy: SubGroupPolicy, without: Collection[Task] = ()) -> int:
    """How many sub-groups of a policy run whole. `without`: as if these tasks were gone."""
    gone = {task.key for task in without}
    return sum(
        is_whole(group, STARTED) and not any(task.key in gone for task in group.tasks)
        for group in sub_groups(job).of_policy(policy)
    )
