"""The manifest of a job whose program was typed on the command line: `stromboli submit --pods 4 -- python train.py`.

It is a Job of batch.volcano.sh. The pods of a gang start together and find each other by name, and if one fails the
others end. Those of an array are independent. Only an array of which some may run at a time is an Indexed Job of
batch/v1, which has a field for that; it tries again what has failed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, Final

from stromboli.api import names
from stromboli.api.quantity import QuantityError, amount, parse_duration
from stromboli.errors import UserError

INDEX: Final = "STROMBOLI_ARRAY_INDEX"
GPU: Final = "nvidia.com/gpu"
_ARRAY: Final = re.compile(r"(\d{1,9})-(\d{1,9})(?::([1-9]\d{0,8}))?(?:%([1-9]\d{0,8}))?")
_NO_IMAGE: Final = "none"
_LONGEST_NAME: Final = 40
_SCRIPTS: Final = (".py", ".sh", ".R", ".jl")


@dataclass(frozen=True, slots=True)
class Array:
    """Indexes first, first + step, ... up to last."""

    first: int
    last: int
    step: int = 1
    at_a_time: int | None = None

    @classmethod
    def of(cls, text: str) -> Array:
        """Raises UserError."""
        found = _ARRAY.fullmatch(text)
        if found is None or int(found[2]) < int(found[1]):
            raise UserError(f"--array: {text} is not like 0-9, 1-100%10 (10 at a time) or 0-90:10 (every tenth).")
        first, last, step, most = found.groups()
        return cls(int(first), int(last), int(step or 1), int(most) if most else None)

    @property
    def count(self) -> int:
        return (self.last - self.first) // self.step + 1


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the options say. "" is what they leave open."""

    command: Sequence[str]
    name: str
    namespace: str
    pods: int = 1
    cpus: str = "1"
    memory: str = ""
    gpus: int = 0
    queue: str = ""
    time: str = ""
    image: str = ""
    folder: str = ""
    priority_class: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    array: Array | None = None


def name_for(command: Sequence[str], suffix: str) -> str:
    """From the program, or from the script that an interpreter runs: `train-x7k2p` for `python train.py`."""
    plain = [part for part in command if not part.startswith("-")]
    word = PurePath(plain[0]).name if plain else ""
    scripts = [PurePath(part).stem for part in plain[1:] if PurePath(part).suffix in _SCRIPTS]
    script = scripts[0] if scripts else ""
    base = re.sub(r"[^a-z0-9]+", "-", (script or word).lower()).strip("-")[:_LONGEST_NAME].strip("-")
    if not base or not base[0].isalpha():
        base = f"job-{base}".strip("-")
    return f"{base}-{suffix}"


def manifest_of(wanted: Wanted) -> dict[str, Any]:
    """Raises UserError."""
    seconds = _seconds(wanted.time)
    template = _template(wanted, seconds)
    metadata: dict[str, Any] = {"name": wanted.name, "namespace": wanted.namespace}
    if wanted.array is not None and wanted.array.at_a_time is not None:
        if wanted.queue:
            template["metadata"].setdefault("annotations", {})[names.QUEUE_NAME] = wanted.queue
        template["spec"]["schedulerName"] = names.DEFAULT_SCHEDULER
        if wanted.priority_class:
            template["spec"]["priorityClassName"] = wanted.priority_class
        limited = {
            "completionMode": "Indexed",
            "completions": wanted.array.count,
            "parallelism": min(wanted.array.at_a_time, wanted.array.count),
            "backoffLimit": wanted.array.count,
            "template": template,
        }
        return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": limited}
    replicas = wanted.pods if wanted.array is None else wanted.array.count
    job: dict[str, Any] = {
        "schedulerName": names.DEFAULT_SCHEDULER,
        "minAvailable": wanted.pods if wanted.array is None else 1,
    }
    if wanted.queue:
        job["queue"] = wanted.queue
    if wanted.priority_class:
        job["priorityClassName"] = wanted.priority_class
    if wanted.array is not None:
        job["plugins"] = {"env": []}
    elif wanted.pods > 1:
        job["plugins"] = {"env": [], "svc": []}
        job["policies"] = [{"event": "PodFailed", "action": "TerminateJob"}]
    job["tasks"] = [{"name": "main", "replicas": replicas, "template": template}]
    return {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": metadata, "spec": job}


def _template(wanted: Wanted, seconds: float | None) -> dict[str, Any]:
    resources = {"requests": {"cpu": _quantity("--cpus", "cpu", wanted.cpus)}, "limits": {}}
    if wanted.memory:
        resources["requests"]["memory"] = resources["limits"]["memory"] = _quantity("--memory", "memory", wanted.memory)
    if wanted.gpus:
        resources["requests"][GPU] = resources["limits"][GPU] = str(wanted.gpus)
    command = [part.replace("$(", "$$(") for part in wanted.command]  # Kubernetes would replace variables
    container: dict[str, Any] = {
        "name": "main",
        "image": wanted.image or _NO_IMAGE,
        "command": command,
        "resources": {name: one for name, one in resources.items() if one},
    }
    if wanted.environment:
        container["env"] = [{"name": name, "value": value} for name, value in wanted.environment.items()]
    if wanted.folder:
        container["workingDir"] = wanted.folder
    if wanted.array is not None:
        number = "VC_TASK_INDEX" if wanted.array.at_a_time is None else "JOB_COMPLETION_INDEX"
        index = f"{wanted.array.first}+{wanted.array.step}*{number}"
        container["command"] = ["sh", "-c", f'{INDEX}=$(({index})) exec "$@"', "--", *command]
    spec: dict[str, Any] = {"restartPolicy": "Never", "containers": [container]}
    metadata: dict[str, Any] = {}
    if seconds is not None:
        spec["activeDeadlineSeconds"] = max(1, round(seconds))
        metadata["annotations"] = {names.ESTIMATE: wanted.time}
    return {"metadata": metadata, "spec": spec}


def _quantity(option: str, resource: str, text: str) -> str:
    try:
        if amount(resource, text) <= 0:
            raise UserError(f"{option} must be more than 0, not {text}.")
    except QuantityError as error:
        raise UserError(f"{option}: {error}.") from None
    return text


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = parse_duration(text)
    except QuantityError as error:
        raise UserError(f"--time: {error}.") from None
    if seconds <= 0:
        raise UserError("--time must be longer than 0s.")
    return seconds
