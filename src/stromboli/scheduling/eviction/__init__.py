"""Evictions: whose pods go, as few as possible, and only if a whole gang then has a place.

`victims` searches node by node, `gang_evictions` does so for a whole gang, `reprieve` spares those who turn out not
to be needed, and `nominations` keeps the room for those it was made for, also from one cycle to the next.
"""

from .gang_evictions import node_without_evictions, place_with_evictions, starving_jobs
from .memory import EvictionMemory
from .nominations import Nominations, open_nominations
from .victims import VictimSearch

__all__ = [
    "EvictionMemory",
    "Nominations",
    "VictimSearch",
    "node_without_evictions",
    "open_nominations",
    "place_with_evictions",
    "starving_jobs",
]
