"""Percentages by resource, as plugins take them.

`gpu` is not a resource of Kubernetes. In a policy it stands for `nvidia.com/gpu`, or for the names that
`gpuResourceNames` lists. Full names are accepted as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from stromboli.scheduling.configuration import Arguments

GPU: Final = "gpu"
NVIDIA: Final = "nvidia.com/gpu"
_PLAIN: Final = ("cpu", "memory", "pods", GPU)

Thresholds = Mapping[str, float]
"""Percent by resource, as written in the policy."""


def gpu_names(arguments: Arguments) -> tuple[str, ...]:
    """What `gpu` stands for."""
    given = arguments.get("gpuResourceNames")
    if given is None:
        return (NVIDIA,)
    if not isinstance(given, list) or not given or not all(isinstance(name, str) and name for name in given):
        raise arguments.error("gpuResourceNames", "must be a list of resource names")
    return tuple(given)


def resources_of(name: str, gpus: Sequence[str]) -> tuple[str, ...]:
    """The resources that a name of the policy stands for."""
    return tuple(gpus) if name == GPU else (name,)


def is_resource(name: object) -> bool:
    return isinstance(name, str) and (name in _PLAIN or "/" in name)


def thresholds(arguments: Arguments, key: str, default: Thresholds, *, required: bool = False) -> dict[str, float]:
    """A map from resources to percentages."""
    given = arguments.get(key)
    if given is None:
        if required:
            raise arguments.error(key, "is required: percentages by resource, such as {cpu: 20, memory: 20}")
        return dict(default)
    if not isinstance(given, dict) or not given:
        raise arguments.error(key, "must be percentages by resource, such as {gpu: 30}")
    found: dict[str, float] = {}
    for name, percent in given.items():
        if not is_resource(name):
            raise arguments.error(key, f'names "{name}"; known are cpu, memory, gpu, pods and full resource names')
        if isinstance(percent, bool) or not isinstance(percent, int | float) or not 0 <= percent <= 100:
            raise arguments.error(key, f"must have percentages from 0 to 100 ({name})")
        found[name] = float(percent)
    return found
