"""What stands against a submission, asked of the cluster before the first object is created.

Whoever submits a file wants all of it or nothing: half a file has to be cleaned up by hand. So names that exist, and
namespaces that do not, are found first. What this user may not read is not checked; the server decides about it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import click

from stromboli.api import Job, Pod, PodGroup, Queue, key, names
from stromboli.console.manifests import Manifest
from stromboli.errors import UserError
from stromboli.kube.client import (
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Client,
    Failure,
    Resource,
    is_not_found,
    resource_of,
)


async def check_submission(client: Client, manifests: Sequence[Manifest]) -> None:
    """Raises UserError; warns about queues that do not exist."""
    twice = [title for title, count in Counter(manifest.title for manifest in manifests).items() if count > 1]
    if twice:
        raise UserError(f"{twice[0]} is in the manifests twice; nothing was created. Use another name.")
    own = {manifest.title for manifest in manifests}
    for namespace in sorted({m.object.metadata.namespace for m in manifests} - {""}):
        if f"Namespace {namespace}" not in own and await _exists(client, NAMESPACES, namespace) is False:
            [first, *_] = [m.title for m in manifests if m.object.metadata.namespace == namespace]
            raise UserError(missing_namespace(namespace, first))
    for manifest in manifests:
        if await _exists(client, resource_of(type(manifest.object)), key(manifest.object)):
            raise UserError(exists_already(manifest, "nothing was created"))
    for manifest in manifests:
        queue = _queue(manifest)
        if queue and f"{Queue.__name__} {queue}" not in own and await _exists(client, QUEUES, queue) is False:
            click.echo(
                f"stromboli: warning: {manifest.title}: there is no queue {queue}, so it waits until somebody creates "
                "it. Try: stromboli queues", err=True,
            )  # fmt: skip


def exists_already(manifest: Manifest, consequence: str) -> str:
    resource, meta = resource_of(type(manifest.object)), manifest.object.metadata
    if resource in (JOBS, POD_GROUPS, PODS):
        delete = f"stromboli cancel {key(manifest.object)}"
    else:
        namespace = f" -n {meta.namespace}" if meta.namespace else ""
        delete = f"kubectl delete {resource.plural} {meta.name}{namespace}"
    step = f"Use another name, change it with kubectl apply, or delete it: {delete}"
    return f"{manifest.title} exists already; {consequence}. {step}"


def missing_namespace(namespace: str, title: str) -> str:
    return (
        f"Namespace {namespace} of {title} does not exist; nothing was created. "
        f"Create it: kubectl create namespace {namespace}"
    )


async def _exists(client: Client, resource: Resource[Any], name: str) -> bool | None:
    """None if this user may not know."""
    try:
        await client.get(resource, name)
    except Failure as failure:
        if is_not_found(failure):
            return False
        if failure.status == HTTPStatus.FORBIDDEN:
            return None
        raise
    return True


def _queue(manifest: Manifest) -> str:
    """That has to exist; the scheduler creates the default queue."""
    obj = manifest.object
    if isinstance(obj, Job | PodGroup):
        queue = obj.spec.queue
    elif isinstance(obj, Pod):
        queue = obj.metadata.annotations.get(names.QUEUE_NAME, "")
    else:
        return ""
    return queue if queue not in (names.DEFAULT_QUEUE, names.ROOT_QUEUE) else ""
