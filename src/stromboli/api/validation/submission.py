"""Which queues accept Jobs and PodGroups: those that exist, are open, and are leaves."""

from __future__ import annotations

from stromboli.api import names
from stromboli.api.errors import ApiError
from stromboli.api.kinds.batch import Queue
from stromboli.api.rules.requests import is_closed, is_no_leaf


def validate_submission(name: str, what: str, queue: Queue | None, *, has_children: bool) -> None:
    """Raise an ApiError if the queue `name` accepts no `what` ("jobs" or "groups"). `queue` is None if there is none of
    that name; `has_children`: other queues are below it."""
    if name == names.ROOT_QUEUE:
        raise ApiError("spec.queue", f"{what} cannot be submitted to the queue root itself")
    if queue is None:
        raise ApiError("spec.queue", f'there is no queue "{name}"')
    if queue.status.state not in ("", "Open"):
        raise ApiError("spec.queue", is_closed(name, queue.status.state, what))
    if has_children:
        raise ApiError("spec.queue", is_no_leaf(name, what))
