"""What the embedded server says of an object: the rules of our definitions and policies, as it evaluates them."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from stromboli.api.rules import Door
from stromboli.embedded.cel import Budget, compiled
from stromboli.embedded.schema import Schema, custom_schema, rule_errors
from stromboli.kube.crds import validating_policies
from stromboli.kube.crds.definitions import NEWEST, definitions
from validation.cel_rules import Document, Found, seen_by_a_server

STEPS = 10_000_000


@cache
def _schemas() -> dict[str, Schema]:
    """As servers since 1.30 have them: with the field that a rule is about."""
    return {
        one["spec"]["names"]["kind"]: custom_schema(one["spec"]["versions"][0]["schema"]["openAPIV3Schema"])
        for one in definitions((1, 36)).values()
    }


@cache
def _policies() -> dict[str, list[dict[str, Any]]]:
    """The validations of the policies that are about an object alone, by the plural of its kind."""
    found = [one for one in validating_policies() if one["kind"] == "ValidatingAdmissionPolicy"]
    return {
        one["metadata"]["name"].removeprefix("stromboli-"): one["spec"]["validations"]
        for one in found
        if one["spec"].get("matchConditions")
    }


def said_by_the_embedded_server(document: Document, was: Document | None = None) -> set[tuple[str, str]]:
    """Every field and sentence."""
    now, before = seen_by_a_server(document), None if was is None else seen_by_a_server(was)
    schema = _schemas().get(document["kind"])
    errors = [] if schema is None else rule_errors(now, schema, before)[0]
    said = {(error.field, error.message.removeprefix("Invalid value: ")) for error in errors}
    request = {"operation": "CREATE" if was is None else "UPDATE"}
    known = {"object": now, "oldObject": before, "request": request}
    for one in _policies().get(f"{document['kind'].lower()}s", ()):
        if compiled(one["expression"], tuple(known)).value(known, Budget(STEPS)) is not True:
            says = one.get("messageExpression")
            text = compiled(says, tuple(known)).value(known, Budget(STEPS)) if says else one["message"]
            field, _, sentence = text.partition(": ")
            said.add((field, sentence))
    return said


def expected_of_it(found: list[Found]) -> set[tuple[str, str]]:
    """The same, by what the rules say: definitions name no values, and policies one item of a list that breaks a
    rule."""
    first: dict[tuple[str, ...], tuple[str, str]] = {}
    for one in found:
        if one.rule.door_on(NEWEST) is Door.DEFINITION:
            first[one.rule.message, one.field] = (one.field, one.rule.must)
        else:
            first.setdefault((one.rule.message, re.sub(r"\[\d+\]", "[]", one.field)), (one.field, one.sentence))
    return set(first.values())
