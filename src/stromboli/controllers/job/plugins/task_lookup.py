"""The task and index of a pod, and the tasks that a plugin needs."""

from __future__ import annotations

from stromboli.api import ApiError, Job, Pod, TaskSpec, names


def task_name_of(pod: Pod) -> str:
    return pod.metadata.annotations[names.TASK_SPEC]


def index_of(pod: Pod) -> int:
    return int(pod.metadata.annotations[names.TASK_INDEX])


def task_named(job: Job, name: str) -> TaskSpec | None:
    return next((task for task in job.spec.tasks if task.name == name), None)


def check_tasks(job: Job, plugin: str, **roles: str) -> None:
    """Raise an ApiError for a task that the job lacks. `roles` are the names of tasks, by the flag that sets them."""
    for flag, name in roles.items():
        if task_named(job, name) is None:
            raise ApiError(f"spec.plugins.{plugin}", f"needs a task named {name}; set another name with --{flag}")
