"""The objects that make up a job, and the same job submitted again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from stromboli.api import (
    Job,
    JobStatus,
    KObject,
    ObjectMeta,
    Pod,
    PodGroup,
    PodGroupStatus,
    PodSpec,
    PodStatus,
    PodTemplateSpec,
    group_name_of,
    is_generated_group,
    key,
    names,
)
from stromboli.api.upstream import UpstreamGroup
from stromboli.insight import JobPicture

SpecChange = Callable[[PodSpec], PodSpec]


@dataclass(frozen=True, slots=True)
class Target:
    """`job` is the Job that the user created, if it is one."""

    name: str
    job: Job | None
    group: PodGroup | None
    pods: list[Pod]

    @property
    def waiting(self) -> list[Pod]:
        return [pod for pod in self.pods if not pod.spec.node_name and pod.status.phase in ("", "Pending")]

    @property
    def can_be_resubmitted(self) -> bool:
        """Nothing of it has started, and its user wrote all of it."""
        plain = self.job is not None or all(not pod.metadata.owner_references for pod in self.pods)
        return plain and len(self.waiting) == len(self.pods) and bool(self.job or self.pods)

    @property
    def specs(self) -> list[PodSpec]:
        """Of its waiting pods, or of those that it will have."""
        found = [pod.spec for pod in self.waiting]
        if not found and self.job is not None:
            found = [task.template.spec for task in self.job.spec.tasks]
        return found

    @property
    def minimum_field(self) -> str:
        """The field that says how many of its pods must start together; "" if none does."""
        if self.job is not None:
            return "minAvailable"
        if isinstance(self.group, UpstreamGroup):
            return "" if self.group.is_composite else "minCount"
        return "" if self.group is None else "minMember"

    def keys(self) -> set[tuple[str, str]]:
        objects: list[KObject] = [*([self.job] if self.job else []), *([self.group] if self.group else []), *self.pods]
        return {(obj.kind, key(obj)) for obj in objects}

    def without(self, objects: Sequence[KObject]) -> list[KObject]:
        """All objects but those of the job."""
        mine = self.keys()
        return [obj for obj in objects if (obj.kind, key(obj)) not in mine]

    def resubmitted(self, change: SpecChange, *, queue: str = "") -> list[KObject]:
        """What its user would submit with these pods, and in another queue if one is given."""
        if self.job is not None:
            tasks = [replace(task, template=_changed(task.template, change)) for task in self.job.spec.tasks]
            spec = replace(self.job.spec, tasks=tasks, queue=queue or self.job.spec.queue)
            return [replace(self.job, metadata=_fresh(self.job.metadata), spec=spec, status=JobStatus())]
        found: list[KObject] = []
        generated = self.group is None or is_generated_group(self.group)
        if self.group is not None and not generated:
            group = replace(self.group.spec, queue=queue or self.group.spec.queue)
            found.append(replace(self.group, metadata=_fresh(self.group.metadata), spec=group, status=PodGroupStatus()))
        for pod in self.pods:
            meta = _fresh(pod.metadata)
            if generated:
                kept = {name: value for name, value in meta.annotations.items() if name not in names.GROUP_NAMES}
                if queue:
                    kept[names.QUEUE_NAME] = queue
                meta = replace(meta, annotations=kept)
            found.append(replace(pod, metadata=meta, spec=change(pod.spec), status=PodStatus()))
        return found


def target_of(objects: Sequence[KObject], picture: JobPicture) -> Target:
    job = group = None
    pods = []
    for obj in objects:
        match obj:
            case Job() if picture.kind == "Job" and key(obj) == picture.name:
                job = obj
            case PodGroup() if key(obj) == picture.group:
                group = obj
            case Pod() if picture.group and f"{obj.metadata.namespace}/{group_name_of(obj)}" == picture.group:
                pods.append(obj)
            case _:
                pass
    return Target(picture.name, job, group, pods)


def _changed(template: PodTemplateSpec, change: SpecChange) -> PodTemplateSpec:
    return replace(template, spec=change(template.spec))


def _fresh(meta: ObjectMeta) -> ObjectMeta:
    return ObjectMeta(
        name=meta.name, namespace=meta.namespace, labels=meta.labels, annotations=meta.annotations,
        owner_references=[owner for owner in meta.owner_references if not owner.controller],
    )  # fmt: skip
