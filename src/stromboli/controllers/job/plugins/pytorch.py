"""`pytorch`: the environment variables that `torch.distributed` reads.

MASTER_ADDR, MASTER_PORT   the address of the first pod of the master's task
WORLD_SIZE                 the number of pods of both tasks
RANK                       0 for the master, and from 1 on for workers
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api import Job, Pod
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .containers import with_environment
from .host_names import addresses
from .task_lookup import check_tasks, index_of, task_name_of, task_named


class PyTorch:
    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(arguments, {"master": "master", "worker": "worker", "port": 23456})
        self._master = flags.text("master")
        self._worker = flags.text("worker")
        self._port = flags.number("port")

    def check(self, job: Job) -> None:
        check_tasks(job, "pytorch", master=self._master)

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        return ()

    def decorate(self, pod: Pod, job: Job) -> Pod:
        master = task_named(job, self._master)
        assert master is not None, "validation rejects a job without a master"
        variables = {
            "MASTER_ADDR": next(iter(addresses(job, master)), ""),
            "MASTER_PORT": str(self._port),
            "WORLD_SIZE": str(sum(t.replicas for t in job.spec.tasks if t.name in (self._master, self._worker))),
        }
        task = task_name_of(pod)
        if task == self._master:
            variables["RANK"] = str(index_of(pod))
        elif task == self._worker:
            variables["RANK"] = str(index_of(pod) + master.replicas)
        return with_environment(pod, [{"name": name, "value": value} for name, value in variables.items()])
