"""What the Queue objects say about groups of nodes: where the pods of a queue may run, and how much they may use there.

`spec.affinity` lists groups by name, in four lists. A queue may use the groups that it requires or prefers, and those
that it only would rather not use, but none that it excludes:

    nodeGroupAffinity.required…        may be used; 100 points
    nodeGroupAffinity.preferred…       may be used; 50 points, or fewer the later in the list if the order counts
    nodeGroupAntiAffinity.required…    never used, whatever the lists above say
    nodeGroupAntiAffinity.preferred…   may be used after all others; -1 point

The annotation `volcano.sh/nodegroup-resource-limits` of a queue has a map in JSON, from groups to amounts.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stromboli.api import QueueAffinity, names
from stromboli.api.quantity import QuantityError, amounts
from stromboli.cluster import Queue, QueueName

_REQUIRED: Final = 100.0
_PREFERRED: Final = 50.0
_AVOIDED: Final = -1.0


@dataclass(frozen=True)
class GroupRules:
    required: tuple[str, ...] = ()
    preferred: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    avoided: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.required or self.preferred or self.excluded or self.avoided)

    def allows(self, group: str) -> bool:
        if group in self.avoided:
            return True
        return group not in self.excluded and (group in self.required or group in self.preferred)

    def score(self, group: str, *, in_order: bool) -> float:
        if group in self.avoided:
            return _AVOIDED
        score = _REQUIRED if group in self.required else 0.0
        if group in self.preferred:
            number = len(self.preferred)
            rank = self.preferred.index(group) if in_order else 0
            score += _PREFERRED * (number - rank) / number
        return score


def rules_of(queues: Mapping[QueueName, Queue], *, inherit: bool) -> dict[QueueName, GroupRules]:
    """By queue. `inherit`: a queue without `spec.affinity` has that of the nearest queue above it."""
    return {name: _rules(_affinity(queues, name) if inherit else _own(queues.get(name))) for name in queues}


def _own(queue: Queue | None) -> QueueAffinity | None:
    return None if queue is None or queue.object is None else queue.object.spec.affinity


def _affinity(queues: Mapping[QueueName, Queue], name: QueueName) -> QueueAffinity | None:
    seen: set[QueueName] = set()
    while name not in seen:
        seen.add(name)
        queue = queues.get(name)
        own = _own(queue)
        if own is not None:
            return own
        name = QueueName((queue.parent if queue is not None else "") or names.ROOT_QUEUE)
    return None


def _rules(affinity: QueueAffinity | None) -> GroupRules:
    if affinity is None:
        return GroupRules()
    near, far = affinity.node_group_affinity, affinity.node_group_anti_affinity
    return GroupRules(
        required=() if near is None else tuple(near.required_during_scheduling_ignored_during_execution),
        preferred=() if near is None else tuple(near.preferred_during_scheduling_ignored_during_execution),
        excluded=() if far is None else tuple(far.required_during_scheduling_ignored_during_execution),
        avoided=() if far is None else tuple(far.preferred_during_scheduling_ignored_during_execution),
    )


class InvalidLimits(ValueError):
    """Limits that cannot be read; says why."""


def limits_of(queue: Queue) -> dict[str, dict[str, int]] | None:
    """By group, exact amounts by resource; None if the queue states none. They are not inherited."""
    text = "" if queue.object is None else queue.object.metadata.annotations.get(names.NODE_GROUP_LIMITS, "")
    if not text:
        return None
    try:
        stated: Any = json.loads(text)
        if not isinstance(stated, dict) or not all(isinstance(one, dict) for one in stated.values()):
            raise InvalidLimits("it is not a map from node groups to amounts")
        return {group: amounts(limit) for group, limit in stated.items()}
    except QuantityError as error:
        raise InvalidLimits(str(error)) from None
    except (ValueError, RecursionError):
        raise InvalidLimits("it is not JSON") from None
