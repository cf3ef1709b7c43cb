"""`tensorflow`: TF_CONFIG, which tells each process of a distributed job the addresses of all and its own role.

A job of a single pod is not distributed and gets no TF_CONFIG.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from stromboli.api import Job, Pod
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .containers import with_environment
from .host_names import addresses
from .task_lookup import index_of, task_name_of

ROLES = ("ps", "worker", "chief", "evaluator")


class TensorFlow:
    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(arguments, {**{role: role for role in ROLES}, "port": 2222})
        self._roles = {flags.text(role): role for role in ROLES}  # by the name of the task
        self._port = flags.number("port")

    def check(self, job: Job) -> None:
        pass

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        return ()

    def decorate(self, pod: Pod, job: Job) -> Pod:
        if sum(task.replicas for task in job.spec.tasks) == 1:
            return pod
        cluster = {
            self._roles[task.name]: [f"{address}:{self._port}" for address in addresses(job, task)]
            for task in job.spec.tasks
            if task.name in self._roles
        }
        name = task_name_of(pod)
        own_task = {"type": self._roles.get(name, name), "index": index_of(pod)}
        config = msgspec.json.encode({"cluster": cluster, "task": own_task}).decode()
        return with_environment(pod, [{"name": "TF_CONFIG", "value": config}])
