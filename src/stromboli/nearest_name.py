"""The name that a user probably meant."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def nearest_name(name: str, known: Collection[str]) -> str:
    """The known name that is most like the given one; "" if none is like it."""
    by_lower = {one.lower(): one for one in sorted(known)}
    found = get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else ""


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The end of a message about a name that is wrong; "" if none is like it."""
    near = nearest_name(name, known)
    return f"; did you mean {near}?" if near else ""
