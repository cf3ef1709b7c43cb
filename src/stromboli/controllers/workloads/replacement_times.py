"""When the pods of a set that are gone may be replaced.

The times are in an annotation of the set. That a pod is gone follows from the status of the set, which counts the pods
there were. So a controller that has just started replaces a pod when the last one would have, and knows of pods that
went while no controller ran.
"""

from __future__ import annotations

from typing import Final

from stromboli.api import ObjectMeta
from stromboli.api.timestamps import format_timestamp, parse_timestamp

REPLACEMENT_DELAY: Final = 1.0
"""Seconds from the eviction or deletion of a pod: the time that a cluster takes to react."""
REPLACEMENTS: Final = "scheduling.stromboli.io/replacements"
"""The annotation: which pods may be replaced when. A ReplicaSet or a Job says how many, a StatefulSet which numbers; by
time, because thousands of pods may be lost with their nodes, and annotations must be short."""


def read_replacements(metadata: ObjectMeta) -> dict[float, str]:
    """Which pods may be replaced, by the time."""
    found: dict[float, str] = {}
    for entry in metadata.annotations.get(REPLACEMENTS, "").split():
        at, _, which = entry.partition("=")
        try:
            found[parse_timestamp(at)] = which
        except ValueError:
            continue  # not ours
    return found


def read_numbers(metadata: ObjectMeta, now: float) -> dict[float, int]:
    """How many are still to be replaced, by the time."""
    known = read_replacements(metadata)
    return {due: int(many) for due, many in known.items() if due > now and many.isascii() and many.isdigit()}


def with_replacements(annotations: dict[str, str], times: dict[float, str]) -> dict[str, str]:
    others = {name: value for name, value in annotations.items() if name != REPLACEMENTS}
    if not times:
        return others
    return {**others, REPLACEMENTS: " ".join(f"{format_timestamp(at)}={which}" for at, which in sorted(times.items()))}
