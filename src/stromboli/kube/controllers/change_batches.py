"""Groups the changes of a pass into batches: all that concerns one Job, one Queue, or one group of plain pods.

Batches are independent of each other. Within a batch the order counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from stromboli.api import Command, CronJob, Job, JobFlow, KObject, Pod, PodGroup, group_name_of, key
from stromboli.controllers import Change, Create, EnsureOwned, Notify, Objects
from stromboli.controllers.pod_owners import (
    controlling_reference,
    refers_to_cron_job,
    refers_to_job,
    refers_to_job_flow,
)

BackoffKey = tuple[str, str]


@dataclass(slots=True)
class Batch:
    subject: str
    changes: list[Change] = field(default_factory=list)

    @property
    def object_changes(self) -> list[Change]:
        """Changes of everything but pods; they are written first."""
        return [
            change
            for change in self.changes
            if not isinstance(change, Notify) and not isinstance(change.object, Pod | Command)
        ]

    @property
    def pod_changes(self) -> list[Change]:
        return [change for change in self.changes if not isinstance(change, Notify) and isinstance(change.object, Pod)]

    @property
    def namespace(self) -> str:
        """Of its subject, such as `Job team/train`; the name of a Queue, which nobody has two of."""
        return self.subject.partition(" ")[2].partition("/")[0]

    @property
    def has_command(self) -> bool:
        return any(isinstance(change.object, Command) for change in self.changes)

    def backoff_key(self, change: Change) -> BackoffKey:
        """What must wait when the change fails. All new objects of a kind share a key: they fail for one reason."""
        if isinstance(change, Create):
            return self.subject, f"Create {change.object.kind}"
        if isinstance(change, EnsureOwned):
            return self.provide_key
        return self.subject, f"{type(change).__name__} {change.object.kind} {key(change.object)}"

    @property
    def provide_key(self) -> BackoffKey:
        return self.subject, "EnsureOwned"


def batches(changes: Sequence[Change]) -> list[Batch]:
    """Those that execute a Command come first, then those with fewer pods: a large Job keeps nobody waiting. Namespaces
    go by turns: there may be no time for all, and many Jobs of one must keep nobody waiting, either."""
    by_subject: dict[str, Batch] = {}
    for change in changes:
        subject = _subject(change)
        by_subject.setdefault(subject, Batch(subject)).changes.append(change)
    in_order = sorted(by_subject.values(), key=lambda batch: (not batch.has_command, len(batch.pod_changes)))
    turns: dict[str, int] = {}
    ranked: list[tuple[bool, int, Batch]] = []
    for batch in in_order:
        turn = turns[batch.namespace] = turns.get(batch.namespace, -1) + 1
        ranked.append((not batch.has_command, turn, batch))
    return [batch for _, _, batch in sorted(ranked, key=lambda item: item[:2])]


def _subject(change: Change) -> str:
    obj = change.object
    namespace = obj.metadata.namespace
    if isinstance(obj, Command):
        target = obj.target
        assert target is not None, "a Command without a target is refused, never executed"
        return f"Queue {target.name}" if target.kind == "Queue" else f"Job {namespace}/{target.name}"
    if isinstance(obj, Pod | PodGroup):
        reference = controlling_reference(obj.metadata)
        if reference is not None and refers_to_job(reference):
            return f"Job {namespace}/{reference.name}"
        group = group_name_of(obj) if isinstance(obj, Pod) else obj.metadata.name
        return f"PodGroup {namespace}/{group}"
    return f"{obj.kind} {key(obj)}"


def reported_owner(obj: KObject, objects: Objects) -> Job | CronJob | JobFlow | None:
    """Whom an event about a failed creation is for: the Job that owns the object, the object itself if it is a Job, or
    the CronJob or JobFlow that it would be created by."""
    reference = controlling_reference(obj.metadata)
    if reference is not None and refers_to_cron_job(reference):
        return objects.get(CronJob, f"{obj.metadata.namespace}/{reference.name}")
    if reference is not None and refers_to_job_flow(reference):
        return objects.get(JobFlow, f"{obj.metadata.namespace}/{reference.name}")
    if isinstance(obj, Job):
        return obj
    if reference is None or not refers_to_job(reference):
        return None
    return objects.get(Job, f"{obj.metadata.namespace}/{reference.name}")
