"""All objects that matter to the scheduler, listed once from an API server.

Commands that look at a cluster need no watch: they list, answer and end.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final

from stromboli.api import (
    KINDS,
    BatchCronJob,
    BatchJob,
    Command,
    ControllerRevision,
    DaemonSet,
    Deployment,
    KObject,
    PodDisruptionBudget,
)
from stromboli.api.upstream import translated
from stromboli.errors import ClusterError, NotPermitted
from stromboli.insight import State
from stromboli.kube.client import (
    JOBS,
    LEGACY_BUDGETS,
    NODES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    PODS,
    QUEUES,
    REPLICA_SETS,
    STATEFUL_SETS,
    Client,
    ClientConfig,
    Failure,
    Resource,
    load_client_config,
    resource_of,
)

READER: Final = "stromboli-reader"
"""The ClusterRole of deploy/ with what is read here, and no more."""
_REQUIRED: Final[tuple[Resource[Any], ...]] = (QUEUES, NODES, POD_GROUPS, PODS)
_NOT_READ: Final = frozenset({
    Command, PodDisruptionBudget, Deployment, DaemonSet, ControllerRevision, BatchJob, BatchCronJob,
})  # fmt: skip
"""They exist for a moment; have two versions; count by what they have created."""


def _optional() -> list[Resource[Any]]:
    """Everything else that we understand. A user who may not list these gets an answer without them."""
    required = {resource.type for resource in _REQUIRED}
    kinds = sorted(set(KINDS.values()) - required - _NOT_READ, key=lambda kind: kind.__name__)
    return [resource_of(kind) for kind in kinds]


def all_read() -> list[Resource[Any]]:
    return [*_REQUIRED, *_optional(), POD_DISRUPTION_BUDGETS]


_DENIED: Final = frozenset({HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND})


def client_config(kubeconfig: Path | None, context: str | None) -> ClientConfig:
    return load_client_config(kubeconfig, context)


async def read_state(client: Client, scheduler_name: str) -> State:
    """Raises ClusterError with the next step; NotPermitted if this user may not read the whole cluster."""
    try:
        budgets = POD_DISRUPTION_BUDGETS
        if not await client.serves(budgets.group_version):
            budgets = LEGACY_BUDGETS
        optional = [*_optional(), budgets]
        listed = await _all(
            *(_list(client, resource) for resource in _REQUIRED),
            *(_list(client, resource, optional=True) for resource in optional),
        )
    except Failure as failure:
        raise cluster_error(client.config, failure) from None
    return State([translated(obj) for objects in listed for obj in objects], time.time(), scheduler_name)


async def read_namespace(client: Client, namespace: str, scheduler_name: str) -> State:
    """What users see who may read no more than this namespace. Raises NotPermitted."""
    try:
        listed = await _all(
            *(_list(client, resource, namespace) for resource in (POD_GROUPS, PODS)),
            *(_list(client, resource, namespace, optional=True) for resource in (JOBS, REPLICA_SETS, STATEFUL_SETS)),
        )
    except Failure as failure:
        raise cluster_error(client.config, failure) from None
    return State([translated(obj) for objects in listed for obj in objects], time.time(), scheduler_name)


async def _all(*lists: Awaitable[list[KObject]]) -> list[list[KObject]]:
    """Waits for all of them before it raises the first error: the client must not be closed while one is under way."""
    found = await asyncio.gather(*lists, return_exceptions=True)
    for one in found:
        if isinstance(one, BaseException):
            raise one
    return [one for one in found if not isinstance(one, BaseException)]


async def _list(
    client: Client, resource: Resource[Any], namespace: str = "", *, optional: bool = False
) -> list[KObject]:
    try:
        return list((await client.list(resource, namespace=namespace)).items)
    except Failure as failure:
        if optional and failure.status in _DENIED:
            return []
        if failure.status == HTTPStatus.NOT_FOUND:
            raise ClusterError(
                f"The API server at {client.config.server} has no {resource.plural}.{resource.group_version}; "
                "install the definitions: kubectl apply -k deploy/crds"
            ) from None
        if failure.status == HTTPStatus.FORBIDDEN:
            where = f"of namespace {namespace}" if namespace else "of the whole cluster"
            role = "view in the namespace" if namespace else f"{READER} in the whole cluster"
            raise NotPermitted(
                f"You may not list {resource.plural} {where}. Ask an administrator for the role {role}: kubectl create "
                f"{'rolebinding' if namespace else 'clusterrolebinding'} NAME --clusterrole "
                f"{f'view -n {namespace}' if namespace else READER} --user YOU"
            ) from None
        raise


def cluster_error(config: ClientConfig, failure: Failure) -> ClusterError:
    step = ""
    if failure.status == 0:
        problem = failure.message.removeprefix(f"cannot connect to {config.server}: ").rstrip(".")
        where = f"The API server at {config.server} does not answer: {problem}."
        return ClusterError(f"{where} Check that it runs, and --kubeconfig and --context.")
    if failure.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        step = " Check the credentials of the context, and your permissions."
    return ClusterError(f"The API server at {config.server}: {failure.message.rstrip('.')}.{step}")
