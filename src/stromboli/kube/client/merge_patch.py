"""JSON merge patches that turn one version of an object into another: one for the object, one for its status.

A patch holds only what differs, so fields that we do not read stay as they are. The caller adds the resourceVersion
that the patch is based on: if somebody else changed the object first, the patch fails and the caller decides again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from stromboli.api import KObject

Patch = dict[str, Any]


def object_and_status_patches(before: KObject, after: KObject) -> tuple[Patch, Patch]:
    """The differences in the object and those in its status. Neither patch has a resourceVersion yet."""
    main: Patch = {}
    status: Patch = {}
    for field, name in zip(after.__struct_fields__, after.__struct_encode_fields__, strict=True):
        old, new = getattr(before, field), getattr(after, field)
        if old is new or old == new:
            continue
        patch = merge_patch_between({name: msgspec.to_builtins(old)}, {name: msgspec.to_builtins(new)})
        (status if name == "status" else main).update(patch)
    return main, status


def merge_patch_between(before: Mapping[str, Any], after: Mapping[str, Any]) -> Patch:
    """The JSON merge patch (RFC 7386) that turns `before` into `after`. Lists are replaced as a whole."""
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
