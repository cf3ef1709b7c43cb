"""What to send so that an object becomes what it should be: merge patches, one for the object and one for its status.

A patch says what differs and nothing else, so that what we do not read stays; and it says which version of the object
it was made for, so that it fails if somebody was faster. Then whoever wanted the change looks again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stromboli.api import KObject

Patch = dict[str, Any]


def differences(before: KObject, after: KObject) -> tuple[Patch, Patch]:
    """What differs in the object, and what in its status. Neither holds a version yet."""
    main: Patch = {}
    status: Patch = {}
    for field, name in zip(after.__struct_fields__, after.__struct_encode_fields__, strict=True):
        old, new = getattr(before, field), getattr(after, field)
        if old is new or old == new:
            continue
        whole = {name: msgspec.to_builtins(new)}
        patch = merge_patch_between({name: msgspec.to_builtins(old)}, whole)
        (status if name == "status" else main).update(patch)
    return main, status


def merge_patch_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Patch:
    """The JSON merge patch (RFC 7386) that makes one document of another. Lists are replaced as a whole."""
    patch: Patch = {}
    for name in before.keys() - after.keys():
        patch[name] = None
    for name, new in after.items():
        old = before.get(name)
        if old == new and name in before:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            patch[name] = merge_patch_between(old, new)
        else:
            patch[name] = new
    return dict(sorted(patch.items()))
