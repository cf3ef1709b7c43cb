"""CustomResourceDefinitions, and the resource types that they define."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Any, Final

import msgspec

from stromboli.api.timestamps import format_timestamp
from stromboli.embedded import names
from stromboli.embedded.schema import ANY, FieldError, Schema, SchemaError, custom_schema, with_metadata
from stromboli.embedded.schema.field_errors import invalid, required

from . import durations
from .custom import CustomStrategy
from .policies import too_long
from .strategy import AGE, NAME, Column, Context, Object, ResourceType, ScalePaths, Strategy, dig

CLEANUP_FINALIZER: Final = "customresourcecleanup.apiextensions.k8s.io"
_VERSION: Final = re.compile(r"v[1-9][0-9]*((alpha|beta)[1-9][0-9]*)?|[a-z]([-a-z0-9]*[a-z0-9])?")
_STEP: Final = re.compile(r"\.([A-Za-z0-9_-]+)|\['([^']+)'\]|\[(\d+)\]|(\[\?)")


class DefinitionStrategy(Strategy):
    columns = (NAME, Column("Created At", lambda obj, now: dig(obj, "metadata", "creationTimestamp", default="")))

    def default(self, obj: Object) -> None:
        spec = obj.get("spec") or {}
        defined = spec.get("names") or {}
        kind = defined.get("kind", "")
        if kind:
            defined.setdefault("singular", kind.lower())
            defined.setdefault("listKind", f"{kind}List")
        spec.setdefault("conversion", {"strategy": "None"})

    def before_create(self, obj: Object, context: Context) -> None:
        obj["status"] = _accepted(obj, format_timestamp(int(context.now)))
        obj["metadata"].setdefault("finalizers", [])
        if CLEANUP_FINALIZER not in obj["metadata"]["finalizers"]:
            obj["metadata"]["finalizers"].append(CLEANUP_FINALIZER)

    def before_update(self, obj: Object, old: Object, context: Context) -> None:
        status = dict(old.get("status") or {})
        accepted = _accepted(obj, format_timestamp(int(context.now)))
        status["acceptedNames"] = accepted["acceptedNames"]
        stored = list(status.get("storedVersions") or [])
        status["storedVersions"] = stored + [one for one in accepted["storedVersions"] if one not in stored]
        obj["status"] = status

    def validate(self, obj: Object) -> list[FieldError]:
        spec = obj.get("spec") or {}
        defined, group = spec.get("names") or {}, spec.get("group", "")
        errors: list[FieldError] = []
        expected = f"{defined.get('plural', '')}.{group}"
        if obj["metadata"].get("name") != expected:
            problem = 'must be spec.names.plural+"."+spec.group'
            errors.append(invalid("metadata.name", obj["metadata"].get("name", ""), problem))
        if "." not in group:
            errors.append(invalid("spec.group", group, "should be a domain with at least one dot"))
        elif problem := names.subdomain(group):
            errors.append(invalid("spec.group", group, problem))
        for field in ("plural", "singular"):
            if problem := names.label(defined.get(field, "")):
                errors.append(invalid(f"spec.names.{field}", defined.get(field, ""), problem))
        if problem := too_long(spec.get("versions")):
            return [*errors, invalid("spec.versions", "", problem)]
        return errors + _version_errors(spec)

    def validate_update(self, obj: Object, old: Object) -> list[FieldError]:
        return [
            invalid(f"spec.{'.'.join(path)}", dig(obj, "spec", *path), "field is immutable")
            for path in (("group",), ("scope",), ("names", "plural"), ("names", "kind"))
            if dig(obj, "spec", *path) != dig(old, "spec", *path)
        ]


def _version_errors(spec: Object) -> list[FieldError]:
    errors: list[FieldError] = []
    versions = spec.get("versions") or []
    for index, version in enumerate(versions):
        at = f"spec.versions[{index}]"
        if not _VERSION.fullmatch(version.get("name", "")):
            errors.append(invalid(f"{at}.name", version.get("name", ""), "must be a version such as v1 or v1beta1"))
        written = dig(version, "schema", "openAPIV3Schema")
        if written is None:
            errors.append(required(f"{at}.schema.openAPIV3Schema", "schemas are required"))
            continue
        try:
            custom_schema(written, f"{at}.schema.openAPIV3Schema", typed=True)
        except (SchemaError, RecursionError, TypeError) as error:
            path = error.path if isinstance(error, SchemaError) else f"{at}.schema.openAPIV3Schema"
            problem = error.problem if isinstance(error, SchemaError) else "is not a schema"
            errors.append(invalid(path, "", problem))
    storing = sum(bool(version.get("storage")) for version in versions)
    if storing != 1:
        errors.append(
            invalid("spec.versions", len(versions), "must have exactly one version marked as storage version")
        )
    return errors


def _accepted(definition: Object, now: str) -> Object:
    spec = definition.get("spec") or {}  # not validated yet
    conditions = [
        {
            "type": "NamesAccepted", "status": "True", "lastTransitionTime": now, "reason": "NoConflicts",
            "message": "no conflicts found",
        },
        {
            "type": "Established", "status": "True", "lastTransitionTime": now, "reason": "InitialNamesAccepted",
            "message": "the initial names have been accepted",
        },
    ]  # fmt: skip
    return {
        "conditions": conditions,
        "acceptedNames": spec.get("names") or {},
        "storedVersions": [one.get("name", "") for one in spec.get("versions") or () if one.get("storage")],
    }


def defined_types(definition: Object) -> list[ResourceType]:
    """The resource types of a definition, one for each served version."""
    spec = definition["spec"]
    defined = spec["names"]
    storage = next(one["name"] for one in spec["versions"] if one.get("storage"))
    types = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        has_status = isinstance(dig(version, "subresources", "status"), dict)
        strategy = CustomStrategy(
            group=spec["group"], version=version["name"], kind=defined["kind"], has_status=has_status,
            columns=_columns(version),
        )  # fmt: skip
        schema = _object_schema(version, strategy.known_rules)
        types.append(
            ResourceType(
                group=spec["group"],
                version=version["name"],
                plural=defined["plural"],
                kind=defined["kind"],
                namespaced=spec["scope"] == "Namespaced",
                schema=schema,
                strategy=strategy,
                short_names=tuple(defined.get("shortNames") or ()),
                categories=tuple(defined.get("categories") or ()),
                singular=defined.get("singular", ""),
                list_kind=defined.get("listKind", ""),
                has_status=has_status,
                scale=_scale(version),
                is_custom=True,
                storage_version=storage,
                warning=_deprecation(spec, version) if version.get("deprecated") else "",
            )
        )
    return types


def _object_schema(version: Object, known_rules: Collection[str]) -> Schema:
    schema = custom_schema(dig(version, "schema", "openAPIV3Schema", default={}), without=known_rules)
    whole = with_metadata(schema)
    # A definition may restrict names, and nothing else of the metadata.
    return whole if schema.properties or schema.open else with_metadata(ANY)


def _deprecation(spec: Object, version: Object) -> str:
    about = f"{spec['group']}/{version['name']} {spec['names']['kind']}"
    return str(version.get("deprecationWarning") or f"{about} is deprecated")


def _scale(version: Object) -> ScalePaths | None:
    written = dig(version, "subresources", "scale")
    if not isinstance(written, dict):
        return None
    parts = [
        tuple(str(written.get(field, "")).split(".")[1:])
        for field in ("specReplicasPath", "statusReplicasPath", "labelSelectorPath")
    ]
    return ScalePaths(*parts)


def _columns(version: Object) -> tuple[Column, ...]:
    written = version.get("additionalPrinterColumns")
    if not written:
        return (NAME, AGE)
    columns = [NAME]
    for one in written:
        columns.append(
            Column(
                one["name"],
                _cell(one["jsonPath"], one["type"]),
                type=one["type"],
                format=one.get("format", ""),
                description=one.get("description", ""),
                priority=one.get("priority", 0),
            )
        )
    return tuple(columns)


def _cell(json_path: str, kind: str) -> Any:
    """A value by the simple JSON paths that columns have: fields and indexes. Filters show nothing."""
    steps = [(found[1] or found[2], found[3], found[4]) for found in _STEP.finditer(json_path)]

    def cell(obj: Object, now: float) -> Any:
        value: Any = obj
        for name, index, other in steps:
            if other:
                return None
            if index and isinstance(value, list) and int(index) < len(value):
                value = value[int(index)]
            elif name and isinstance(value, dict):
                value = value.get(name)
            else:
                return None
        if value is None:
            return None
        if kind == "date":
            return durations.since(str(value), now)
        if kind == "string" and not isinstance(value, str):
            return msgspec.json.encode(value).decode()
        return value

    return cell
