"""What a patch makes of an object.

A scenario's patches are tried before the run, on the objects as their users wrote them, and carried out in
the run, on the objects as they are by then. Both go through here: the patch is merged into the object's
document and the result is read like any other document, so a patch can do no more than a new file could.
"""

from __future__ import annotations

import msgspec

from stromboli.api import ApiError, KObject, Pod, decode, key, merge_patch, names, validate_update

from .file import PatchOrder
from .lifetimes import take_lifetime


def patched(obj: KObject, order: PatchOrder) -> KObject:
    """The object as the patch makes it; raises ApiError if that is no valid object."""
    document = msgspec.to_builtins(obj)
    merged = merge_patch(document, order.patch)
    for name in ("apiVersion", "kind"):
        if merged.get(name) != document[name]:
            raise ApiError(name, "must not change")
    result = decode(merged)
    if key(result) != order.key or result.metadata.uid != obj.metadata.uid:
        raise ApiError("metadata", "name, namespace and uid must not change")
    if isinstance(obj, Pod) and isinstance(result, Pod) and obj.spec.node_name != result.spec.node_name:
        raise ApiError("spec.nodeName", "must not change: pods are bound by the scheduler")
    for name in (names.SIM_AT, names.SIM_UNTIL):
        if name in result.metadata.annotations:
            raise ApiError(f"metadata.annotations[{name}]", "must not be patched: it is read before the run")
    take_lifetime(result)  # for its checks of what is left about time
    validate_update(obj, result)
    return result


def patch_order(order: PatchOrder) -> tuple[int, str, str, bytes]:
    """By time and name; patches of one object at one moment in an order that no file order can change."""
    return (order.at, order.key, order.kind.__name__, msgspec.json.encode(order.patch, order="deterministic"))
