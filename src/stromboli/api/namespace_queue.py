"""The queue of a namespace.

`scheduling.volcano.sh/queue-name` on a Namespace is the queue of its pods, Jobs and PodGroups that name none. An API
server fills in `default` where none is named, so a name of `default` cannot be told from none, and means the
namespace's queue as well.
"""

from __future__ import annotations

from . import names
from .kinds.core import Namespace


def queue_in_namespace(named: str, namespace: Namespace | None) -> str:
    """The queue of something in this namespace that names this queue, or ""."""
    if named not in ("", names.DEFAULT_QUEUE):
        return named
    of_namespace = "" if namespace is None else namespace.metadata.annotations.get(names.QUEUE_NAME, "")
    return of_namespace or names.DEFAULT_QUEUE
