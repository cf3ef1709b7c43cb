"""Applying the patches of a scenario.

Patches are tried before the run, on the objects as they are in the files, and applied during the run, on the objects as
they are then. Both use this module: the patch is merged into the object's document and the result is decoded like any
other document, so a patch can do no more than a new file could.
"""

from __future__ import annotations

import msgspec

from stromboli.api import ApiError, KObject, Pod, decode, key, merge_patch, names, validate_update
from stromboli.api.upstream import as_written, translated

from .lifetimes import extract_lifetime
from .model import ScenarioPatch


def apply_patch(obj: KObject, patch: ScenarioPatch) -> KObject:
    """The patched object; raises ApiError if it is not valid."""
    before = as_written(obj)
    document = msgspec.to_builtins(before)
    merged = merge_patch(document, patch.patch)
    for name in ("apiVersion", "kind"):
        if merged.get(name) != document[name]:
            raise ApiError(name, "must not change")
    written = decode(merged)
    result = translated(written)
    if key(result) != patch.key or result.metadata.uid != obj.metadata.uid:
        raise ApiError("metadata", "name, namespace and uid must not change")
    if isinstance(obj, Pod) and isinstance(result, Pod) and obj.spec.node_name != result.spec.node_name:
        raise ApiError("spec.nodeName", "must not change: pods are bound by the scheduler")
    for name in (names.SIM_AT, names.SIM_UNTIL):
        if name in result.metadata.annotations:
            raise ApiError(f"metadata.annotations[{name}]", "must not be patched: it is read before the run")
    extract_lifetime(result)  # validates the remaining scenario annotations
    validate_update(before, written)
    return result


def patch_sort_key(patch: ScenarioPatch) -> tuple[int, str, str, bytes]:
    """By time and name. Patches of one object at the same time are ordered by content, so that the order of files does
    not matter."""
    return (patch.at, patch.key, patch.kind.__name__, msgspec.json.encode(patch.patch, order="deterministic"))
