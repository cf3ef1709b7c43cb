"""The sub-groups of a job: which of its tasks belong together, by the policies of its group.

They follow from the labels of its pods. Nothing about them is stored, so they are right after any restart.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from stromboli.api.selectors import matches_labels

from .layout import SubGroupPolicy

if TYPE_CHECKING:
    from ..model import Job, Task, TaskKey

Values = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class SubGroup:
    policy: SubGroupPolicy
    values: Values  # of the policy's keys
    tasks: tuple[Task, ...]  # in the order of their indices, all of them: also those that end or have ended
    members: int  # those of them that count: their pods neither have failed nor terminate

    @property
    def name(self) -> str:
        return "/".join((self.policy.name, *self.values))

    @property
    def size(self) -> int:
        """How many tasks make it whole."""
        return self.members if self.policy.size is None else self.policy.size

    @property
    def is_too_large(self) -> bool:
        return self.members > self.size

    def __repr__(self) -> str:
        return f"<SubGroup {self.name}: {self.members}/{self.size}>"


@dataclass(frozen=True, eq=False)
class SubGroups:
    all: tuple[SubGroup, ...]  # in the order of the policies, then of the values
    of_task: dict[TaskKey, SubGroup]
    loose: tuple[Task, ...]  # of no policy: they count only in the minimum of the group
    refused: dict[TaskKey, str]  # must not start, and why: tasks of several policies, or of a sub-group too large
    reported: dict[TaskKey, str]  # those of the loose ones that probably should not be, and why they are
    incomplete: frozenset[TaskKey] = frozenset()  # those of the refused ones whose PodGroup has too few pods

    def of_policy(self, policy: SubGroupPolicy) -> list[SubGroup]:
        return self._of_policy.get(id(policy), [])

    @cached_property
    def _of_policy(self) -> dict[int, list[SubGroup]]:
        """There may be as many policies as pods."""
        found: dict[int, list[SubGroup]] = {}
        for one in self.all:
            found.setdefault(id(one.policy), []).append(one)
        return found


NO_SUB_GROUPS = SubGroups((), {}, (), {}, {})
_KEPT = object()


def sub_groups(job: Job) -> SubGroups:
    """Kept until a pod of the job or its group changes."""
    if job.layout is None or not job.layout.policies:
        return NO_SUB_GROUPS
    known: SubGroups | None = job.memo.get(_KEPT)
    if known is None:
        known = job.memo[_KEPT] = _divide(job, job.layout.policies)
    return known


def _divide(job: Job, policies: tuple[SubGroupPolicy, ...]) -> SubGroups:
    found: dict[tuple[int, Values], list[Task]] = {}
    loose: list[Task] = []
    refused: dict[TaskKey, str] = {}
    reported: dict[TaskKey, str] = {}
    of_groups = _by_group(policies)
    for task in sorted(job.tasks.values(), key=lambda task: (task.index, task.created, task.key)):
        selecting = _selecting(policies, of_groups, task)
        complete = [number for number in selecting if _missing(policies[number], task) is None]
        if len(complete) == 1:
            (number,) = complete
            found.setdefault((number, _values(policies[number], task)), []).append(task)
        elif complete:
            refused[task.key] = _of_several([_shown(policies[number], number) for number in complete])
        else:
            loose.append(task)
            why = next((_without_label(policies[number], number, task) for number in selecting), "")
            if why:
                reported[task.key] = why
    incomplete = _incomplete(policies, found)
    groups = tuple(
        _sub_group(policies[number], values, _least(policies[number], found[number, values], loose))
        for number, values in _ordered(found)
    )
    for group in groups:
        if group.is_too_large:
            refused.update(dict.fromkeys((task.key for task in group.tasks), _too_large(group)))
    of_task = {task.key: group for group in groups for task in group.tasks}
    return SubGroups(groups, of_task, tuple(loose), refused | incomplete, reported, frozenset(incomplete))


def _incomplete(
    policies: tuple[SubGroupPolicy, ...], found: dict[tuple[int, Values], list[Task]]
) -> dict[TaskKey, str]:
    """Pods that wait for others of their PodGroup to be created, and why. They are taken out of what was found."""
    why: dict[TaskKey, str] = {}
    for number, values in list(found):
        if not policies[number].groups:
            continue
        tasks = found[number, values]
        have = Counter(_group_of(task) for task in tasks if _counts(task))
        least = dict(policies[number].groups)
        for task in tasks:
            name = _group_of(task)
            if have[name] < least[name] and not task.pod.spec.node_name:
                why[task.key] = _too_few(name, least[name], have[name])
        found[number, values] = [task for task in tasks if task.key not in why]
        if not found[number, values]:
            del found[number, values]
    return why


def _least(policy: SubGroupPolicy, tasks: list[Task], loose: list[Task]) -> list[Task]:
    """Those of these tasks that make the sub-group; the rest becomes loose. Where it does not matter where pods of a
    sub-group run, more than make it whole are welcome, one by one: operators write the minimum of a role as its size.
    Those that have a node go first, so that the sub-group stays whole while others come and go."""
    counted = [task for task in tasks if _counts(task)]
    if policy.closeness is not None or policy.size is None or len(counted) <= policy.size:
        return tasks
    ordered = sorted(counted, key=lambda task: (not task.pod.spec.node_name, task.index, task.created, task.key))
    more = {task.key for task in ordered[policy.size :]}
    loose += [task for task in tasks if task.key in more]
    return [task for task in tasks if task.key not in more]


def _by_group(policies: tuple[SubGroupPolicy, ...]) -> dict[str, list[int]] | None:
    """Which policies are about each PodGroup of a composite one; None if they select pods by their labels. There may be
    as many as pods."""
    if not any(policy.groups for policy in policies):
        return None
    found: dict[str, list[int]] = {}
    for number, policy in enumerate(policies):
        for name, _ in policy.groups:
            found.setdefault(name, []).append(number)
    return found


def _selecting(policies: tuple[SubGroupPolicy, ...], of_groups: dict[str, list[int]] | None, task: Task) -> list[int]:
    """The policies that select a pod."""
    if of_groups is not None:
        return of_groups.get(_group_of(task), [])
    labels = task.pod.metadata.labels
    return [
        number
        for number, policy in enumerate(policies)
        if policy.selector is None or matches_labels(policy.selector, labels)
    ]


def _group_of(task: Task) -> str:
    """The PodGroup of scheduling.k8s.io that it is in; "" for none."""
    group = task.pod.spec.scheduling_group
    return "" if group is None else group.pod_group_name


def _missing(policy: SubGroupPolicy, task: Task) -> str | None:
    """The first of the policy's keys for which the pod has no value."""
    return next((key for key in policy.keys if not task.pod.metadata.labels.get(key)), None)


def _values(policy: SubGroupPolicy, task: Task) -> Values:
    return tuple(task.pod.metadata.labels[key] for key in policy.keys)


def _ordered(found: dict[tuple[int, Values], list[Task]]) -> list[tuple[int, Values]]:
    """By policy, then by values: numbers by their amount, before other values."""
    return sorted(found, key=lambda one: (one[0], [_place(value) for value in one[1]]))


def _place(value: str) -> tuple[bool, int, str]:
    is_number = value.isascii() and value.isdigit()
    return (not is_number, int(value) if is_number else 0, value)


def _sub_group(policy: SubGroupPolicy, values: Values, tasks: list[Task]) -> SubGroup:
    return SubGroup(policy, values, tuple(tasks), sum(_counts(task) for task in tasks))


def _counts(task: Task) -> bool:
    """By its pod alone: what a session decides must not change what a sub-group is."""
    return task.pod.metadata.deletion_timestamp is None and task.pod.status.phase != "Failed"


def _shown(policy: SubGroupPolicy, number: int) -> str:
    return f'"{policy.name}"' if policy.name else f"number {number + 1}"


def _of_several(policies: list[str]) -> str:
    return (
        f"The pod is selected by the sub-group policies {' and '.join(policies)}. A pod can be in one sub-group only: "
        "change the labels of the pod, or the selectors of the policies."
    )


def _without_label(policy: SubGroupPolicy, number: int, task: Task) -> str:
    """ "" for a policy that selects pods by nothing but their keys: others are no business of it."""
    if policy.selector is None:
        return ""
    return (
        f"The sub-group policy {_shown(policy, number)} selects the pod, but the pod has no value of the label "
        f"{_missing(policy, task)}, so it is in no sub-group. Set that label on the pod."
    )


def _too_few(group: str, least: int, have: int) -> str:
    return f"PodGroup {group} needs {least} pods to start, and has {have}. Create the others, or lower minCount."


def _too_large(group: SubGroup) -> str:
    return (
        f'The sub-group "{group.name}" has {group.members} pods, but its policy makes sub-groups of {group.size}. '
        "Remove pods, or raise subGroupSize."
    )
