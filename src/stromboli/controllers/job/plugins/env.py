"""`env`: each container gets the index of its pod within the task, as VC_TASK_INDEX (and under its older name)."""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api import Job, Pod
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .containers import with_environment
from .task_lookup import index_of

VARIABLES = ("VC_TASK_INDEX", "VK_TASK_INDEX")


class Env:
    def __init__(self, arguments: Sequence[str]) -> None:
        Flags(arguments, {})

    def check(self, job: Job) -> None:
        pass

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        return ()

    def decorate(self, pod: Pod, job: Job) -> Pod:
        index = str(index_of(pod))
        return with_environment(pod, [{"name": name, "value": index} for name in VARIABLES])
