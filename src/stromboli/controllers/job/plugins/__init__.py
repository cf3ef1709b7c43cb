"""What a Job's pods get besides their template, because `spec.plugins` asks for it.

Each plugin is a small module: what the job must own for it (`belongings`), and what its pods must carry (`dress`). The
names, the arguments and what they lead to are Volcano's, so that images and scripts made for it find what they expect.
"""

from __future__ import annotations

from collections.abc import Callable

from stromboli.api import ApiError, Job

from .env import Env
from .mpi import Mpi
from .plugin import JobPlugin
from .pytorch import PyTorch
from .ssh import Ssh
from .svc import Svc
from .tensorflow import TensorFlow

PLUGINS: dict[str, Callable[[list[str]], JobPlugin]] = {
    "env": Env,
    "mpi": Mpi,
    "pytorch": PyTorch,
    "ssh": Ssh,
    "svc": Svc,
    "tensorflow": TensorFlow,
}

_BRINGS = {"mpi": ("ssh", "svc"), "pytorch": ("svc",), "tensorflow": ("svc",)}
"""What a plugin is of no use without."""


def plugins_of(job: Job) -> dict[str, JobPlugin]:
    """The plugins a job asks for, by name; ApiError for one that is not there or cannot be told what it is told."""
    wanted = dict(job.spec.plugins)
    for name in job.spec.plugins:
        for brought in _BRINGS.get(name, ()):
            wanted.setdefault(brought, [])
    plugins: dict[str, JobPlugin] = {}
    for name, arguments in sorted(wanted.items()):
        make = PLUGINS.get(name)
        if make is None:
            raise ApiError("spec.plugins", f"must be among {', '.join(PLUGINS)}, not {name}")
        try:
            plugins[name] = make(arguments)
        except ValueError as error:
            raise ApiError(f"spec.plugins.{name}", str(error)) from None
    return plugins


__all__ = ["PLUGINS", "JobPlugin", "plugins_of"]
