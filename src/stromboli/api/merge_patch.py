"""JSON merge patch (RFC 7386): how users and controllers say "change just this".

A mapping is merged key by key, null deletes, and anything else, lists included, replaces what was there. The
document is not touched: the result shares with it what the patch does not mention.
"""

from __future__ import annotations

from typing import Any


def merge_patch(document: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(document)
    for name, change in patch.items():
        if change is None:
            merged.pop(name, None)
        elif isinstance(change, dict):
            present = merged.get(name)
            # A mapping that replaces a non-mapping still loses its nulls: they mean "absent", never a value.
            merged[name] = merge_patch(present if isinstance(present, dict) else {}, change)
        else:
            merged[name] = change
    return merged
