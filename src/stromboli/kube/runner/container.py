"""One container as a process: its command, its environment and its limits.

There is no image and no isolation: the command must exist on this machine and runs as the current user. The memory
limit becomes the largest address space of the process, and a CPU limit below the number of cores sets on how many cores
it may run.
"""

from __future__ import annotations

import ctypes
import os
import re
import resource
import signal
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

from stromboli.api.quantity import QuantityError, amount

_VARIABLE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_PR_SET_PDEATHSIG: Final = 1
_prctl: Final = ctypes.CDLL(None).prctl if sys.platform == "linux" else None
_KEPT: Final = ("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TMPDIR", "USER")


class CannotRun(Exception):
    """Says why a container cannot be a process here."""


def command_of(container: Mapping[str, Any], environment: Mapping[str, str]) -> list[str]:
    """The command line, with `$(NAME)` replaced as Kubernetes does. Raises CannotRun."""
    written = [*(container.get("command") or ()), *(container.get("args") or ())]
    if not container.get("command"):
        raise CannotRun("the container has no command; images are not run here, so spec.containers[].command is needed")
    return [expand(part, environment) for part in written]


def environment_of(pod: Mapping[str, Any], container: Mapping[str, Any]) -> dict[str, str]:
    """A few variables of ours, and those of the container. References to other objects are left out."""
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    metadata, spec = pod["metadata"], pod["spec"]
    environment["HOSTNAME"] = spec.get("hostname") or metadata["name"]
    for variable in container.get("env") or ():
        if "value" in variable or "valueFrom" not in variable:
            environment[variable["name"]] = expand(variable.get("value", ""), environment)
            continue
        path = (variable["valueFrom"].get("fieldRef") or {}).get("fieldPath", "")
        value = _field(pod, path)
        if value is not None:
            environment[variable["name"]] = value
    return environment


def expand(text: str, environment: Mapping[str, str]) -> str:
    def value(found: re.Match[str]) -> str:
        if found[0] == "$$":
            return "$"
        return environment.get(found[1], found[0])

    return _VARIABLE.sub(value, text)


def _field(pod: Mapping[str, Any], path: str) -> str | None:
    known = {
        "metadata.name": pod["metadata"]["name"],
        "metadata.namespace": pod["metadata"].get("namespace", ""),
        "metadata.uid": pod["metadata"].get("uid", ""),
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "status.podIP": "127.0.0.1",
        "status.hostIP": "127.0.0.1",
    }
    if path in known:
        return str(known[path])
    found = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    return str((pod["metadata"].get(found[1]) or {}).get(found[2], "")) if found else None


def limiter(container: Mapping[str, Any]) -> Callable[[], None]:
    """A function for the new process to call before it becomes the command. Raises CannotRun."""
    limits = (container.get("resources") or {}).get("limits") or {}
    try:
        memory = amount("memory", limits["memory"]) if "memory" in limits else None
        cpu = amount("cpu", limits["cpu"]) if "cpu" in limits else None
    except QuantityError as error:
        raise CannotRun(f"its limits cannot be read: {error}") from None
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    wanted = -(-cpu // 1000) if cpu else len(cores)

    def limit() -> None:
        if _prctl is not None:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # processes do not outlive us, even if we are killed
        if memory:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
        if cores and 0 < wanted < len(cores):
            os.sched_setaffinity(0, cores[:wanted])

    return limit
