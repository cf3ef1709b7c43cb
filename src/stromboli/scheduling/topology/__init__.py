"""Domains for groups whose pods must be close together.

`closeness` says which domains a group may be in at all, `room_in_domains` how many of its tasks have room in each.
`choice` puts those with enough room in order, and `room_to_make` those in which room could be made. `fill_order` says
which parts of a domain are filled first. Placing the tasks there is for `gang`; evicting others in one domain is for
`eviction`.
"""

from .choice import Wanted, domains_to_try
from .closeness import allowed_tiers, home_domains, tree_for
from .fill_order import fill_order
from .room_in_domains import RoomInDomains
from .room_to_make import domains_to_clear

__all__ = [
    "RoomInDomains",
    "Wanted",
    "allowed_tiers",
    "domains_to_clear",
    "domains_to_try",
    "fill_order",
    "home_domains",
    "tree_for",
]
