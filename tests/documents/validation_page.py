"""The tables of docs/validation.md, from the rules and schemas. As a program (`python -m documents.validation_page` in
tests) it prints them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stromboli.api import kinds
from stromboli.api.rules import RULES, UNSEEN, Door, Rule
from stromboli.api.rules.requests import REQUEST_RULES
from stromboli.api.rules.walk import Part, parts
from stromboli.kube.crds import definitions

_ROOTS = (
    kinds.Queue, kinds.PodGroup, kinds.Job, kinds.CronJob, kinds.JobFlow, kinds.Command, kinds.Reservation,
    kinds.HyperNode, kinds.Pod,
)  # fmt: skip
_OF_JOBS = "job_template"  # of a CronJob: the page says once that the rules of Jobs hold there
_LONGEST = 300  # characters of a pattern that is shown
_DOORS = {Door.DEFINITION: "1.25", Door.POLICY: "1.30"}


def rule_rows() -> list[str]:
    rows = [row for rule in RULES for row in _rows(rule)]
    for one in REQUEST_RULES:
        when = {("CREATE",): "created", ("CREATE", "UPDATE"): "created, changed", ("DELETE",): "deleted"}
        what = f"{one.must} (a warning)" if one.only_warns else one.must
        rows.append(f"| {one.kind} | `{one.field}` | {when[one.operations]} | {what} | *door*, 1.30 |")
    return list(dict.fromkeys(rows))


def _rows(rule: Rule) -> Iterator[str]:
    when = "changed" if rule.on_update else "created, changed"
    # Of a JobTemplate, what is not said of Jobs.
    for kind in (*_ROOTS, *([kinds.JobTemplate] if rule.on is kinds.JobTemplate else [])):
        for path in _paths(kind, rule):
            field = ".".join(part.name + ("[]" if part.container else "") for part in path)
            field = ".".join(filter(None, (field, rule.field)))
            yield f"| {kind.__name__} | `{field}` | {when} | {rule.must} | *door*, {_DOORS[rule.door]} |"


def _paths(kind: type, rule: Rule) -> Iterator[tuple[Part, ...]]:
    if kind is rule.on:
        yield ()
    for part in parts(kind, frozenset({rule.on})):
        if part.attribute == _OF_JOBS:
            continue
        for rest in _paths(part.kind, rule):
            yield (part, *rest)


def controller_rows() -> list[str]:
    return [f"| {one.kind} | `{one.field}` | {one.must} | {one.because} |" for one in UNSEEN]


def field_rows() -> list[str]:
    rows = []
    for definition in definitions().values():
        kind = definition["spec"]["names"]["kind"]
        if kind == "JobTemplate":  # as a Job
            continue
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        rows += [f"| {kind} | `{field}` | {must} |" for field, must in _fields(schema, "") if field[:6] != "status"]
    return list(dict.fromkeys(rows))


def _fields(schema: dict[str, Any], path: str) -> Iterator[tuple[str, str]]:
    if path.endswith((".template", "volumeClaim", ".jobTemplate.spec")):
        return
    words = "; ".join(_words(schema))
    if words and path:
        yield path, words
    for name in schema.get("required", ()):
        yield f"{path}.{name}".removeprefix("."), "is required"
    for name, part in schema.get("properties", {}).items():
        yield from _fields(part, f"{path}.{name}".removeprefix("."))
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield from _fields(schema[name], f"{path}[]")


def _words(schema: dict[str, Any]) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    if schema.get("x-kubernetes-int-or-string"):
        yield "an amount, 0 or more" if "Ki" in schema["pattern"] or "KMGTPE" in schema["pattern"] else "a duration"
        return
    if low is not None:
        yield f"{low} or more" if high is None else f"from {low} to {high}"
    if "enum" in schema:
        yield "one of " + ", ".join(f"`{one}`" for one in schema["enum"] if one)
    if "pattern" in schema and len(schema["pattern"]) > _LONGEST:
        yield "matches a pattern"
    elif "pattern" in schema:
        yield f"matches `{schema['pattern']}`".replace("|", "\\|")
    for facet, words in (
        ("minLength", "at least {} character"), ("maxLength", "at most {} characters"),
        ("minItems", "at least {}"), ("maxItems", "at most {}"), ("maxProperties", "at most {} names"),
    ):  # fmt: skip
        if facet in schema:
            yield words.format(schema[facet])


if __name__ == "__main__":
    for rows in (rule_rows(), controller_rows(), field_rows()):
        print("\n".join(rows), end="\n\n")
