"""Objects that exist in every cluster from the start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from stromboli.api import KObject, ObjectMeta, PriorityClass, Queue, default, names

SYSTEM_CLASSES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}


def default_queue() -> Queue:
    queue = Queue(metadata=ObjectMeta(name=names.DEFAULT_QUEUE))
    default(queue)
    return queue


def built_in_objects() -> Iterator[KObject]:
    """The objects that exist unless the scenario defines them itself."""
    yield default_queue()
    for name, value in SYSTEM_CLASSES.items():
        yield PriorityClass(metadata=ObjectMeta(name=name), value=value)
