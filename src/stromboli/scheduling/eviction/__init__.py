"""Evictions: whose pods go, as few as possible, and only if a whole gang then has a place.

`victims` searches for one task, and `gang_evictions` for a whole gang: with `close_gangs` in one domain and by
sub-groups, if it must be close together, and with `free_places` where nobody has to go. `candidates` says for all nodes
what evictions could come to at best, `prospects` which node is next, and `victims_on_node` who would have to go there.
`reprieve` spares those who turn out not to be needed, `nominations` keeps the room for those it was made for, also from
one cycle to the next, `returned_promises` says who gave such room back, and `turns` limits the work of one cycle.
"""

from .candidates import may_lose_tasks
from .eviction_memory import EvictionMemory
from .free_places import fits_without, node_without_evictions
from .gang_evictions import place_with_evictions, starving_jobs, wait_for_leaving
from .nominations import Nominations, open_nominations
from .returned_promises import ReturnedPromises
from .search_turns import Turns
from .victims import VictimSearch

__all__ = [
    "EvictionMemory",
    "Nominations",
    "ReturnedPromises",
    "Turns",
    "VictimSearch",
    "fits_without",
    "may_lose_tasks",
    "node_without_evictions",
    "open_nominations",
    "place_with_evictions",
    "starving_jobs",
    "wait_for_leaving",
]
