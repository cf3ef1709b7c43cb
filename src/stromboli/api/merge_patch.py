"""JSON merge patch (RFC 7386).

A mapping is merged key by key, null deletes a key, and any other value, lists included, replaces the old one. The
document is not modified: the result shares with it what the patch does not mention.
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
            # Nulls are removed from a mapping that replaces another value, too: they mean "absent", never a value.
            merged[name] = merge_patch(present if isinstance(present, dict) else {}, change)
        else:
            merged[name] = change
    return merged
