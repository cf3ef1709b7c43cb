"""The groups of `scheduling.k8s.io`, and which job each of them is.

A group on its own is a job. The groups of a composite are one job as far as they must start together (`trees`). What
depends on pods or on several groups is found out before a snapshot, for what has changed since the last one:

    the queue       the group's, else its pods', else the namespace's; chosen when the group has its first pods
    disagreements   the group is not considered, and its pods have the reason

Nothing of this is stored but the queue, which the scheduler writes into the status of the group. Everything else
follows from the objects, also after a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from stromboli.api import Pod, key, names
from stromboli.api.upstream import SUFFIX, UpstreamGroup, plain_name

from ..model import OCCUPYING, JobKey, NamespaceInfo, Status, Task, TaskKey
from ..queue_index import QueueIndex
from .agreement import disagreement, queues_of
from .trees import Members, Plan, Trouble, plans_of

_PLACED = OCCUPYING | {Status.SUCCEEDED}
_GONE = frozenset({Status.RELEASING, Status.FAILED, Status.UNKNOWN})
_Pods = dict[JobKey, dict[TaskKey, Pod]]


@dataclass(frozen=True, slots=True)
class RefusedGroup:
    """A group that is not considered, and why."""

    object: UpstreamGroup
    trouble: Trouble
    why: str


class UpstreamIndex:
    def __init__(
        self, jobs: QueueIndex, tasks: Mapping[TaskKey, Task], namespaces: Mapping[str, NamespaceInfo]
    ) -> None:
        self.groups: dict[JobKey, UpstreamGroup] = {}
        self.refused: dict[JobKey, RefusedGroup] = {}
        self.plans: dict[JobKey, Plan] = {}  # of composites, by the keys of their groups
        # Looks again which job a task is in.
        self.regroup: Callable[[Task], None] = lambda task: None
        self._jobs = jobs
        self._tasks = tasks
        self._namespaces = namespaces
        self._changed: dict[JobKey, None] = {}  # keys of groups to look at again
        self._pods: _Pods = {}  # of each group, also before it exists
        self._others: _Pods = {}  # those of other schedulers, which are no tasks
        self._in_trees = 0

    # -- in -----------------------------------------------------------------------------------------------------

    def apply(self, group: UpstreamGroup) -> None:
        group_key = JobKey(key(group))
        before = self.groups.get(group_key)
        if before is not None:
            self._in_trees -= _is_in_tree(before)
            if before.metadata.uid == group.metadata.uid and before.spec.queue and self._pods.get(group_key):
                group = _in_queue(group, before.spec.queue)  # it was chosen, whatever the annotation says now
        self.groups[group_key] = group
        self._in_trees += _is_in_tree(group)
        self._changed[group_key] = None
        if not _is_in_tree(group) and group_key not in self.refused:
            self._jobs.apply_group(group)

    def delete(self, group_key: JobKey) -> None:
        group = self.groups.pop(group_key, None)
        if group is not None:
            self._in_trees -= _is_in_tree(group)
            self.refused.pop(group_key, None)
            self._jobs.delete_group(group_key)
            self._changed[group_key] = None

    def pod_changed(self, pod: Pod, *, ours: bool) -> None:
        """`ours`: it is a task now."""
        group_key = _group_key(pod)
        if group_key is None:
            return
        pod_key = TaskKey(key(pod))
        mine, other = (self._pods, self._others) if ours else (self._others, self._pods)
        mine.setdefault(group_key, {})[pod_key] = pod
        _drop(other, group_key, pod_key)
        self._changed[group_key] = None

    def pod_deleted(self, pod: Pod) -> None:
        group_key = _group_key(pod)
        if group_key is not None:
            _drop(self._pods, group_key, TaskKey(key(pod)))
            _drop(self._others, group_key, TaskKey(key(pod)))
            self._changed[group_key] = None

    def namespace_changed(self, namespace: str) -> None:
        self._changed |= dict.fromkeys(group for group in self.groups if group.startswith(f"{namespace}/"))

    def job_of(self, group_key: JobKey) -> JobKey:
        """The job that the pods of a group are in."""
        plan = self.plans.get(group_key)
        return group_key if plan is None else plan.job

    # -- before a snapshot ----------------------------------------------------------------------------------------

    def refresh(self) -> None:
        """Bring the jobs up to date with what has changed since the last call."""
        if not self._changed:
            return
        changed, self._changed = self._changed, {}
        if self._in_trees or self.plans:
            self._plan_trees({group_key.partition("/")[0] for group_key in changed})
        for group_key in sorted(changed):
            group = self.groups.get(group_key)
            if group is not None and group_key not in self.plans:
                self._show(group_key, group, [group_key], "", "")

    def _plan_trees(self, namespaces: Collection[str]) -> None:
        """Those in these namespaces: no tree reaches beyond one."""
        groups = {name: group for name, group in self.groups.items() if group.metadata.namespace in namespaces}
        before = {name: plan for name, plan in self.plans.items() if plan.top.metadata.namespace in namespaces}
        after = plans_of(groups, self.members)
        self.plans = {name: plan for name, plan in self.plans.items() if name not in before} | after
        for group_key in sorted(before.keys() | after.keys()):
            for task in self._tasks_of(group_key):
                if task.job is None or task.job.key != self.job_of(group_key):
                    self.regroup(task)
        jobs = {plan.job: plan for _, plan in sorted(after.items())}
        for job_key in sorted({plan.job for plan in before.values()} - jobs.keys()):
            self.refused.pop(job_key, None)
            self._jobs.delete_group(job_key)
        queues = _queues_of_trees(after, groups)
        for plan in jobs.values():
            if plan.leaves or plan.trouble:  # otherwise its groups are on their own
                group = _in_queue(plan.top, queues.get(plan.root, ""))
                self._show(plan.job, _with_roles(plan, group), [*plan.leaves, *plan.others], plan.trouble, plan.why)

    def _show(self, job_key: JobKey, group: UpstreamGroup, members: list[JobKey], trouble: Trouble, why: str) -> None:
        """Show the job as this group, in its queue; or hide it, if something is wrong with it."""
        pods = [task.pod for member in members for task in self._tasks_of(member)]
        if not trouble:
            others = [pod for member in members for _, pod in sorted(self._others.get(member, {}).items())]
            kind = group.original.kind
            why = disagreement(
                f"{kind} {plain_name(job_key)}", pods, others, priority=group.priority, queue=group.spec.queue
            )
            trouble = "invalid" if why else ""
        if trouble:
            self.refused[job_key] = RefusedGroup(group, trouble, why)
            self._jobs.delete_group(job_key)
            return
        self.refused.pop(job_key, None)
        if pods:
            group = _in_queue(group, self._queue_of(group, pods))
        self.groups[job_key] = _in_queue(self.groups[job_key], group.spec.queue)
        job = self._jobs.jobs.get(job_key)
        if job is None or job.object != group:
            self._jobs.apply_group(group)

    def _queue_of(self, group: UpstreamGroup, pods: Iterable[Pod]) -> str:
        named = group.spec.queue or next(iter(queues_of(pods)), "")
        if named not in ("", names.DEFAULT_QUEUE):
            return named
        namespace = self._namespaces.get(group.metadata.namespace)
        return (namespace.queue if namespace is not None else "") or names.DEFAULT_QUEUE

    def _tasks_of(self, group_key: JobKey) -> list[Task]:
        return [self._tasks[pod] for pod in sorted(self._pods.get(group_key, ())) if pod in self._tasks]

    def members(self, group_key: JobKey) -> Members:
        statuses = [task.true_status for task in self._tasks_of(group_key)]
        return Members(sum(one in _PLACED for one in statuses), sum(one not in _GONE for one in statuses))


def _with_roles(plan: Plan, group: UpstreamGroup) -> UpstreamGroup:
    """Each group of a composite's job is a role of it, by its name."""
    if not group.is_composite:
        return group
    roles = {leaf.original.metadata.name: leaf.least for leaf in plan.leaves.values()}
    notes = group.metadata.annotations | ({names.GOES_WHOLE: "true"} if plan.goes_whole else {})
    return replace(
        group,
        metadata=replace(group.metadata, annotations=notes),
        spec=replace(group.spec, min_member=plan.least, min_task_member=roles),
        parts=tuple(plan.parts),
    )


def _queues_of_trees(plans: Mapping[JobKey, Plan], groups: Mapping[JobKey, UpstreamGroup]) -> dict[JobKey, str]:
    """By the composite above all: its queue, else that of another composite, else that of a group."""
    found: dict[JobKey, str] = {}
    for group_key, plan in sorted(plans.items(), key=lambda one: (not groups[one[0]].is_composite, one[0])):
        queue = groups[group_key].spec.queue
        if queue and (plan.root not in found or group_key == plan.root):
            found[plan.root] = queue
    return found


def _in_queue(group: UpstreamGroup, queue: str) -> UpstreamGroup:
    return group if group.spec.queue == queue else replace(group, spec=replace(group.spec, queue=queue))


def _is_in_tree(group: UpstreamGroup) -> bool:
    return group.is_composite or bool(group.parent)


def _group_key(pod: Pod) -> JobKey | None:
    group = pod.spec.scheduling_group
    return None if group is None else JobKey(f"{pod.metadata.namespace}/{group.pod_group_name}{SUFFIX}")


def _drop(pods: _Pods, group_key: JobKey, pod_key: TaskKey) -> None:
    of_group = pods.get(group_key)
    if of_group is not None:
        of_group.pop(pod_key, None)
        if not of_group:
            del pods[group_key]
