"""Which kinds about volumes are watched: those that the scheduler's configuration uses and the API server serves.

The descheduler plans with the scheduler's own rules, so it watches the same kinds.
"""

from __future__ import annotations

from typing import Any, Final

from stromboli.kube.client import (
    CSI_DRIVERS,
    CSI_NODES,
    CSI_STORAGE_CAPACITIES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    STORAGE_CLASSES,
    Client,
    Resource,
)
from stromboli.scheduling.configuration import Configuration
from stromboli.scheduling.volumes import volume_rules

from .crd_check import missing_definitions

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
