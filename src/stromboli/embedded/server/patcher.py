"""Patches of an object or of its status."""

from __future__ import annotations

from typing import Any

from stromboli import plain_json
from stromboli.api import merge_patch
from stromboli.api.timestamps import format_timestamp
from stromboli.embedded.kinds import Object
from stromboli.embedded.patches import (
    ApplyConflict,
    Manager,
    PatchError,
    PatchFailed,
    apply,
    apply_json_patch,
    apply_strategic_merge,
)
from stromboli.embedded.schema import DecodeError, FieldError
from stromboli.embedded.schema.field_errors import shown
from stromboli.embedded.status import StatusError, bad_request, invalid, not_found, unsupported_media_type
from stromboli.embedded.store import Record, Store

from .content import APPLY, JSON_PATCH, MERGE, PATCHES, STRATEGIC, media_type, read_json, read_yaml
from .messages import Request
from .options import WriteOptions, write_options
from .routes import Route
from .writer import Writer, Written


def patched(request: Request, route: Route, value: Object) -> Any:
    """The value with the patch of the request applied; raises a StatusError. Not for server-side apply."""
    kind = media_type(request)
    allowed = [one for one in PATCHES if not (route.type.is_custom and one == STRATEGIC)]
    if kind not in allowed or kind == APPLY:
        raise unsupported_media_type(allowed)
    patch = read_json(request.body)
    try:
        if kind == JSON_PATCH:
            return _not_deep(apply_json_patch(value, patch))
        if not isinstance(patch, dict):
            raise PatchError("a patch must be an object")
        if kind == MERGE:
            return merge_patch(value, patch)
        return apply_strategic_merge(value, patch, route.type.schema)
    except PatchError as error:
        raise bad_request(f"error decoding patch: {error}") from None
    except PatchFailed:
        message = "the server rejected our request due to an error in our request"
        raise StatusError(422, "Invalid", message) from None
    except RecursionError:
        raise bad_request("error decoding patch: it is nested too deeply") from None


def _not_deep(value: Any) -> Any:
    """Operations that move or copy can put a value inside of another, and that again. The other kinds of patches have
    each value where they leave it, so what they lead to is as deep as they are, or as the object was."""
    if plain_json.is_too_deep(value):
        raise PatchError(f"what it leads to is nested more than {plain_json.DEEPEST} levels deep")
    return value


class Patcher:
    def __init__(self, store: Store, writer: Writer) -> None:
        self._store = store
        self._writer = writer

    def patch(self, route: Route, request: Request, now: float) -> Written:
        kind = media_type(request)
        if kind == APPLY:
            return self._apply(route, request, now)
        options = write_options(request, "PatchOptions")
        record = self._store.get(route.key)
        if record is None:
            # A patch that cannot be applied to anything is reported as such first.
            patched(request, route, {})
            raise not_found(route.type.resource, route.name)
        original = record.value() | {"apiVersion": route.type.api_version}
        changed = patched(request, route, original)
        value, warnings = self._read(route, changed, original, options, request.body)
        uid = (value.get("metadata") or {}).get("uid", "")
        if uid and uid != record.metadata.uid:
            # In a replacement it would be a precondition; a patch that changes it is wrong, whoever came first.
            error = FieldError("FieldValueInvalid", "metadata.uid", f"Invalid value: {shown(uid)}: field is immutable")
            raise invalid(route.type.group, route.type.kind, route.name, [error])
        written = self._writer.update(route, record, value, options, now)
        return Written(written.value, written.created, (*warnings, *written.warnings), written.record)

    def _read(
        self, route: Route, changed: Any, original: Object, options: WriteOptions, patch: bytes
    ) -> tuple[Object, tuple[str, ...]]:
        """What a patch led to may be no object of the kind any more: then the patch is invalid. Only what the patch
        changed is read again; a kubelet writes the status of thousands of pods, and their spec stays as it is."""
        type = route.type
        unknown: list[str] = []
        try:
            if not isinstance(changed, dict):
                raise DecodeError("the result of the patch is not an object")
            for field, expected in (("kind", type.kind), ("apiVersion", type.api_version)):
                if changed.get(field) != expected:
                    raise DecodeError(f"{field} must not change: {shown(changed.get(field))}")
            same = {name: part for name, part in changed.items() if name in original and part == original[name]}
            different = {name: part for name, part in changed.items() if name not in same}
            value = self._writer.decode(type, different, unknown) | same
        except DecodeError as error:
            problem = f"Invalid value: {shown(patch[:200].decode(errors='replace'))}: {error}"
            errors = [FieldError("FieldValueInvalid", "patch", problem)]
            raise invalid(type.group, type.kind, route.name, errors) from None
        if unknown and options.validation == "Strict":
            problems = ", ".join(f'unknown field "{path}"' for path in unknown[:10])
            raise bad_request(f"error when creating patch: strict decoding error: {problems}")
        if options.validation == "Ignore":
            return value, ()
        return value, tuple(f'unknown field "{path}"' for path in unknown[:10])

    # -- server-side apply --------------------------------------------------------------------------------------------

    def _apply(self, route: Route, request: Request, now: float) -> Written:
        options = write_options(request, "PatchOptions", is_apply=True)
        body = read_yaml(request.body)
        if isinstance(body, dict):
            for field in ("apiVersion", "kind"):
                if not body.get(field):
                    raise bad_request(f"invalid object: {field} must be set in an applied configuration")
        value, warnings = self._writer.read(route.type, body, options)
        metadata = value["metadata"]
        if metadata.get("managedFields") is not None:
            raise bad_request("metadata.managedFields must be nil")
        if metadata.get("name", route.name) != route.name:
            raise bad_request(
                f"the name of the object ({metadata['name']}) does not match the name on the URL ({route.name})"
            )
        record = self._store.get(route.key)
        if record is None and route.subresource:
            raise not_found(route.type.resource, route.name)
        manager = Manager(options.manager, "Apply", route.type.api_version, route.subresource)
        written = self._merge(route, record, value, manager, options, now)
        return Written(written.value, written.created, (*warnings, *written.warnings), written.record)

    def _merge(
        self, route: Route, record: Record | None, value: Object, manager: Manager, options: WriteOptions, now: float
    ) -> Written:
        type = route.type
        stamp = format_timestamp(int(now))
        if route.subresource == "status":
            value = {name: part for name, part in value.items() if name in ("apiVersion", "kind", "metadata", "status")}
        elif type.has_status:
            value.pop("status", None)
        value["metadata"].setdefault("name", route.name)
        wanted = value["metadata"].pop("resourceVersion", "")
        if record is None:
            live: Object = {"apiVersion": type.api_version, "kind": type.kind, "metadata": {}}
            merged = apply(live, value, type.schema, manager, force=True, now=stamp)
            return self._writer.create(route, merged, options, now, managed=False)
        live = record.value() | {"apiVersion": type.api_version}
        try:
            merged = apply(live, value, type.schema, manager, force=options.force, now=stamp)
        except ApplyConflict as error:
            causes = [
                {"reason": "FieldManagerConflict", "message": f"conflict with {one.manager}", "field": one.field}
                for one in error.conflicts
            ]
            raise StatusError(409, "Conflict", str(error), {"causes": causes}) from None
        merged["metadata"]["resourceVersion"] = wanted or live["metadata"]["resourceVersion"]
        return self._writer.update(route, record, merged, options, now, managed=False)
