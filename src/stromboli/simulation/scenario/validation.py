"""Validation of a scenario as a whole.

Each document is valid by itself when it gets here (`reader`). What is left are the rules between documents: one object
of a name at a time, references to objects that exist, and patches. Patches are tried here in the order of time, so that
none can fail during the run because of its own content.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Final

from stromboli.api import (
    ApiError,
    BatchCronJob,
    BatchJob,
    BatchJobSpec,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    JobFlow,
    JobTemplate,
    KObject,
    Node,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    ReplicaSet,
    StatefulSet,
    TaskSpec,
    key,
    names,
)
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts, format_amount
from stromboli.controllers.flow.flow_jobs import flows_of, new_job
from stromboli.simulation.virtual_time import START

from .built_in_objects import SYSTEM_CLASSES, default_queue
from .lifetimes import templates
from .model import Scenario, ScenarioObject, ScenarioPatch
from .patches import apply_patch, patch_sort_key

_Key = tuple[type[KObject], str]


def check_scenario(scenario: Scenario) -> None:
    """Raise UserError unless the scenario can be run."""
    by_key: dict[_Key, list[ScenarioObject]] = defaultdict(list)
    for entry in scenario.objects:
        by_key[type(entry.object), key(entry.object)].append(entry)
    for objects in by_key.values():
        _check_one_at_a_time(objects)
    _check_default_queue(by_key.get((Queue, names.DEFAULT_QUEUE), []))
    _check_names(scenario)
    _check_sums(scenario)
    _check_patches(scenario, by_key)


_MAX_SUM: Final = 1 << 60
"""The limit for the sum of a resource over all nodes, and over all pods: amounts are added up in 64 bits."""


MAX_PODS: Final = 500_000
"""The limit for the pods of a scenario, with those of ReplicaSets and Jobs. More do not fit in memory."""


def _check_sums(scenario: Scenario) -> None:
    offered: dict[str, int] = defaultdict(int)
    requested: dict[str, int] = defaultdict(int)
    pods = 0
    nodes = sum(isinstance(entry.object, Node) for entry in scenario.objects)
    job_templates = {key(one.object): one.object for one in scenario.objects if isinstance(one.object, JobTemplate)}
    for entry in scenario.objects:
        if isinstance(entry.object, Node):
            field, sums, parts = "status.allocatable", offered, [(1, amounts(entry.object.status.allocatable))]
        else:
            field, parts = _requests(entry, nodes, job_templates)
            sums = requested
            pods += sum(count for count, _ in parts)
        if pods > MAX_PODS:
            raise entry.error(field, f"makes the scenario exceed {MAX_PODS} pods, the largest supported number")
        for count, each in parts:
            for resource, amount in each.items():
                sums[resource] += count * amount
                if sums[resource] > _MAX_SUM:
                    most = format_amount(resource, _MAX_SUM)
                    raise entry.error(field, f"makes the sum of {resource} exceed {most}, the largest supported sum")


_Requests = tuple[str, list[tuple[int, dict[str, int]]]]
"""The field that makes pods; how many of one kind there are, and what each of them requests."""


def _requests(entry: ScenarioObject, nodes: int, job_templates: Mapping[str, JobTemplate]) -> _Requests:
    match entry.object:
        case Pod() as pod:
            return "spec.containers", [(1, pod_requests(pod.spec))]
        case ReplicaSet() | StatefulSet() | Deployment() as replicas:
            return "spec.template", [(replicas.spec.replicas, pod_requests(replicas.spec.template.spec))]
        case DaemonSet() as daemons:
            return "spec.template", [(nodes, pod_requests(daemons.spec.template.spec))]
        case BatchJob() as batch:
            return "spec.template", [_largest(batch.spec)]
        case BatchCronJob() as batches:
            return "spec.jobTemplate.spec.template", [_largest(batches.spec.job_template.spec)]
        case Job() as job:
            return "spec.tasks", _of_tasks(job.spec.tasks)
        case CronJob() as cron_job:
            return "spec.jobTemplate.spec.tasks", _of_tasks(cron_job.spec.job_template.spec.tasks)
        case JobFlow() as flow:
            return "spec.flows", _of_tasks(_tasks_of(flow, entry, job_templates))
    return "", []


def _of_tasks(tasks: list[TaskSpec]) -> list[tuple[int, dict[str, int]]]:
    return [(task.replicas, pod_requests(task.template.spec)) for task in tasks]


def _tasks_of(flow: JobFlow, entry: ScenarioObject, templates: Mapping[str, JobTemplate]) -> list[TaskSpec]:
    """Of all Jobs that it creates. Of a template that the scenario does not have nothing is known."""
    tasks: list[TaskSpec] = []
    for one in flows_of(flow):
        template = templates.get(f"{flow.metadata.namespace}/{one.name}")
        if template is not None:
            try:
                tasks += new_job(flow, one, template).spec.tasks
            except ApiError as error:
                raise entry.error("spec.flows", f"{one.name}: its patch makes no valid Job: {error}") from None
    return tasks


def _largest(spec: BatchJobSpec) -> tuple[int, dict[str, int]]:
    """How many pods a Job of batch/v1 has at a time, and what each of them requests."""
    most = spec.parallelism or 0 if spec.completions is None else min(spec.parallelism or 0, spec.completions)
    return most, pod_requests(spec.template.spec)


def _check_one_at_a_time(objects: list[ScenarioObject]) -> None:
    objects.sort(key=lambda entry: entry.lifetime.at)
    for earlier, later in pairwise(objects):
        if earlier.lifetime.overlaps(later.lifetime):
            first = earlier.origin
            raise later.error(
                "metadata.name",
                f"is taken at that time by {first.file}, document {first.number} (same kind and name)",
            )


def _check_default_queue(objects: list[ScenarioObject]) -> None:
    for entry in objects:
        if entry.lifetime.at != START:
            raise entry.error(
                f"metadata.annotations[{names.SIM_AT}]", "must be 0s: this queue always exists; use a Patch"
            )
        if entry.lifetime.until is not None:
            raise entry.error(f"metadata.annotations[{names.SIM_UNTIL}]", "must not be given: this queue always exists")


def _check_names(scenario: Scenario) -> None:
    classes = set(SYSTEM_CLASSES)
    nodes: set[str] = set()
    for entry in scenario.objects:
        match entry.object:
            case PriorityClass():
                classes.add(entry.object.metadata.name)
            case Node():
                nodes.add(entry.object.metadata.name)
            case _:
                pass
    for entry in scenario.objects:
        for field, name in priority_classes(entry.object):
            of_group = field == "spec.priorityClassName" and isinstance(entry.object, PodGroup | Job)
            if name not in classes and not of_group:  # a group has priority 0 then, with a warning
                raise entry.error(field, f'there is no PriorityClass "{name}" in the scenario')
        if isinstance(entry.object, Pod):
            node = entry.object.spec.node_name
            if node and node not in nodes:
                raise entry.error("spec.nodeName", f'there is no Node "{node}" in the scenario')


def priority_classes(obj: KObject) -> Iterator[tuple[str, str]]:
    """The priority classes that an object names, each with the path of its field."""
    match obj:
        case Pod() | PodGroup() | Job():
            if obj.spec.priority_class_name:
                yield "spec.priorityClassName", obj.spec.priority_class_name
        case _:
            pass
    for path, template in templates(obj):
        if template.spec.priority_class_name:
            yield f"{path}.spec.priorityClassName", template.spec.priority_class_name


def _check_patches(scenario: Scenario, by_key: dict[_Key, list[ScenarioObject]]) -> None:
    """Try every patch on the object as the files and earlier patches define it at that time."""
    states: dict[tuple[_Key, int], KObject] = {}
    creators = _creators(scenario)
    for patch in sorted(scenario.patches, key=patch_sort_key):
        object_key = (patch.kind, patch.key)
        objects = by_key.get(object_key, [])
        number = next((n for n, entry in enumerate(objects) if entry.lifetime.covers(patch.at)), None)
        if number is None:
            if object_key == (Queue, names.DEFAULT_QUEUE) and not objects:
                states.setdefault((object_key, 0), default_queue())
                number = 0
            elif _may_be_created(patch, creators):
                continue
            else:
                raise patch.error("target", "there is no such object at that time")
        current = states.get((object_key, number)) or objects[number].object
        try:
            states[object_key, number] = apply_patch(current, patch)
        except ApiError as error:
            inside = f"patch.{error.field}" if error.field else "patch"
            raise patch.error(inside, error.message) from None


def _creators(scenario: Scenario) -> list[KObject]:
    kinds = BatchCronJob | BatchJob | CronJob | JobFlow | Job | DaemonSet | Deployment | ReplicaSet | StatefulSet | Pod
    return [a.object for a in scenario.objects if isinstance(a.object, kinds)]


def _may_be_created(patch: ScenarioPatch, creators: list[KObject]) -> bool:
    """Whether a controller may have created the object by then: pods are named after their owner, groups after their
    Job, Jobs after their CronJob or JobFlow, or after a uid that a scenario cannot know."""
    namespace, _, name = patch.key.partition("/")
    for creator in creators:
        if creator.metadata.namespace != namespace:
            continue
        owned = name.startswith(f"{creator.metadata.name}-")
        if patch.kind is Pod and owned and not isinstance(creator, Pod):
            return True
        if patch.kind is PodGroup and (
            name.startswith("podgroup-") or (owned and isinstance(creator, Job | CronJob | JobFlow))
        ):
            return True
        if patch.kind is Job and owned and isinstance(creator, CronJob | JobFlow):
            return True
        if patch.kind is BatchJob and owned and isinstance(creator, BatchCronJob):
            return True
        if patch.kind is ReplicaSet and owned and isinstance(creator, Deployment):
            return True
    return False
