"""Which queues do not fit their relatives: children against parents, and hierarchy paths.

A simulation refuses such a queue, or the patch of one, and the queues that were there stay as they are. An API server
stores it: no rule of a CRD can compare two objects. So the Queue controller rejects it afterwards, as it rejects a
queue that is invalid by itself, and the scheduler ignores it until it is corrected.

Of two queues that do not fit together, the one that came or changed last is rejected. What was accepted before is
remembered here. After a restart, the condition of a rejected queue says that it was not, and of the others the oldest
come first.
"""

from __future__ import annotations

from collections.abc import Iterable

from stromboli.api import ApiError, Queue, names, validate_queue_tree
from stromboli.api.validation.acceptance import rejection_of

Place = tuple[object, ...]


class QueueTree:
    def __init__(self) -> None:
        self._accepted: dict[str, Place] = {}  # by uid
        self._places: dict[str, Place] = {}  # by uid, of all queues that were looked at last
        self._errors: dict[str, str] = {}  # by name

    def errors(self, queues: Iterable[Queue]) -> dict[str, str]:
        """What is wrong with queues that do not fit the others, by name. `queues`: those valid by themselves."""
        queues = list(queues)
        places = {queue.metadata.uid: _place(queue) for queue in queues}
        if places == self._places:
            return self._errors
        known = [queue for queue in queues if self._accepted.get(queue.metadata.uid) == places[queue.metadata.uid]]
        uids = {queue.metadata.uid for queue in known}
        news = [queue for queue in queues if queue.metadata.uid not in uids]
        errors: dict[str, str] = {}
        for queue in sorted(news, key=_rank):
            try:
                validate_queue_tree(queue, known)
            except ApiError as error:
                errors[queue.metadata.name] = f"{error.field}: {error.message}"
            else:
                known.append(queue)
        self._accepted = {queue.metadata.uid: places[queue.metadata.uid] for queue in known}
        self._places, self._errors = places, errors
        return errors


def _place(queue: Queue) -> Place:
    """What the rules between queues depend on."""
    return queue.metadata.name, queue.spec, queue.metadata.annotations.get(names.HIERARCHY)


def _rank(queue: Queue) -> tuple[bool, str, str]:
    return bool(rejection_of(queue)), queue.metadata.creation_timestamp or "", queue.metadata.name
