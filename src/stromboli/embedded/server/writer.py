"""Writes: creating an object, and changing one as a whole or through its status."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

import msgspec

from stromboli import plain_json
from stromboli.api.timestamps import format_timestamp
from stromboli.embedded import names
from stromboli.embedded.admission import Admission, Review
from stromboli.embedded.kinds import Context, Object, ResourceType, dig
from stromboli.embedded.patches import Manager, record_update
from stromboli.embedded.schema import (
    DecodeError,
    FieldError,
    apply_defaults,
    builtin_types,
    decode,
    prune,
    rule_errors,
    validate_builtin,
    validate_custom,
)
from stromboli.embedded.schema.field_errors import forbidden as field_forbidden
from stromboli.embedded.schema.field_errors import invalid as field_invalid
from stromboli.embedded.status import already_exists, bad_request, conflict, forbidden, invalid, not_found, too_large
from stromboli.embedded.store import ObjectKey, Record, Store
from stromboli.listeners import API_LIMITS

from .options import WriteOptions
from .routes import Route

_SUFFIX: Final = "bcdfghjklmnpqrstvwxz2456789"  # as Kubernetes: no vowels, so that no words come out
_LONGEST_PREFIX: Final = 58
_KEPT: Final = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation")


@dataclass(frozen=True, slots=True)
class Written:
    """What a write led to: the object as it is now (or would be, in a dry run), and warnings for the client."""

    value: Object
    created: bool = False
    warnings: tuple[str, ...] = ()
    record: Record | None = None  # None in a dry run

    def data(self) -> bytes:
        return self.record.data if self.record is not None else msgspec.json.encode(self.value)


class Writer:
    def __init__(self, store: Store, admission: Admission, random: Random, scheduler_name: str = "") -> None:
        self._store = store
        self._admission = admission
        self._random = random
        self._scheduler_name = scheduler_name

    def context(self, now: float) -> Context:
        return Context(self._store, self._random, now, self._scheduler_name)

    # -- decoding -----------------------------------------------------------------------------------------------------

    def read(self, type: ResourceType, body: Any, options: WriteOptions) -> tuple[Object, tuple[str, ...]]:
        """The object of a request in the form of its schema, and warnings. Raises a StatusError."""
        if not isinstance(body, dict):
            raise bad_request(f"the object provided is unrecognized: a {type.kind} must be an object")
        api_version, kind = body.get("apiVersion") or type.api_version, body.get("kind") or type.kind
        if kind != type.kind:
            raise bad_request(
                f'{str(kind)[:100]} in version "{type.version}" cannot be handled as a {type.kind}: the kind in the '
                f"data does not match the expected kind"
            )
        if api_version != type.api_version:
            raise bad_request(
                f"the API version in the data ({str(api_version)[:100]}) does not match the expected API version "
                f"({type.api_version})"
            )
        unknown: list[str] = []
        try:
            value = self.decode(type, body, unknown)
        except DecodeError as error:
            raise _unreadable(type, str(error)) from None
        if unknown and options.validation == "Strict":
            problems = ", ".join(f'unknown field "{path}"' for path in unknown[:10])
            raise _unreadable(type, f"strict decoding error: {problems}")
        warnings = () if options.validation == "Ignore" else tuple(f'unknown field "{path}"' for path in unknown[:10])
        return value, (*warnings, *((type.warning,) if type.warning else ()))

    @staticmethod
    def decode(type: ResourceType, body: Object, unknown: list[str] | None = None) -> Object:
        """Raises DecodeError."""
        body = {**body, "apiVersion": type.api_version, "kind": type.kind}
        if not isinstance(body.get("metadata", {}) or {}, dict):
            raise DecodeError("json: cannot unmarshal into Go struct field metadata of type v1.ObjectMeta")
        if type.is_custom:
            metadata = decode(body.get("metadata") or {}, builtin_types()["ObjectMeta"], "metadata", unknown)
            value: Object = prune({**body, "metadata": {}}, type.schema, "", unknown)
            value["metadata"] = metadata
        else:
            value = decode(body, type.schema, "", unknown)
            value.setdefault("metadata", {})
        return value

    # -- creating -----------------------------------------------------------------------------------------------------

    def create(
        self, route: Route, value: Object, options: WriteOptions, now: float, *, managed: bool = True
    ) -> Written:
        """Create an object that `read` has read. Without `managed`, its managedFields are complete already."""
        type, strategy = route.type, route.type.strategy
        metadata = value["metadata"]
        self._set_names(route, metadata)
        self._check_namespace(route, metadata.get("name", ""))
        if metadata.get("resourceVersion") not in (None, "", "0"):
            raise bad_request("resourceVersion should not be set on objects to be created")
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "generation", "resourceVersion"):
            metadata.pop(field, None)
        metadata.pop("uid", None)
        self._fill_in(type, value)
        if managed:
            # Before the server adds anything of its own: that belongs to nobody.
            metadata.pop("managedFields", None)
            manager = Manager(options.manager, "Update", type.api_version)
            status = {"status": value.pop("status")} if type.has_status and "status" in value else {}
            record_update(None, value, type.schema, manager, format_timestamp(int(now)))
            value |= status
        value = self._mutated(route, options, value, None)
        metadata = value["metadata"]
        metadata["uid"] = str(uuid.UUID(int=self._random.getrandbits(128), version=4))
        metadata["creationTimestamp"] = format_timestamp(int(now))
        if strategy.counts_generations:
            metadata["generation"] = 1
        strategy.before_create(value, self.context(now))
        errors = _metadata_errors(type, metadata) + _schema_errors(type, value)
        warnings: list[str] = []
        if not errors:
            errors, warnings = _rule_errors(type, value)
            errors += strategy.validate(value)
        if errors:
            raise invalid(type.group, type.kind, metadata.get("name", ""), errors)
        key = ObjectKey(type.resource, route.namespace, metadata["name"])
        if self._store.get(key) is not None:
            raise already_exists(type.resource, key.name)
        warnings += self._admission.validate(_review("CREATE", route, options, value, None))
        written = self._store_value(key, value, type, options, created=True)
        return replace(written, warnings=(*written.warnings, *warnings))

    @staticmethod
    def _fill_in(type: ResourceType, value: Object) -> None:
        apply_defaults(value, type.schema)
        type.strategy.default(value)

    def _mutated(self, route: Route, options: WriteOptions, value: Object, old: Object | None) -> Object:
        """As admission policies change it."""
        if not self._admission.mutates:
            return value

        def reread(changed: Object) -> Object:
            # A policy may add to what it added before, each time that an object is written.
            if plain_json.is_too_deep(changed):
                raise _unreadable(route.type, f"it is nested more than {plain_json.DEEPEST} levels deep")
            if len(msgspec.json.encode(changed)) > API_LIMITS.body_bytes:
                raise too_large(API_LIMITS.body_bytes)
            unknown: list[str] = []
            try:
                made = self.decode(route.type, changed, unknown)
            except DecodeError as error:
                raise _unreadable(route.type, str(error)) from None
            if unknown and not route.type.is_custom:
                problems = ", ".join(f'unknown field "{path}"' for path in unknown[:10])
                raise _unreadable(route.type, f"strict decoding error: {problems}")
            self._fill_in(route.type, made)
            return made

        operation = "CREATE" if old is None else "UPDATE"
        given = {**value["metadata"]}
        value = self._admission.mutate(_review(operation, route, options, value, old), reread)
        metadata = value["metadata"]
        for field in ("name", "namespace"):
            if metadata.get(field) != given.get(field):
                raise bad_request(f"a policy must not change the {field} of an object")
        for field in (*_KEPT, "resourceVersion"):
            metadata.pop(field, None)
            if field in given:
                metadata[field] = given[field]
        return value

    def _set_names(self, route: Route, metadata: Object) -> None:
        given = metadata.get("namespace", "")
        if route.type.namespaced:
            if given and given != route.namespace:
                raise bad_request(
                    "the namespace of the provided object does not match the namespace sent on the request"
                )
            metadata["namespace"] = route.namespace
        elif given:
            raise bad_request("namespace is not allowed on this type")
        if not metadata.get("name") and metadata.get("generateName"):
            prefix = metadata["generateName"][:_LONGEST_PREFIX]
            metadata["name"] = prefix + "".join(self._random.choice(_SUFFIX) for _ in range(5))

    def _check_namespace(self, route: Route, name: str) -> None:
        if not route.type.namespaced:
            return
        record = self._store.get(ObjectKey("namespaces", "", route.namespace))
        if record is None:
            raise not_found("namespaces", route.namespace)
        if record.metadata.deletion_timestamp is not None:
            problem = f"unable to create new content in namespace {route.namespace} because it is being terminated"
            message = f"namespace {route.namespace} is being terminated"
            cause = {"reason": "NamespaceTerminating", "message": message, "field": "metadata.namespace"}
            raise forbidden(route.type.resource, name, problem, [cause])

    # -- updating -----------------------------------------------------------------------------------------------------

    def update(
        self, route: Route, record: Record, value: Object, options: WriteOptions, now: float, *, managed: bool = True
    ) -> Written:
        """Replace an object by one that `read` has read; with the subresource status, replace its status only."""
        type, strategy = route.type, route.type.strategy
        old = record.value() | {"apiVersion": type.api_version}
        metadata = value["metadata"]
        self._check_identity(route, record, metadata)
        if route.subresource == "status":
            value = _with_new_status(type, old, value)
            metadata = value["metadata"]
        elif type.has_status:
            value.pop("status", None)
            if "status" in old:
                value["status"] = old["status"]
        for field in _KEPT:
            metadata.pop(field, None)
            if field in old["metadata"]:
                metadata[field] = old["metadata"][field]
        metadata |= {"name": route.name, "resourceVersion": old["metadata"]["resourceVersion"]}
        if route.namespace:
            metadata["namespace"] = route.namespace
        if route.subresource != "status":
            self._fill_in(type, value)
        if managed:
            manager = Manager(options.manager, "Update", type.api_version, route.subresource)
            record_update(old, value, type.schema, manager, format_timestamp(int(now)))
        value = self._mutated(route, options, value, old)
        metadata = value["metadata"]
        if route.subresource != "status":
            strategy.before_update(value, old, self.context(now))
            if strategy.counts_generations and _spec(type, value) != _spec(type, old):
                metadata["generation"] = metadata.get("generation", 0) + 1
        warnings = self._validate_update(route, value, old)
        warnings += self._admission.validate(_review("UPDATE", route, options, value, old))
        if value == old:
            return Written(old, warnings=tuple(warnings), record=record)
        if is_finished(value):
            if not options.dry_run:
                self._store.delete(record.key, value)
            return Written(value, warnings=tuple(warnings))
        written = self._store_value(record.key, value, type, options)
        return replace(written, warnings=(*written.warnings, *warnings))

    def _check_identity(self, route: Route, record: Record, metadata: Object) -> None:
        type = route.type
        name, namespace = metadata.get("name", route.name), metadata.get("namespace", route.namespace)
        if name != route.name:
            raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({route.name})")
        if namespace != route.namespace:
            raise bad_request(
                f"the namespace of the object ({namespace}) does not match the namespace on the request "
                f"({route.namespace})"
            )
        version = metadata.get("resourceVersion", "")
        if not version and type.is_custom:
            problem = FieldError(
                "FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0x0: must be specified for an update"
            )
            raise invalid(type.group, type.kind, route.name, [problem])
        if version and version != str(record.version):
            raise conflict(type.resource, route.name)
        uid = metadata.get("uid", "")
        if uid and uid != record.metadata.uid:
            problem_text = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {record.metadata.uid}"
            raise conflict(type.resource, route.name, problem_text)

    def _validate_update(self, route: Route, value: Object, old: Object) -> list[str]:
        """Warnings. Raises StatusError."""
        type, strategy = route.type, route.type.strategy
        errors = _metadata_errors(type, value["metadata"]) + _schema_errors(type, value, old)
        warnings: list[str] = []
        if not errors:
            errors, warnings = _rule_errors(type, value, old)
            if route.subresource == "status":
                errors += strategy.validate_status(value, old)
            else:
                if strategy.is_judged_again(value, old):
                    errors += strategy.validate(value)
                errors += strategy.validate_update(value, old)
        errors += _finalizer_errors(value["metadata"], old["metadata"])
        if errors:
            raise invalid(type.group, type.kind, route.name, errors)
        return warnings

    def _store_value(
        self, key: ObjectKey, value: Object, type: ResourceType, options: WriteOptions, *, created: bool = False
    ) -> Written:
        if options.dry_run:
            return Written(value, created)
        if type.version == type.storage_version:
            record = self._store.put(key, value)
            return Written(value, created, record=record)
        self._store.put(key, {**value, "apiVersion": type.stored_api_version})
        return Written(value, created)


def _metadata_errors(type: ResourceType, metadata: Object) -> list[FieldError]:
    builtin = not type.is_custom and type.group != "apiextensions.k8s.io"
    return names.validate_metadata(metadata, type.strategy.name_rule, builtin=builtin)


def is_finished(value: Object) -> bool:
    """Whether an object that is being deleted has nothing left that keeps it."""
    metadata = value["metadata"]
    return (
        metadata.get("deletionTimestamp") is not None
        and not metadata.get("finalizers")
        and not metadata.get("deletionGracePeriodSeconds")
        and not (value.get("kind") == "Namespace" and dig(value, "spec", "finalizers"))
    )


def _unreadable(type: ResourceType, problem: str) -> Exception:
    return bad_request(f'{type.kind} in version "{type.version}" cannot be handled as a {type.kind}: {problem}')


def _schema_errors(type: ResourceType, value: Object, old: Object | None = None) -> list[FieldError]:
    """What breaks the schema. What an object had before need not be checked again."""
    if not type.is_custom:
        if old is None:
            return validate_builtin(value, type.schema)
        changed = {name: part for name, part in value.items() if part != old.get(name)}
        errors = validate_builtin(changed, type.schema)
        return [error for error in errors if error.field not in value or error.field in changed]
    return validate_custom({name: part for name, part in value.items() if name != "metadata"}, type.schema)


def _rule_errors(type: ResourceType, value: Object, old: Object | None = None) -> tuple[list[FieldError], list[str]]:
    """What breaks a rule of the definition, and warnings of what did so before."""
    return rule_errors(value, type.schema, old) if type.is_custom else ([], [])


def _review(operation: str, route: Route, options: WriteOptions, value: Object, old: Object | None) -> Review:
    return Review(
        operation=operation,
        type=route.type,
        namespace=route.namespace,
        name=value["metadata"].get("name", ""),
        user=options.user,
        subresource=route.subresource,
        dry_run=options.dry_run,
        object=value,
        old=old,
    )


def _spec(type: ResourceType, value: Object) -> Any:
    """What a generation is a generation of."""
    if not type.is_custom:
        if "spec" in value:
            return value["spec"]
        return {name: part for name, part in value.items() if name not in ("metadata", "status")}
    ignored = ("metadata", "status") if type.has_status else ("metadata",)
    return {name: part for name, part in value.items() if name not in ignored}


def _with_new_status(type: ResourceType, old: Object, given: Object) -> Object:
    """The old object with the given status. Built-in kinds also take changes of the metadata."""
    value = {**old}
    value.pop("status", None)
    if "status" in given:
        value["status"] = given["status"]
    metadata = {**old["metadata"]}
    if not type.is_custom:
        for field in ("labels", "annotations", "finalizers"):
            metadata.pop(field, None)
            if field in given["metadata"]:
                metadata[field] = given["metadata"][field]
    if "managedFields" in given["metadata"]:
        metadata["managedFields"] = given["metadata"]["managedFields"]
    value["metadata"] = metadata
    return value


def _finalizer_errors(metadata: Object, old: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    if old.get("deletionTimestamp") is not None:
        added = [one for one in metadata.get("finalizers") or () if one not in (old.get("finalizers") or ())]
        if added:
            listed = ", ".join(f'"{one}"' for one in added)
            problem = (
                "no new finalizers can be added if the object is being deleted, found new finalizers "
                f"[]string{{{listed}}}"
            )
            errors.append(field_forbidden("metadata.finalizers", problem))
    if old.get("generateName", "") != metadata.get("generateName", "") and metadata.get("generateName"):
        errors.append(field_invalid("metadata.generateName", metadata["generateName"], "field is immutable"))
    return errors
