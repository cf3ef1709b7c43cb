"""What a job's pods find when they start: the job's volumes, and what its plugins bring.

What belongs to a job is written before its pods are made, and the job's status remembers that it was
(`controlledResources`), with a fingerprint of what may change with the job. So it is written again exactly when it is
different, it is not looked at otherwise, and a process that dies in between starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec

from stromboli.api import Job, Pod
from stromboli.controllers.changes import Belonging, Provide

from .plugins import plugins_of
from .volumes import check_volumes, claims, with_volumes


def check_furniture(job: Job) -> None:
    """Raise an ApiError if what the job asks for cannot be had."""
    check_volumes(job)
    for plugin in plugins_of(job).values():
        plugin.check(job)


def furnish(job: Job) -> tuple[list[Provide], dict[str, str]]:
    """What is still to be written for a job, and what its status says when it has been."""
    present = job.status.controlled_resources
    marks: dict[str, str] = {}
    missing: list[Provide] = []
    needs: list[tuple[str, Iterable[Belonging]]] = [("volumes", claims(job))]
    needs += [(f"plugin-{name}", plugin.belongings(job)) for name, plugin in plugins_of(job).items()]
    for name, belongings in needs:
        belongings = list(belongings)
        if belongings:
            marks[name] = _fingerprint(belongings)
            if present.get(name) != marks[name]:
                missing += [Provide(job, belonging) for belonging in belongings]
    return missing, marks


def dresser(job: Job) -> Callable[[Pod], Pod]:
    """What makes a pod of the job complete."""
    plugins = list(plugins_of(job).values())

    def dress(pod: Pod) -> Pod:
        pod = with_volumes(pod, job)
        for plugin in plugins:
            pod = plugin.dress(pod, job)
        return pod

    return dress


def _fingerprint(belongings: list[Belonging]) -> str:
    """Of what is written again when it changes; of the rest that it is there."""
    told = [
        (belonging.kind, belonging.name, None if belonging.once else belonging.content()) for belonging in belongings
    ]
    return sha256(msgspec.json.encode(told, order="deterministic")).hexdigest()[:12]
