"""Objects as they are written, with what we change in them.

Our types hold only the fields that we read. Who changes a typed object that others have written applies the differences
to what was written, so that fields which we do not know keep their values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_MERGED_BY_INDEX = ("containers", "initContainers")  # lists whose items a controller changes without adding any


def with_changes(written: Mapping[str, Any], before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """What was written, with the changes from `before` to `after`, which are what we read of it."""
    result = dict(written)
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old == new:
            continue
        if new is None:
            result.pop(name, None)
        elif name in _MERGED_BY_INDEX:
            result[name] = [with_changes(*three) for three in zip(written[name], before[name], new, strict=True)]
        elif isinstance(new, dict) and isinstance(old, dict) and isinstance(result.get(name), dict):
            result[name] = with_changes(result[name], old, new)
        else:
            result[name] = new
    return result
