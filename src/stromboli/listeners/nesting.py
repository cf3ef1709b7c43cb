"""How deep a document may be.

What reads a document calls itself for each level. A body of three megabytes can have three million levels.
"""

from __future__ import annotations

from typing import Any, Final

DEEPEST: Final = 200
"""Levels of lists and objects. The deepest that users write, definitions of resources, have about fifty."""


def is_too_deep(value: Any) -> bool:
    """Whether a decoded document has more than DEEPEST levels. Goes level by level, so that nothing is deep here."""
    level = [value]
    for _ in range(DEEPEST + 1):
        level = [child for one in level if isinstance(one, dict | list)
                 for child in (one.values() if isinstance(one, dict) else one)
                 if isinstance(child, dict | list)]  # fmt: skip
        if not level:
            return False
    return True
