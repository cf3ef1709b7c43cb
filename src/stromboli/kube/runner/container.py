"""One container as a process: its command, its environment and its limits.

There is no image and no isolation: the command must exist on this machine and runs as the current user. The memory
limit becomes the largest address space of the process, and a CPU limit below the number of cores sets on how many cores
it may run.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Mapping
from typing import Any, Final

from stromboli.api.quantity import QuantityError, amount

_VARIABLE: Final = re.compile(r"\$\$|\$\(([A-Za-z_][A-Za-z0-9_.-]*)\)")
_LAUNCHER: Final = """
import os, resource, signal, sys
parent, memory, cores = (int(text) for text in sys.argv[1:4])
if sys.platform == "linux":
    import ctypes
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: processes do not outlive us
    if os.getppid() != parent:
        sys.exit(137)
    allowed = sorted(os.sched_getaffinity(0))
    if 0 < cores < len(allowed):
        os.sched_setaffinity(0, allowed[:cores])
if memory:
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
try:
    os.execvp(sys.argv[4], sys.argv[4:])
except OSError as error:
    print(f"cannot start {sys.argv[4]}: {error.strerror}", file=sys.stderr)
    sys.exit(128)
"""
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


def launched(container: Mapping[str, Any], command: list[str], environment: Mapping[str, str]) -> list[str]:
    """The command line of a small program that sets the limits and then becomes the command. Raises CannotRun.

    A function that runs between fork and exec would be shorter, but may deadlock in a process with threads.
    """
    limits = (container.get("resources") or {}).get("limits") or {}
    try:
        memory = amount("memory", limits["memory"]) if "memory" in limits else 0
        cpu = amount("cpu", limits["cpu"]) if "cpu" in limits else 0
    except QuantityError as error:
        raise CannotRun(f"its limits cannot be read: {error}") from None
    if shutil.which(command[0], path=environment.get("PATH")) is None:
        raise CannotRun(f"there is no program {command[0]} on this machine")
    cores = -(-cpu // 1000)
    return [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid()), str(memory), str(cores), *command]
