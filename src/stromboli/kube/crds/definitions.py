"""Generates the CustomResourceDefinitions from the types that we decode the objects with.

Schemas kept by hand would drift apart from the types; then the server would drop a field that we read, or accept an
object that we cannot decode. So the schemas are generated: `python -m stromboli.kube.crds deploy` writes them, and a
test compares.

A server drops fields that a schema does not name. For our own kinds that is right: so users notice a misspelt field. In
pod templates it would be harmful, because our types hold only what scheduling reads; so everything below a template
keeps unknown fields, and still has the types of the fields that we read.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec.inspect as types
from msgspec import Struct

from stromboli.api import (
    ApiObject,
    Command,
    CronJob,
    HyperNode,
    Job,
    JobFlow,
    JobTemplate,
    PodGroup,
    PodTemplateSpec,
    Queue,
    Reservation,
)
from stromboli.api.rules import RULES, Door, Rule
from stromboli.api.rules.rule import DEFINITIONS, POLICIES
from stromboli.api.rules.walk import TEMPLATES
from stromboli.api.validation.limits import MAX_RESOURCES
from stromboli.kube.client import Resource, resource_of

from .descriptions import DESCRIPTIONS
from .schema_facets import DURATION, FACETS, QUANTITY, Schema
from .yaml_files import text

RULES_KEY: Final = "x-kubernetes-validations"
OPEN: Final = "x-kubernetes-preserve-unknown-fields"
NEWEST: Final = (1, 99)


@dataclass(frozen=True)
class _Kind:
    """How users see a kind: its description, its short names, and the columns of `kubectl get`."""

    type: type[ApiObject]
    description: str
    short_names: tuple[str, ...]
    columns: tuple[tuple[str, str, str], ...]


_AGE = ("AGE", "date", ".metadata.creationTimestamp")

_KINDS: Final = (
    _Kind(
        Queue,
        "A share of the cluster that jobs are put into.",
        ("q", "queue-v1beta1"),
        (
            ("STATE", "string", ".status.state"),
            ("WEIGHT", "integer", ".spec.weight"),
            ("PARENT", "string", ".spec.parent"),
            ("CPU", "string", ".status.allocated.cpu"),
            ("MEMORY", "string", ".status.allocated.memory"),
            ("RUNNING", "integer", ".status.running"),
            ("PENDING", "integer", ".status.pending"),
            _AGE,
        ),
    ),
    _Kind(
        PodGroup,
        "Pods that are scheduled together: at least minMember of them, or none.",
        ("pg", "podgroup-v1beta1"),
        (
            ("STATUS", "string", ".status.phase"),
            ("minMember", "integer", ".spec.minMember"),
            ("RUNNINGS", "integer", ".status.running"),
            ("QUEUE", "string", ".spec.queue"),
            _AGE,
        ),
    ),
    _Kind(
        Job,
        "A batch job: tasks with their pods, and what to do when one of them fails.",
        ("vcjob", "vj"),
        (
            ("STATUS", "string", ".status.state.phase"),
            ("minAvailable", "integer", ".spec.minAvailable"),
            ("RUNNINGS", "integer", ".status.running"),
            ("QUEUE", "string", ".spec.queue"),
            _AGE,
        ),
    ),
    _Kind(
        CronJob,
        "Creates a Job whenever its schedule says so.",
        ("cronvcjob", "cronvj"),
        (
            ("SCHEDULE", "string", ".spec.schedule"),
            ("TIMEZONE", "string", ".spec.timeZone"),
            ("SUSPEND", "boolean", ".spec.suspend"),
            ("LAST SCHEDULE", "date", ".status.lastScheduleTime"),
            _AGE,
        ),
    ),
    _Kind(
        JobFlow,
        "Creates Jobs from templates, each when those that it depends on are done.",
        ("jf",),
        (("STATUS", "string", ".status.state.phase"), _AGE),
    ),
    _Kind(JobTemplate, "A Job that is created when a JobFlow names it.", ("jt",), (_AGE,)),
    _Kind(
        Command,
        "A request to act once on a Job or a Queue.",
        (),
        (
            ("ACTION", "string", ".action"),
            ("KIND", "string", ".target.kind"),
            ("TARGET", "string", ".target.name"),
            _AGE,
        ),
    ),
    _Kind(
        Reservation,
        "Room on a node, set aside for pods that are still to come.",
        ("resv",),
        (
            ("PHASE", "string", ".status.phase"),
            ("NODE", "string", ".status.nodeName"),
            ("HELD", "string", ".status.allocatable"),
            ("USED", "string", ".status.allocated"),
            ("QUEUE", "string", ".spec.queue"),
            ("TTL", "string", ".spec.ttl"),
            _AGE,
        ),
    ),
    _Kind(
        HyperNode,
        "Nodes that are close together, such as those of a rack.",
        ("hn",),
        (
            ("TIER", "integer", ".spec.tier"),
            ("TIERNAME", "string", ".spec.tierName"),
            ("NODECOUNT", "integer", ".status.nodeCount"),
            _AGE,
        ),
    ),
)


def definitions(server: tuple[int, int] = NEWEST) -> dict[str, Schema]:
    """Every definition by its name, such as `queues.scheduling.volcano.sh`, for that version of Kubernetes."""
    made = (_definition(kind, resource_of(kind.type), server) for kind in _KINDS)
    return {definition["metadata"]["name"]: definition for definition in made}


BEFORE_RULES: Final = f"overlays/before-1.{DEFINITIONS[1]}"
WITH_FIELDS: Final = f"components/since-1.{POLICIES[1]}"


def files() -> dict[str, str]:
    """The generated files of `deploy/`, by path.

    The definitions have the rules that every server from 1.25 on accepts. In addition there are JSON patches: one set
    removes the rules for older servers, because `kubectl apply` refuses fields that the server does not know; another
    makes them name the field, which newer servers can, and removes those that policies have for them, with values in
    their sentences: in a definition, such a sentence would cost more than servers allow.
    """
    usual = definitions(DEFINITIONS)
    written = {f"{_folder(definition)}/{name}.yaml": text(definition) for name, definition in usual.items()}
    for folder, others in ((BEFORE_RULES, definitions((1, DEFINITIONS[1] - 1))), (WITH_FIELDS, definitions())):
        for name, other in others.items():
            steps = list(_steps(usual[name], other))
            if steps:
                written[f"{folder}/{name}.yaml"] = text(steps)
    return written


def _folder(definition: Schema) -> str:
    # Reservations are not part of Volcano: a cluster with Volcano's definitions needs only this one of ours.
    return "crds/reservations" if definition["spec"]["names"]["kind"] == Reservation.__name__ else "crds"


def _definition(kind: _Kind, resource: Resource[Any], server: tuple[int, int]) -> Schema:
    group, _, version = resource.group_version.partition("/")
    name = kind.type.__name__
    schema = _Schemas(server, in_template=kind.type in TEMPLATES).struct(types.type_info(kind.type))
    schema["description"] = kind.description
    # The server defines these, and describes metadata.
    schema["properties"] |= {
        "apiVersion": {"description": f"{resource.group_version}.", "type": "string"},
        "kind": {"description": f"{name}.", "type": "string"},
        "metadata": {"type": "object"},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{resource.plural}.{group}"},
        "spec": {
            "group": group,
            "names": {
                "kind": name,
                "listKind": f"{name}List",
                "plural": resource.plural,
                "singular": name.lower(),
                **({"shortNames": list(kind.short_names)} if kind.short_names else {}),
            },
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "additionalPrinterColumns": [
                        {"name": title, "type": shown_as, "jsonPath": path} for title, shown_as, path in kind.columns
                    ],
                    **({"subresources": {"status": {}}} if resource.has_status else {}),
                    "schema": {"openAPIV3Schema": schema},
                }
            ],
        },
    }


@dataclass(frozen=True)
class _Schemas:
    """Builds schemas for one version of Kubernetes."""

    server: tuple[int, int]
    in_template: bool = False
    """Of an object that is made later: nothing there is fixed."""

    def struct(self, info: types.Type, pod_path: str | None = None) -> Schema:
        """`pod_path`: in a pod template, the path from it. The server validates templates when it creates the pods."""
        assert isinstance(info, types.StructType)
        kind: type[Struct] = info.cls
        is_ours = pod_path is None
        if kind is PodTemplateSpec:
            pod_path = "pod"
        schema: Schema = {"type": "object"}
        required = [field.encode_name for field in info.fields if field.required]
        if required:
            schema["required"] = required
        if pod_path is not None:
            schema[OPEN] = True
        schema["properties"] = {field.encode_name: self._field(field, pod_path) for field in info.fields}
        if is_ours:
            _merge(schema, FACETS.get(kind, {}))
            for name, description in DESCRIPTIONS.get(kind, {}).items():
                # First, as people read it.
                schema["properties"][name] = {"description": description} | schema["properties"][name]
            self._add_rules(schema, kind)
        return schema

    def _field(self, field: types.Field, pod_path: str | None) -> Schema:
        if pod_path is None:
            schema = self._schema(field.type, None)
        else:
            here = f"{pod_path}.{field.encode_name}"
            schema = {"description": f"See kubectl explain {here}."} | self._schema(field.type, here)
        if field.encode_name.endswith(("Time", "Timestamp")):
            # Go clients write an unset time as null. In a template, nobody reads it.
            schema |= {"format": "date-time", "nullable": True} if pod_path is None else {"nullable": True}
        return schema

    def _schema(self, info: types.Type, pod_path: str | None) -> Schema:
        match info:
            case types.StrType():
                return {"type": "string"}
            case types.IntType():
                return {"type": "integer", "format": "int32" if pod_path is None else "int64"}
            case types.BoolType():
                return {"type": "boolean"}
            case types.StructType():
                inside = self if info.cls not in TEMPLATES else replace(self, in_template=True)
                return inside.struct(info, pod_path)
            case types.ListType(item_type=item):
                return {"type": "array", "items": self._schema(item, pod_path)}
            case types.DictType(value_type=types.AnyType()):
                return {"type": "object", OPEN: True}
            case types.DictType(value_type=types.UnionType()):
                return {
                    "type": "object",
                    "maxProperties": MAX_RESOURCES,
                    "additionalProperties": copy.deepcopy(QUANTITY),
                }
            case types.DictType(value_type=value):
                return {"type": "object", "additionalProperties": self._schema(value, pod_path)}
            case types.UnionType():
                parts = [part for part in info.types if not isinstance(part, types.NoneType)]
                return self._schema(parts[0], pod_path) if len(parts) == 1 else copy.deepcopy(DURATION)
        raise TypeError(f"there is no schema for {info}")

    def _add_rules(self, schema: Schema, kind: type[Struct]) -> None:
        rules = [
            rule
            for rule in RULES
            if rule.on is kind
            and rule.door_on(self.server) is Door.DEFINITION
            and not (rule.on_update and self.in_template)
        ]
        if rules:
            schema[RULES_KEY] = [self._rule(rule) for rule in rules]

    def _rule(self, rule: Rule) -> Schema:
        if self.server < POLICIES:
            return {"rule": rule.cel, "message": rule.message}
        return {
            "rule": rule.cel,
            "message": rule.must,
            **({"fieldPath": f".{rule.field}"} if rule.field else {}),
        }


def _merge(schema: Schema, facets: Schema) -> None:
    for name, facet in facets.items():
        if isinstance(facet, dict) and isinstance(schema.get(name), dict):
            _merge(schema[name], facet)
        elif name == "type":
            # The facet replaces the generated schema.
            schema.clear()
            schema[name] = facet
        else:
            schema[name] = copy.deepcopy(facet)


def _steps(before: Schema, after: Schema) -> Iterator[Schema]:
    """The JSON patch operations that turn one definition into the other."""
    had, has = dict(_rules(before)), dict(_rules(after))
    for path in had:
        if path not in has:
            yield {"op": "remove", "path": path}
    for path, rules in has.items():
        if path not in had:
            yield {"op": "add", "path": path, "value": rules}
        elif rules != had[path]:
            yield {"op": "replace", "path": path, "value": rules}


def _rules(node: Any, path: str = "") -> Iterator[tuple[str, list[Schema]]]:
    """Every list of rules in a definition, with its JSON pointer."""
    parts = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, part in parts:
        if name == RULES_KEY:
            yield f"{path}/{name}", part
        else:
            yield from _rules(part, f"{path}/{name}")
