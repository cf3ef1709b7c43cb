"""What can happen to what we know. `Cluster.apply` takes nothing else, whichever world it comes from."""

from __future__ import annotations

from dataclasses import dataclass

from stromboli.api import KObject

from .model import TaskKey


@dataclass(frozen=True, slots=True)
class Applied:
    """An object exists, now in this form (created or changed)."""

    object: KObject


@dataclass(frozen=True, slots=True)
class Deleted:
    """An object is gone. Only its kind, namespace and name are read."""

    object: KObject


@dataclass(frozen=True, slots=True)
class BindFailed:
    """A bind we decided on did not happen."""

    task: TaskKey


@dataclass(frozen=True, slots=True)
class EvictFailed:
    """An eviction we decided on did not happen."""

    task: TaskKey


ClusterEvent = Applied | Deleted | BindFailed | EvictFailed
