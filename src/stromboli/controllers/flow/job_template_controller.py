"""The JobTemplate controller: it lists which Jobs were made of a template, and says if none can be made."""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from stromboli.api import ApiError, Job, JobTemplate, JobTemplateStatus, KObject, key, names, validate
from stromboli.controllers.changes import Change, Notify, Objects, Update
from stromboli.controllers.work_queue import WorkQueue


class JobTemplateController:
    observes: ClassVar = (JobTemplate, Job)

    def __init__(self, *, scheduler_name: str, validates: bool) -> None:
        """`scheduler_name`: templates of Jobs for others are left alone. `validates`: no rule of an API server has
        validated the objects."""
        self._scheduler_name = scheduler_name
        self._validates = validates
        self._said: dict[str, str] = {}  # by template: the last event
        self._templates = WorkQueue()
        self._jobs: dict[str, set[str]] = {}  # names of Jobs, by the key of their template

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        for version in (before, after):
            if isinstance(version, JobTemplate):
                self._templates.add(key(version))
        if isinstance(before, JobTemplate) and after is None:
            self._said.pop(key(before), None)
        if isinstance(before, Job) and (template := _template_of(before)):
            self._jobs.get(template, set()).discard(before.metadata.name)
            self._templates.add(template)
        if isinstance(after, Job) and (template := _template_of(after)):
            self._jobs.setdefault(template, set()).add(after.metadata.name)
            self._templates.add(template)

    def next_due(self, now: float) -> float | None:
        return self._templates.next_due(now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for template_key in self._templates.take(now):
            template = objects.get(JobTemplate, template_key)
            if template is None or template.spec.scheduler_name != self._scheduler_name:
                continue
            status = JobTemplateStatus(job_depends_on_list=sorted(self._jobs.get(template_key, ())))
            changes += self._judge(template_key, template)
            if status != template.status:
                changes.append(Update(replace(template, status=status)))
                self._templates.add(template_key)
        return changes

    def _judge(self, template_key: str, template: JobTemplate) -> list[Change]:
        """An event if no Job can be made of it, once."""
        error = ""
        if self._validates:
            try:
                validate(template)
            except ApiError as broken:
                error = f"{broken.field}: {broken.message}"
        if self._said.get(template_key, "") == error:
            return []
        self._said[template_key] = error
        return [Notify(template, "Invalid", error, warning=True)] if error else []


def _template_of(job: Job) -> str:
    """The key of its template; "" if it has none. Of another namespace it can have none."""
    namespace, _, name = job.metadata.labels.get(names.CREATED_BY_TEMPLATE, "").partition(".")
    return f"{namespace}/{name}" if name and namespace == job.metadata.namespace else ""
