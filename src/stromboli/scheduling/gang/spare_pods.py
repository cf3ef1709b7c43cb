"""Whether a gang keeps its minimums when pods of it leave.

The planner of moves asks this, then the scheduler before it keeps a place, and then the descheduler before each
eviction. If they had rules of their own, a plan could be made and refused again and again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from stromboli.cluster import role_minimums_apply


class Shortage(NamedTuple):
    """The minimum that a gang would miss, and of which role ("": of all its pods together)."""

    have: int
    need: int
    role: str = ""


def shortage(
    min_available: int,
    role_minimums: Mapping[str, int],
    *,
    left: int,
    left_of: Callable[[str], int],
    leaving: Iterable[str],
) -> Shortage | None:
    """`left`, `left_of`: the pods that stay, in all and by role; `leaving`: the roles of those that leave. Roles that
    nobody leaves are not looked at."""
    if left < min_available:
        return Shortage(left, min_available)
    if role_minimums_apply(min_available, role_minimums):
        for role in sorted(set(leaving)):
            have, need = left_of(role), role_minimums.get(role, 0)
            if have < need:
                return Shortage(have, need, role)
    return None
