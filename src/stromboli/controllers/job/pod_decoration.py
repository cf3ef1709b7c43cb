"""What a job's pods get in addition to their template: the job's volumes, and what its plugins add.

The objects that a job owns are written before its pods are created. The job's status records that
(`controlledResources`) with a hash of the content that may change with the job. So they are written again exactly when
they differ, and are not read otherwise. A process that dies in between starts over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import sha256

import msgspec

from stromboli.api import Job, Pod, with_queue_gate
from stromboli.controllers.changes import EnsureOwned, OwnedObject

from .job_volumes import volume_claims, with_volumes
from .plugins import plugins_of


def owned_object_changes(job: Job) -> tuple[list[EnsureOwned], dict[str, str]]:
    """The owned objects that must still be written, and the job's `controlledResources` once they are."""
    written = job.status.controlled_resources
    hashes: dict[str, str] = {}
    changes: list[EnsureOwned] = []
    sources: list[tuple[str, Iterable[OwnedObject]]] = [("volumes", volume_claims(job))]
    sources += [(f"plugin-{name}", plugin.owned_objects(job)) for name, plugin in plugins_of(job).items()]
    for name, source in sources:
        objects = list(source)
        if objects:
            hashes[name] = _hash(objects)
            if written.get(name) != hashes[name]:
                changes += [EnsureOwned(job, owned) for owned in objects]
    return changes, hashes


def pod_decorator(job: Job) -> Callable[[Pod], Pod]:
    """The function that adds the job's volumes and plugins to a new pod, and the gate of its queue, which not every API
    server adds."""
    plugins = list(plugins_of(job).values())

    def decorate(pod: Pod) -> Pod:
        pod = with_volumes(pod, job)
        for plugin in plugins:
            pod = plugin.decorate(pod, job)
        return with_queue_gate(pod)

    return decorate


def _hash(objects: list[OwnedObject]) -> str:
    """Covers the content of objects that are updated, and only the names of those that are written once."""
    hashed = [(one.kind, one.name, None if one.create_only or one.unread else one.content()) for one in objects]
    return sha256(msgspec.json.encode(hashed, order="deterministic")).hexdigest()[:12]
