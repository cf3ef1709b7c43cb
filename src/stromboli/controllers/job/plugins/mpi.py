"""`mpi`: the master's pods get the addresses of the workers for `mpirun` in MPI_HOST. The plugin `ssh` gives access."""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api import Job, Pod
from stromboli.controllers.changes import OwnedObject

from .arguments import Flags
from .containers import with_environment
from .host_names import addresses
from .task_lookup import check_tasks, task_name_of, task_named


class Mpi:
    def __init__(self, arguments: Sequence[str]) -> None:
        # A container port need not be declared to be reachable, so the port is accepted and not used.
        flags = Flags(arguments, {"master": "master", "worker": "worker", "port": 22})
        self._master = flags.text("master")
        self._worker = flags.text("worker")

    def check(self, job: Job) -> None:
        check_tasks(job, "mpi", master=self._master, worker=self._worker)

    def owned_objects(self, job: Job) -> Sequence[OwnedObject]:
        return ()

    def decorate(self, pod: Pod, job: Job) -> Pod:
        workers = task_named(job, self._worker)
        assert workers is not None, "validation rejects a job without workers"
        if task_name_of(pod) != self._master:
            return pod
        return with_environment(pod, [{"name": "MPI_HOST", "value": ",".join(addresses(job, workers))}])
