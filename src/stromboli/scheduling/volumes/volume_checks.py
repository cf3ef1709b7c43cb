"""What is checked about volumes, as the arguments of the plugin `predicates` say.

The plugin has the filters, the feature settles the claims, and the process needs to know which kinds to watch. All read
the same arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from stromboli.scheduling.configuration import Arguments, Configuration

PLUGIN: Final = "predicates"
_TIMEOUT: Final = 600.0  # seconds


@dataclass(frozen=True, slots=True)
class VolumeRules:
    binding: bool  # claims must exist and be bound, and are settled before the pod is bound
    zones: bool  # zone labels of bound volumes
    limits: bool  # how many volumes of a driver a node takes
    timeout: float  # seconds until a place is given up whose volumes do not come
    # What else decides whether the node of a pod that waits for volumes can still take it.
    node_affinity: bool = True
    taints: bool = True

    @property
    def any(self) -> bool:
        return self.binding or self.zones or self.limits


def read_volume_rules(arguments: Arguments) -> VolumeRules:
    return VolumeRules(
        binding=arguments.boolean("predicate.VolumeBindingEnable", True),
        zones=arguments.boolean("predicate.VolumeZoneEnable", True),
        limits=arguments.boolean("predicate.NodeVolumeLimitsEnable", True),
        timeout=arguments.duration("predicate.VolumeBindingTimeout", _TIMEOUT, minimum=1),
        node_affinity=arguments.boolean("predicate.NodeAffinityEnable", True),
        taints=arguments.boolean("predicate.TaintTolerationEnable", True),
    )


def volume_rules(configuration: Configuration) -> VolumeRules | None:
    """None if the plugin is not configured: then volumes do not matter."""
    for tier in configuration.tiers:
        for option in tier.plugins:
            if option.name == PLUGIN:
                return read_volume_rules(option.arguments)
    return None
