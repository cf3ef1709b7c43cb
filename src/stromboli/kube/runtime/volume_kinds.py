"""Which kinds about volumes are watched: those that the scheduler's configuration uses and the API server serves.

The descheduler plans with the scheduler's own rules, so it watches the same kinds. A later configuration may need more
of them; a kind that is not needed any more is still watched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Final

from stromboli.kube.client import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Client,
    Failure,
    Reflector,
    Resource,
)
from stromboli.scheduling.configuration import Configuration
from stromboli.scheduling.volumes import volume_rules

from .crd_check import missing_definitions
from .logs import Log

_log = Log("runtime")
RETRY_AFTER: Final = 5.0  # seconds
_OF_DRIVERS: Final = (CSI_NODES, CSI_DRIVERS, CSI_STORAGE_CAPACITIES)


async def volume_kinds(client: Client, configuration: Configuration) -> list[Resource[Any]]:
    rules = volume_rules(configuration)
    if rules is None or not rules.any:
        return []
    kinds: list[Resource[Any]] = [STORAGE_CLASSES, PERSISTENT_VOLUMES, PERSISTENT_VOLUME_CLAIMS]
    if rules.binding or rules.limits:
        kinds.append(CSI_NODES)
    if rules.binding:
        kinds += [CSI_DRIVERS, CSI_STORAGE_CAPACITIES]
    # Servers before 1.24 have no storage capacities in this version.
    missing = await missing_definitions(client, [kind for kind in kinds if kind in _OF_DRIVERS])
    return [kind for kind in kinds if f"{kind.plural}.{kind.group_version.partition('/')[0]}" not in missing]


async def watch_more(
    client: Client,
    changed: asyncio.Event,
    configuration: Callable[[], Configuration],
    add: Callable[[Iterable[Resource[Any]]], Iterable[Reflector[Any]]],
) -> None:
    """Watch what each new configuration needs in addition. `changed`: set when there is one. `add`: makes reflectors
    for those kinds that are not watched yet."""
    async with asyncio.TaskGroup() as group:
        while True:
            await changed.wait()
            changed.clear()
            try:
                kinds = await volume_kinds(client, configuration())
            except Failure as failure:
                _log.warning("cannot ask which kinds the API server has; tries again", failure=failure.message)
                await asyncio.sleep(RETRY_AFTER)
                changed.set()
                continue
            for reflector in add(kinds):
                group.create_task(reflector.run())
