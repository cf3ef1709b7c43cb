"""Objects that exist in every cluster from the start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stromboli.api import KObject, ObjectMeta, PriorityClass, Queue, StorageClass, default, names

PROVISIONER: Final = "provisioner.sim.stromboli.io"
SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def default_queue() -> Queue:
    queue = Queue(metadata=ObjectMeta(name=names.DEFAULT_QUEUE))
    default(queue)
    return queue


def is_default_class(obj: KObject) -> bool:
    return isinstance(obj, StorageClass) and obj.metadata.annotations.get(names.DEFAULT_CLASS) == "true"


def default_class() -> StorageClass:
    """What most clusters have: a claim that names no class gets a volume where its first pod runs."""
    meta = ObjectMeta(name="standard", annotations={names.DEFAULT_CLASS: "true"})
    return StorageClass(metadata=meta, provisioner=PROVISIONER, volume_binding_mode="WaitForFirstConsumer")


def built_in_objects(*, has_default_class: bool = False) -> Iterator[KObject]:
    """The objects that exist unless the scenario defines them itself. `has_default_class`: it has such a class."""
    if not has_default_class:
        yield default_class()
    yield default_queue()
    for name, value in SYSTEM_CLASSES.items():
        yield PriorityClass(metadata=ObjectMeta(name=name), value=value)
