"""Nodes and groups that took part in a move rest for a while.

Without this, pods would go back and forth: one plugin packs what another spreads. The end of the rest is an annotation
of the node or the group, so it outlives the process that wrote it.
"""

from __future__ import annotations

from stromboli.api import KObject, names
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Job, Node

DEFAULT_COOLDOWN = 600.0


def resting_until(obj: KObject) -> float | None:
    """Until when an object rests; None if no move says so."""
    text = obj.metadata.annotations.get(names.COOLDOWN_UNTIL)
    if not text:
        return None
    try:
        return parse_timestamp(text)
    except ValueError:
        return None  # not ours, so it must not stop anything


def cooldown_of(obj: KObject, now: float) -> bool:
    until = resting_until(obj)
    return until is not None and now < until


class Cooldowns:
    def __init__(self, now: float) -> None:
        self._now = now

    def rests(self, node: Node) -> bool:
        return cooldown_of(node.object, self._now)

    def group_rests(self, job: Job | None) -> bool:
        return job is not None and job.object is not None and cooldown_of(job.object, self._now)
