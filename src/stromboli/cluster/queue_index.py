"""Jobs and queues: PodGroups, Queues and PriorityClasses as the scheduler sees them.

A task may name a group, and a group may name a queue, before that object exists. Such a job or queue is created empty,
so that its tasks are counted, and filled when the object arrives. It is dropped when nothing refers to it any more.

A job is over when its group is gone and all its pods have finished. Its pods may stay for long, and there may be many
such jobs, so a queue lists only the others: what walks over the jobs of a queue pays for those that matter.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from typing import TypeVar

from stromboli.api import PodGroup, PriorityClass, is_generated_group, key, names
from stromboli.api import Queue as QueueObject
from stromboli.api.kinds.batch import QueueSpec
from stromboli.api.quantity import amounts
from stromboli.api.upstream import UpstreamGroup

from .ledger import Ledger
from .model import Job, JobKey, Queue, QueueName, Status, Task, group_status
from .object_fields import creation_time
from .object_warnings import ObjectWarning, ObjectWarnings
from .queue_guarantees import full_name, guaranteed_amounts
from .relevance import is_same_but_status
from .resources import PODS, UNLIMITED, ResourceAxis, Vector
from .topology.layout import Closeness, Layout, SubGroupPolicy, layout_of

Sum = TypeVar("Sum", Vector, Counter[str])
Key = TypeVar("Key")
Name = TypeVar("Name", bound=str)


class QueueIndex:
    def __init__(self, axis: ResourceAxis, ledger: Ledger, warnings: ObjectWarnings) -> None:
        self.jobs: dict[JobKey, Job] = {}
        self.queues: dict[QueueName, Queue] = {}
        self.priority_classes: dict[str, PriorityClass] = {}
        self._axis = axis
        self._ledger = ledger
        self._warnings = warnings
        self._with_short_names: set[QueueName] = set()  # whose guarantee has them
        self._priorities_changed = False
        self._default_priority = 0
        self._without_class: dict[JobKey, Job] = {}  # its PriorityClass may still arrive before the next snapshot
        self._over: dict[JobKey, Job] = {}  # jobs that are not among the jobs of their queue
        self._visible_jobs: list[Job] | None = []  # None: to be collected again

    # -- jobs ---------------------------------------------------------------------------------------------------

    def job(self, job_key: JobKey) -> Job:
        job = self.jobs.get(job_key)
        if job is None:
            namespace, _, name = job_key.partition("/")
            queue = self.queue(QueueName(names.DEFAULT_QUEUE))
            job = Job(job_key, name, namespace, queue, self._axis.zeros())
            queue.jobs[job_key] = job
            self.jobs[job_key] = job
        return job

    def apply_group(self, obj: PodGroup) -> None:
        job = self.job(JobKey(key(obj)))
        spec = obj.spec
        was_visible = _is_visible(job)
        before, job.object = job.object, obj
        if before is not None and before.spec is spec and before.metadata.annotations is obj.metadata.annotations:
            self._read_status(job, before)
            return
        job.memo.clear()
        job.created = creation_time(obj)
        job.min_available = spec.min_member
        job.role_minimums = dict(spec.min_task_member)
        job.layout = _layout_of(obj)
        is_generated = is_generated_group(obj)
        job.single_tasks = (is_generated and spec.min_member <= 1) or _is_basic(obj)
        # The pods of a generated group exist already, so nothing has to be promised before they are created.
        has_minimum = bool(spec.min_resources) and not is_generated
        self._read_minimum(job, amounts(spec.min_resources) if has_minimum else None)
        job.goes_whole = obj.metadata.annotations.get(names.GOES_WHOLE, "").lower() == "true"
        self._set_priority(job, obj)
        self._read_status(job, before)
        queue = self.queue(QueueName(spec.queue or names.DEFAULT_QUEUE))
        if queue is not job.queue:
            self._change_queue(job, queue)
        self._show(job, was_visible)

    def _read_minimum(self, job: Job, minimum: dict[str, int] | None) -> None:
        job.min_resources = None if minimum is None else self._axis.vector(minimum)
        job.unoffered = () if minimum is None else self._axis.unoffered(minimum)
        if job.min_resources is not None:
            job.min_resources[PODS] = 0

    def columns_changed(self) -> None:
        """Read what names resources again: some of them became columns, or ceased to be."""
        for job in self.jobs.values():
            if job.min_resources is not None and job.object is not None:
                before = job.unoffered
                self._read_minimum(job, amounts(job.object.spec.min_resources))
                if job.unoffered != before:
                    job.memo.clear()
                    self._ledger.changed_jobs[job.key] = job
        for queue in self.queues.values():
            if queue.object is not None:
                self._read_amounts(queue, queue.object.spec)

    def _read_status(self, job: Job, before: PodGroup | None) -> None:
        obj = job.object
        assert obj is not None
        job.phase = obj.status.phase or "Pending"
        if before is None or group_status(obj) != job.said or not is_same_but_status(before, obj):
            self._ledger.changed_jobs[job.key] = job
        elif job.is_at_rest:  # what the last session decided is written
            self._ledger.unsettled_jobs.pop(job.key, None)

    def delete_group(self, job_key: JobKey) -> None:
        job = self.jobs.get(job_key)
        if job is not None:
            was_visible = _is_visible(job)
            job.object = None
            self._show(job, was_visible)
            self._without_class.pop(job_key, None)
            self._warnings.withdraw("PodGroup", job_key)
            self.drop_if_empty(job)

    def drop_if_empty(self, job: Job) -> None:
        """Forget a job without a PodGroup and without tasks."""
        self._ledger.changed_jobs[job.key] = job
        if job.object is None and not job.tasks:
            del self.jobs[job.key]
            job.queue.jobs.pop(job.key, None)
            self._over.pop(job.key, None)
            self._ledger.forget(job)
            self._drop_if_unused(job.queue)

    def refresh_queues(self, changed: Iterable[Job]) -> None:
        """Put changed jobs among those of their queue, or take them out because they are over."""
        for job in changed:
            if job.is_over:
                self._over[job.key] = job
                job.queue.jobs.pop(job.key, None)
                self._drop_if_unused(job.queue)
            elif self._over.pop(job.key, None) is not None:
                job.queue.jobs[job.key] = job

    def visible_jobs(self) -> list[Job]:
        """The jobs with a PodGroup, in a queue that exists, in the order of their keys."""
        if self._visible_jobs is None:
            self._visible_jobs = sorted((job for job in self.jobs.values() if _is_visible(job)), key=_key)
        return self._visible_jobs

    def active_jobs(self) -> list[Job]:
        """Those of them that are not at rest or have changed, in the order of their keys."""
        return sorted(filter(_is_visible, self._ledger.active_jobs()), key=_key)

    def _show(self, job: Job, was_visible: bool) -> None:
        """Add a job to the visible ones or remove it, if that has changed."""
        is_visible = _is_visible(job)
        if self._visible_jobs is None or is_visible == was_visible:
            return
        if is_visible:
            insort(self._visible_jobs, job, key=_key)
        else:
            del self._visible_jobs[bisect_left(self._visible_jobs, job.key, key=_key)]

    def _change_queue(self, job: Job, queue: Queue) -> None:
        for task in job.tasks.values():
            self._ledger.leave(task)
        old = job.queue
        old.jobs.pop(job.key, None)
        self._over.pop(job.key, None)
        job.queue = queue
        queue.jobs[job.key] = job
        for task in job.tasks.values():
            self._ledger.enter(task)
        self._drop_if_unused(old)

    # -- queues -------------------------------------------------------------------------------------------------

    def queue(self, name: QueueName) -> Queue:
        queue = self.queues.get(name)
        if queue is None:
            queue = self.queues[name] = Queue(name, self._axis.zeros(), self._axis.zeros(), self._axis.zeros())
        return queue

    def apply_queue(self, obj: QueueObject) -> None:
        queue = self.queue(QueueName(obj.metadata.name))
        spec = obj.spec
        if queue.object is None:
            self._visible_jobs = None
        queue.object = obj
        queue.weight = spec.weight or 1
        queue.priority = spec.priority
        queue.created = creation_time(obj)
        queue.reclaimable = spec.reclaimable is not False
        queue.open = obj.status.state in ("", "Open")
        queue.fifo = spec.dequeue_strategy == "fifo"
        queue.parent = spec.parent
        self._read_amounts(queue, spec)

    def _read_amounts(self, queue: Queue, spec: QueueSpec) -> None:
        queue.capability = self._limits(amounts(spec.capability)) if spec.capability else None
        self._read_guarantee(queue, ())
        queue.deserved = self._axis.bounds(amounts(spec.deserved), missing=0) if spec.deserved else None

    def _read_guarantee(self, queue: Queue, offered: Container[str]) -> None:
        assert queue.object is not None
        guarantee = queue.object.spec.guarantee
        wanted = guaranteed_amounts(guarantee, offered)
        queue.guarantee = self._axis.bounds(wanted, missing=0) if guarantee.resource else None
        short = any(full_name(name) != name for name in guarantee.resource)
        (self._with_short_names.add if short else self._with_short_names.discard)(queue.name)

    def refresh_guarantees(self, offers: Callable[[str], bool]) -> None:
        """A short name means the resource of that very name if nodes offer one."""
        for name in sorted(self._with_short_names):
            queue = self.queues.get(name)
            if queue is None or queue.object is None:
                self._with_short_names.discard(name)
            else:
                offered = [resource for resource in queue.object.spec.guarantee.resource if offers(resource)]
                self._read_guarantee(queue, offered)

    def delete_queue(self, name: QueueName) -> None:
        queue = self.queues.get(name)
        if queue is not None:
            queue.object = None
            self._visible_jobs = None
            self._drop_if_unused(queue)

    def existing_queues(self) -> dict[QueueName, Queue]:
        """The queues that have a Queue object, in the order of names."""
        return {name: self.queues[name] for name in sorted(self.queues) if self.queues[name].object is not None}

    def _drop_if_unused(self, queue: Queue) -> None:
        """Forget a deleted queue once no job and no holding counts for it."""
        if queue.object is not None or queue.jobs or self.queues.get(queue.name) is not queue:
            return
        has_holding = any(holding.queue is queue for holding in self._ledger.holdings.values())
        if not has_holding and not any(job.queue is queue for job in self._over.values()):
            del self.queues[queue.name]

    def _limits(self, capability: dict[str, int]) -> Vector:
        """A capability: a resource that is not given, and cpu or memory of 0, have no limit."""
        limits = {name: amount for name, amount in capability.items() if amount > 0 or name not in ("cpu", "memory")}
        return self._axis.bounds(limits, missing=UNLIMITED)

    # -- priorities ---------------------------------------------------------------------------------------------

    def apply_priority_class(self, obj: PriorityClass) -> None:
        self.priority_classes[obj.metadata.name] = obj
        self._classes_changed()

    def delete_priority_class(self, name: str) -> None:
        self.priority_classes.pop(name, None)
        self._classes_changed()

    def _classes_changed(self) -> None:
        self._priorities_changed = True
        defaults = [of_class.value for of_class in self.priority_classes.values() if of_class.global_default]
        self._default_priority = max(defaults, default=0)

    def refresh_priorities(self) -> None:
        """Update the priority of every job if a PriorityClass has changed, and warn about classes that are missing."""
        if self._priorities_changed:
            self._priorities_changed = False
            for job in self.jobs.values():
                if job.object is not None:
                    self._set_priority(job, job.object)
        for job_key, job in self._without_class.items():
            assert job.object is not None
            self._warnings.report(ObjectWarning("PodGroup", job_key, job.object.spec.priority_class_name))
        self._without_class.clear()

    def _set_priority(self, job: Job, group: PodGroup) -> None:
        class_name = group.spec.priority_class_name
        stated = group.priority if isinstance(group, UpstreamGroup) else None
        priority = self._priority(class_name) if stated is None else stated
        job.priority = priority or 0
        job.missing_class = class_name if priority is None and _is_of_a_job(job) else ""
        if priority is None:
            self._without_class[job.key] = job
        else:
            self._without_class.pop(job.key, None)
            self._warnings.withdraw("PodGroup", job.key)

    def priority_of(self, class_name: str) -> int:
        """Of a PriorityClass; "" is the default one. 0 if there is none."""
        return self._priority(class_name) or 0

    def check_class_of_reservation(self, name: str, class_name: str | None) -> None:
        """Warn about a class that its template names and that does not exist."""
        if class_name and class_name not in self.priority_classes:
            self._warnings.report(ObjectWarning("Reservation", name, class_name))
        else:
            self._warnings.withdraw("Reservation", name)

    def preemption_policy_of(self, class_name: str) -> str | None:
        """None if there is no PriorityClass of that name."""
        priority_class = self.priority_classes.get(class_name)
        return None if priority_class is None else priority_class.preemption_policy

    def _priority(self, class_name: str) -> int | None:
        """None if there is no PriorityClass of that name."""
        if class_name:
            priority_class = self.priority_classes.get(class_name)
            return None if priority_class is None else priority_class.value
        return self._default_priority

    # -- width --------------------------------------------------------------------------------------------------

    def widen(self) -> None:
        """Pad all vectors to the width of the axis."""
        pad = self._axis.pad
        for job in self.jobs.values():
            job.allocated = pad(job.allocated)
            if job.min_resources is not None:
                job.min_resources = pad(job.min_resources)
        for queue in self.queues.values():
            queue.allocated = pad(queue.allocated)
            queue.wanted = pad(queue.wanted)
            queue.unused = pad(queue.unused)
            queue.by_namespace = {namespace: pad(amount) for namespace, amount in queue.by_namespace.items()}
            queue.leaving_in = {namespace: pad(amount) for namespace, amount in queue.leaving_in.items()}
            if queue.capability is not None:
                queue.capability = pad(queue.capability, missing=UNLIMITED)
            if queue.guarantee is not None:
                queue.guarantee = pad(queue.guarantee)
            if queue.deserved is not None:
                queue.deserved = pad(queue.deserved)


def with_queues_below(queues: Collection[Queue], amount: Callable[[Queue], Sum]) -> dict[QueueName, Sum]:
    """An amount of each queue that exists, with those of all queues below it: what people see of a tree. The queue
    `root`, if there is one, is above all others."""
    own = {queue.name: amount(queue) for queue in queues if queue.object is not None}
    return add_up(own, {queue.name: QueueName(queue.parent or names.ROOT_QUEUE) for queue in queues})


def add_up(own: Mapping[Name, Sum], parents: Mapping[Name, Name]) -> dict[Name, Sum]:
    """Of each queue its own amount, with those of all below it. Queues that are each other's parents count once."""
    sums = dict(own)
    for name, has in own.items():
        above, seen = parents[name], {name}
        while above in own and above not in seen:
            sums[above] = sums[above] + has
            seen.add(above)
            above = parents[above]
    return sums


def unoffered_use(tasks: Iterable[Task], statuses: Container[Status]) -> Counter[str]:
    """What tasks with these statuses use of resources without a column, which no vector says."""
    return unoffered_by(tasks, statuses, lambda task: "").get("", Counter())


def unoffered_by(
    tasks: Iterable[Task], statuses: Container[Status], key: Callable[[Task], Key]
) -> dict[Key, Counter[str]]:
    """`unoffered_use` of several, by a key of tasks."""
    use: dict[Key, Counter[str]] = {}
    for task in tasks:
        if task.shape.unoffered and task.status in statuses:
            use.setdefault(key(task), Counter()).update(dict(task.shape.unoffered))
    return use


def _is_visible(job: Job) -> bool:
    return job.object is not None and job.queue.object is not None


def _key(job: Job) -> JobKey:
    return job.key


def _layout_of(group: PodGroup) -> Layout | None:
    if not isinstance(group, UpstreamGroup):
        return layout_of(group.spec)
    label = group.topology_key
    policies = tuple(
        SubGroupPolicy(
            name=part.title, keys=(), size=None, least=int(part.needed), groups=part.groups,
            closeness=Closeness(hard=True, label_key=part.topology_key) if part.topology_key else None,
        )
        for part in group.parts
    )  # fmt: skip
    if not label and not policies:
        return None
    return Layout(Closeness(hard=True, label_key=label) if label else None, policies)


def _is_basic(group: PodGroup) -> bool:
    """Whether each of its pods starts on its own, and nobody asked that they start together."""
    return isinstance(group, UpstreamGroup) and not group.is_composite and group.is_basic


def _is_of_a_job(job: Job) -> bool:
    """Whether its pods are made by the controller of a Job, with the class of the Job."""
    owners = [] if job.object is None else job.object.metadata.owner_references
    return any(owner.controller and owner.kind == "Job" for owner in owners)
