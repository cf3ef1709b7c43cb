"""`mpi`: the master's pods learn in MPI_HOST where `mpirun` finds the workers. How it gets in there is for `ssh`."""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.api import Job, Pod
from stromboli.controllers.changes import Belonging

from .arguments import Flags
from .containers import with_environment
from .host_names import addresses
from .task_lookup import check_tasks, task_name_of, task_named


class Mpi:
    def __init__(self, arguments: Sequence[str]) -> None:
        # A port need not be opened to be reached, so it is read and not used.
        flags = Flags(arguments, {"master": "master", "worker": "worker", "port": 22})
        self._master = flags.text("master")
        self._worker = flags.text("worker")

    def check(self, job: Job) -> None:
        check_tasks(job, "mpi", master=self._master, worker=self._worker)

    def belongings(self, job: Job) -> Sequence[Belonging]:
        return ()

    def dress(self, pod: Pod, job: Job) -> Pod:
        workers = task_named(job, self._worker)
        assert workers is not None, "a job without workers was refused"
        if task_name_of(pod) != self._master:
            return pod
        return with_environment(pod, [{"name": "MPI_HOST", "value": ",".join(addresses(job, workers))}])
