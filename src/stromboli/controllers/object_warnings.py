"""Warnings about objects that are valid, but do not do what their author expects.

    NoEffect         a field or annotation is set that has no effect in this version
    FractionalBytes  a request such as `memory: 400m`, which is less than a byte
    Refused          the queue of a Job or PodGroup that has not started is missing, closed, invalid or not a leaf

A simulation prints the same. Here they are events on the object. Each is sent once for a generation of the object, and
again only if what it says changes: not at every resync. What was sent is forgotten with the process; a new one may say
it once more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import ClassVar

from stromboli.api import (
    ApiError,
    Job,
    KObject,
    PodGroup,
    Queue,
    is_generated_group,
    names,
    validate_submission,
    warnings_about,
)
from stromboli.api.validation.acceptance import rejection_of

from .changes import Change, Notify, Objects

_NOT_STARTED = ("", "Pending")
_REFUSED = "Refused"

Warned = Queue | PodGroup | Job


@dataclass(frozen=True, slots=True)
class _Sent:
    """What was said about a version of an object."""

    object: Warned
    warnings: dict[str, str]  # what its own fields lead to; by reason
    refusal: str  # "" if its queue accepts it

    def messages(self) -> dict[str, str]:
        return {**self.warnings, _REFUSED: self.refusal} if self.refusal else self.warnings

    def of(self, reason: str) -> tuple[int, str | None]:
        """Equal for versions for which the warning need not be sent again."""
        return self.object.metadata.generation, self.messages().get(reason)


class ObjectWarnings:
    observes: ClassVar = (Queue, PodGroup, Job)

    def __init__(self, *, own_queues: Collection[str]) -> None:
        """`own_queues` are created by us: that they do not exist yet is no mistake."""
        self._own_queues = frozenset(own_queues)
        self._sent: dict[str, _Sent] = {}  # by uid
        self._changed: dict[str, Warned] = {}  # by uid
        self._queues_changed = False  # then all objects are looked at

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        if isinstance(before, Queue) or isinstance(after, Queue):
            self._queues_changed |= _accepts(before) != _accepts(after)
        if before is not None and (after is None or after.metadata.uid != before.metadata.uid):
            self._sent.pop(before.metadata.uid, None)
            self._changed.pop(before.metadata.uid, None)
        if isinstance(after, Queue | PodGroup | Job):
            self._changed[after.metadata.uid] = after

    def next_due(self, now: float) -> float | None:
        return None

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        """The warnings about objects that changed, or whose queue did."""
        if not self._changed and not self._queues_changed:
            return []
        warned: list[Warned] = list(self._changed.values())
        if self._queues_changed:
            warned = [*objects.list(Queue), *objects.list(PodGroup), *objects.list(Job)]
        self._changed, self._queues_changed = {}, False
        queues = {queue.metadata.name: queue for queue in objects.list(Queue)}
        parents = {queue.spec.parent for queue in queues.values() if queue.spec.parent}
        return [change for obj in warned for change in self._warn(obj, queues, parents)]

    def _warn(self, obj: Warned, queues: dict[str, Queue], parents: Collection[str]) -> Iterator[Change]:
        known = self._sent.get(obj.metadata.uid)
        warnings = known.warnings if known is not None and known.object is obj else warnings_about(obj)
        now = self._sent[obj.metadata.uid] = _Sent(obj, warnings, self._refusal(obj, queues, parents))
        for reason, message in now.messages().items():
            if known is None or known.of(reason) != now.of(reason):
                yield Notify(obj, reason, message, warning=True)

    def _refusal(self, obj: Warned, queues: dict[str, Queue], parents: Collection[str]) -> str:
        if isinstance(obj, Job):
            name, what, phase = obj.spec.queue, "jobs", obj.status.state.phase
        elif isinstance(obj, PodGroup) and not obj.metadata.owner_references and not is_generated_group(obj):
            name, what, phase = obj.spec.queue, "groups", obj.status.phase
        else:
            return ""
        name = name or names.DEFAULT_QUEUE
        queue = queues.get(name)
        if phase not in _NOT_STARTED or (queue is None and name in self._own_queues - {names.ROOT_QUEUE}):
            return ""
        if queue is not None and rejection_of(queue):
            return f'spec.queue: the queue "{name}" is invalid, so it accepts no {what}; its condition says why'
        try:
            validate_submission(name, what, queue, has_children=name in parents)
        except ApiError as error:
            return f"{error.field}: {error.message}"
        return ""


def _accepts(queue: KObject | None) -> object:
    """What makes a queue accept Jobs and groups or not. Its status says also how much is used, all the time."""
    if not isinstance(queue, Queue):
        return None
    return queue.spec, queue.status.state, rejection_of(queue)
