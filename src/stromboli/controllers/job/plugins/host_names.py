"""The host names of a job's pods: `<pod>.<job>`, unless their template sets hostname or subdomain."""

from __future__ import annotations

from stromboli.api import Job, TaskSpec


def host_names(job: Job, task: TaskSpec) -> list[str]:
    """The host names of a task's pods, without the subdomain. All pods of a template with a hostname share it."""
    if task.template.spec.hostname:
        return [task.template.spec.hostname] if task.replicas else []
    return [f"{job.metadata.name}-{task.name}-{index}" for index in range(task.replicas)]


def subdomain(job: Job, task: TaskSpec) -> str:
    return task.template.spec.subdomain or job.metadata.name


def addresses(job: Job, task: TaskSpec) -> list[str]:
    domain = subdomain(job, task)
    return [f"{name}.{domain}" for name in host_names(job, task)]
