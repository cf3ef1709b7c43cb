"""`pytorch`: the environment variables that `torch.distributed` reads.

MASTER_ADDR, MASTER_PORT   the address of the first pod of the master's task
WORLD_SIZE                 the number of pods of both tasks
RANK                       0 for the master, and from 1 on for workers

With --wait-master-enabled, workers start when the port of the master is open.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from stromboli.api import Container, Job, Pod
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .containers import with_environment
from .host_names import addresses
from .task_lookup import check_tasks, index_of, task_name_of, task_named

WAITING: Final = "wait-for-master"


class PyTorch:
    def __init__(self, arguments: Sequence[str]) -> None:
        flags = Flags(
            arguments,
            {
                "master": "master", "worker": "worker", "port": 23456, "wait-master-enabled": False,
                "wait-master-timeout": 300, "wait-master-image": "busybox:1.36.1",
            },
        )  # fmt: skip
        self._master = flags.text("master")
        self._worker = flags.text("worker")
        self._port = flags.number("port")
        self._waits = flags.switch("wait-master-enabled")
        self._patience = flags.number("wait-master-timeout")
        self._image = flags.text("wait-master-image")

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
        pod = with_environment(pod, [{"name": name, "value": value} for name, value in variables.items()])
        if self._waits and task == self._worker:
            return self._waiting(pod, variables["MASTER_ADDR"])
        return pod

    def _waiting(self, pod: Pod, master: str) -> Pod:
        """With a container that ends when the port of the master is open. It comes after those of the user."""
        if any(container.name == WAITING for container in pod.spec.init_containers):
            return pod
        ask = f"nc -z {master} {self._port}"
        give_up = f"echo 'the master {master}:{self._port} has not answered for {self._patience} s'; exit 1"
        script = f"n=0; until {ask}; do [ $n -lt {self._patience} ] || {{ {give_up}; }}; n=$((n+2)); sleep 2; done"
        waiting = Container(name=WAITING, image=self._image, command=["sh", "-c", script])
        spec = replace(pod.spec, init_containers=[*pod.spec.init_containers, waiting])
        changed: Pod = replace(pod, spec=spec)
        return changed
