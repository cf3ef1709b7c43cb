"""How much a controller does in one turn. Between two turns the server answers requests.

A set of 50,000 pods, or a namespace with as many objects, is work for ten seconds. In one piece nobody would be
answered, health neither, and the sets of others would wait. A turn looks at so many objects and writes so many, some
hundredths of a second in all; what is left is for the next one.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice
from typing import Final, TypeVar

VISITS: Final = 50
WRITES: Final = 100

K = TypeVar("K", bound=Hashable)


def take(queue: dict[K, None], most: int = WRITES) -> list[K]:
    """The first of a queue, which has them no longer."""
    taken = list(islice(queue, most))
    for key in taken:
        del queue[key]
    return taken
