"""Kinds that an API server may lack, and that are used where it has them.

    PodGroups of Kubernetes itself   from 1.37 on, if the feature gate GenericWorkload is on and the version is enabled;
                                     composite ones have a gate of their own
    HyperNodes, CronJobs, JobFlows   if their definitions are installed, ours or Volcano's

Nobody has to configure that twice, so the server is asked: at the start, and then once a minute, because gates are
turned on and definitions installed while we run. Where a kind is missing nothing else is different.

1.36 has an earlier form of PodGroups under another version. Its fields are others, so its groups are not read; a
warning says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

from stromboli.kube.client import (
    COMPOSITE_POD_GROUPS,
    HYPER_NODES,
    WORKLOAD_POD_GROUPS,
    Client,
    Failure,
    Reflector,
    Resource,
    is_not_found,
)
from stromboli.kube.runtime.logs import Log

_log = Log("runtime")

ASK_EVERY: Final = 60.0  # seconds
OF_PODS: Final[tuple[Resource[Any], ...]] = (WORKLOAD_POD_GROUPS, COMPOSITE_POD_GROUPS, HYPER_NODES)
"""Those that say how pods are scheduled."""
EARLIER: Final = "scheduling.k8s.io/v1alpha2"


async def served_optional_kinds(client: Client, kinds: Sequence[Resource[Any]] = OF_PODS) -> list[Resource[Any]]:
    """Those that can be watched. A server that gives no answer has none, for now."""
    return [kind for kind in kinds if await _is_served(client, kind, set())]


async def watch_optional_kinds(
    client: Client,
    known: Collection[Resource[Any]],
    add: Callable[[Iterable[Resource[Any]]], Iterable[Reflector[Any]]],
    kinds: Sequence[Resource[Any]] = OF_PODS,
) -> None:
    """Watch those that the server has or gets. `known`: watched already. `add`: makes reflectors for kinds. Never
    ends."""
    missing = [kind for kind in kinds if kind not in known]
    said: set[str] = set()
    async with asyncio.TaskGroup() as group:
        while True:
            if WORKLOAD_POD_GROUPS in missing:
                await _warn_of_earlier(client, said)
            await asyncio.sleep(ASK_EVERY)
            found = [kind for kind in missing if await _is_served(client, kind, said)]
            missing = [kind for kind in missing if kind not in found]
            for reflector in add(found):
                group.create_task(reflector.run())
            if not missing:
                await asyncio.Event().wait()


async def _is_served(client: Client, kind: Resource[Any], said: set[str]) -> bool:
    try:
        await client.request("GET", kind.path(), query={"limit": "1"})
    except Failure as failure:
        if failure.status == HTTPStatus.FORBIDDEN and kind.plural not in said:
            said.add(kind.plural)
            _log.warning(
                "the API server has a kind that we may not list, so it has no effect on scheduling, and pods of groups "
                "of that kind wait. Apply the roles of this version",
                kind=f"{kind.plural}.{kind.group_version}", failure=failure.message,
            )  # fmt: skip
        return False
    return True


async def _warn_of_earlier(client: Client, said: set[str]) -> None:
    if EARLIER in said:
        return
    try:
        await client.request("GET", f"/apis/{EARLIER}/podgroups", query={"limit": "1"})
    except Failure as failure:
        if is_not_found(failure) or failure.status == HTTPStatus.FORBIDDEN:
            said.add(EARLIER)
        return
    said.add(EARLIER)
    _log.warning(
        "the API server has PodGroups of an earlier version, whose pods are not scheduled as groups; "
        "they are from scheduling.k8s.io/v1beta1 on",
        version=EARLIER,
    )
