"""Job plugins: what `spec.plugins` of a Job adds to its pods.

Each plugin is a small module: the objects that the job must own for it (`owned_objects`), and what it adds to the pods
(`decorate`). The names, the arguments and the results are Volcano's, so that images and scripts written for Volcano
work unchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from stromboli.api import ApiError, Job
from stromboli.api.rules.jobs import REQUIRED_PLUGINS

from .env import Env
from .mpi import Mpi
from .plugin import JobPlugin
from .pytorch import PyTorch
from .ray import Ray
from .ssh import Ssh
from .svc import Svc
from .tensorflow import TensorFlow

PLUGINS: dict[str, Callable[[list[str]], JobPlugin]] = {
    "env": Env,
    "mpi": Mpi,
    "pytorch": PyTorch,
    "ray": Ray,
    "ssh": Ssh,
    "svc": Svc,
    "tensorflow": TensorFlow,
}


def plugins_of(job: Job) -> dict[str, JobPlugin]:
    """The plugins of a job, by name; raises ApiError for an unknown plugin or invalid arguments."""
    requested = dict(job.spec.plugins)
    for name in job.spec.plugins:
        for required in REQUIRED_PLUGINS.get(name, ()):
            requested.setdefault(required, [])
    plugins: dict[str, JobPlugin] = {}
    for name, arguments in sorted(requested.items()):
        make = PLUGINS.get(name)
        if make is None:
            raise ApiError("spec.plugins", f"must be one of {', '.join(PLUGINS)}, not {name}")
        try:
            plugins[name] = make(arguments)
        except ValueError as error:
            raise ApiError(f"spec.plugins.{name}", str(error)) from None
    return plugins


__all__ = ["PLUGINS", "JobPlugin", "plugins_of"]
