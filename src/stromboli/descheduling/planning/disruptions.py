"""Gangs and disruption budgets, with everything that is planned so far counted as gone.

Moves of one plan may be carried out at the same time, so each counts as if the pod were gone until its successor runs:
a gang stays at its minimum, and a budget is not exceeded, whatever the order.
"""

from __future__ import annotations

from collections import Counter

from stromboli.api import PodDisruptionBudget
from stromboli.api.generated_groups import is_generated_group
from stromboli.api.migration_reservations import controlling_owner
from stromboli.api.selectors import matches_labels
from stromboli.cluster import Job, Status, Task
from stromboli.cluster.topology import sub_groups
from stromboli.grammar import plural
from stromboli.scheduling.gang import STARTED, Shortage, is_whole, shortage, whole_groups

from .planned_cluster import View

_RUNS = (Status.BOUND, Status.RUNNING)
_OVER = (Status.SUCCEEDED, Status.FAILED)


class Disruptions:
    def __init__(self, view: View) -> None:
        self._view = view
        self._of_job: Counter[str] = Counter()
        self._of_role: Counter[tuple[str, str]] = Counter()
        self._of_budget: Counter[str] = Counter()
        self._of_sub_group: Counter[tuple[str, str]] = Counter()
        self._budgets: dict[str, list[tuple[str, PodDisruptionBudget]]] = {}
        for key, budget in sorted(view.session.budgets.items()):
            self._budgets.setdefault(budget.metadata.namespace, []).append((key, budget))
        for node in view.nodes.nodes if view.moving_uids else ():
            for task in node.tasks.values():
                if task.uid in view.moving_uids and task.status in _RUNS:
                    self.add(task)

    def refusal(self, task: Task) -> str | None:
        """Why this pod must not leave as well; None if it may."""
        job = task.job
        if job is not None and (why := self._breaks(job, task)):
            return why
        if job is not None and is_gang(job):
            short = shortage(
                job.min_available,
                job.role_minimums,
                left=_running(job) - self._of_job[job.key] - 1,
                left_of=lambda role: _running_in_role(job, role) - self._of_role[job.key, role] - 1,
                leaving=[task.role],
            )
            if short is not None:
                return shortage_clause(job.key, short)
        for key, budget in self.budgets_of(task):
            if self._of_budget[key] >= budget.status.disruptions_allowed:
                return f"its PodDisruptionBudget {key} allows {budget.status.disruptions_allowed} disruptions"
        return None

    def _breaks(self, job: Job, task: Task) -> str:
        """What must not happen to a part of a group, or of a sub-group; "" if nothing does."""
        if job.goes_whole and _running(job) > 1:
            return f"all pods of its group {job.key} go if one does"
        group = sub_groups(job).of_task.get(task.key)
        if group is None or not is_whole(group, STARTED):
            return ""
        others = (one for one in sub_groups(job).of_policy(group.policy) if one is not group)
        left = whole_groups(job, group.policy) - 1
        left -= sum(self._of_sub_group[job.key, one.name] > 0 for one in others)
        if left >= group.policy.least:
            return ""
        return f"its group {job.key} would have {plural(left, 'whole sub-group')}, and needs {group.policy.least}"

    def budgets_of(self, task: Task) -> list[tuple[str, PodDisruptionBudget]]:
        return [
            (key, budget)
            for key, budget in self._budgets.get(task.namespace, ())
            if task.name not in budget.status.disrupted_pods
            and matches_labels(budget.spec.selector, task.pod.metadata.labels)
        ]

    def add(self, task: Task) -> None:
        self._count(task, 1)

    def remove(self, task: Task) -> None:
        self._count(task, -1)

    def _count(self, task: Task, change: int) -> None:
        if task.job is not None:
            self._of_job[task.job.key] += change
            self._of_role[task.job.key, task.role] += change
            group = sub_groups(task.job).of_task.get(task.key)
            if group is not None:
                self._of_sub_group[task.job.key, group.name] += change
        for key, _ in self.budgets_of(task):
            self._of_budget[key] += change


def shortage_clause(gang: str, short: Shortage) -> str:
    of_task = f' of task "{short.role}"' if short.role else ""
    return f"its gang {gang} would have {plural(short.have, 'pod')}{of_task}, and needs {short.need}"


def unavailable(job: Job) -> int:
    """How many pods of a group do not serve now: those that wait for a node, start, are not ready, or terminate. The
    successor of a pod is counted instead of it where both may exist at the same time: in a ReplicaSet."""
    return sum(_is_unavailable(task) for task in job.tasks.values())


def _is_unavailable(task: Task) -> bool:
    if task.status is Status.RELEASING:
        owner = controlling_owner(task.pod)
        return owner is not None and owner.kind != "ReplicaSet"
    return task.status not in _OVER and (task.status is not Status.RUNNING or _is_unready(task))


def _is_unready(task: Task) -> bool:
    return any(each.type == "Ready" and each.status == "False" for each in task.pod.status.conditions)


def is_gang(job: Job) -> bool:
    """Groups that were generated for plain pods and their owners are no gangs."""
    return job.object is not None and not is_generated_group(job.object)


def _running(job: Job) -> int:
    counts = job.counts
    return counts[Status.BOUND] + counts[Status.RUNNING] + counts[Status.SUCCEEDED]


def _running_in_role(job: Job, role: str) -> int:
    counts = job.role_counts.get(role)
    return 0 if counts is None else counts[Status.BOUND] + counts[Status.RUNNING] + counts[Status.SUCCEEDED]
