"""The events that `Cluster.apply` accepts, from a real cluster as from a simulation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from stromboli.api import KObject

from .model import TaskKey
from .node_table import NodeUse


@dataclass(frozen=True, slots=True)
class Applied:
    """An object was created or changed; this is its present version."""

    object: KObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object was deleted. Only its kind, namespace and name are read."""

    object: KObject


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A bind that the scheduler decided on has failed. `node`, `why` and `at` are set if the server refused it: then it
    would do so again for a while."""

    task: TaskKey
    node: str = ""
    why: str = ""
    at: float = 0.0
    by_volumes: bool = False  # it was not the bind itself that failed, but what its volumes need


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """An eviction that the scheduler decided on has failed."""

    task: TaskKey


@dataclass(frozen=True, slots=True)
class ReservationWriteFailed:
    """What the scheduler decided about a Reservation could not be written."""

    reservation: str


@dataclass(frozen=True, slots=True)
class UngateFailed:
    """The gate of a pod that its queue has room for could not be removed."""

    task: TaskKey


@dataclass(frozen=True, slots=True)
class NodesMeasured:
    """What nodes really use, by name: all that is known, instead of what was known before."""

    use: Mapping[str, NodeUse]


ClusterEvent = Applied | Deleted | BindFailed | EvictFailed | ReservationWriteFailed | UngateFailed | NodesMeasured
