"""The rules in Python and in CEL have one meaning: on thousands of objects with mistakes, and on changes of them."""

from __future__ import annotations

import copy
from collections import Counter
from random import Random

import msgspec
import pytest

from stromboli.api import ApiError, decode, default
from stromboli.api.kinds import KINDS
from stromboli.api.rules import RULES, broken_rules, broken_update_rules
from stromboli.api.unknown_fields import check_fields
from stromboli.api.validation.conversion import convert
from stromboli.embedded.schema import custom_schema, validate_custom
from validation.cel_rules import Document, cel_broken, filled_in, schemas
from validation.embedded_rules import expected_of_it, said_by_the_embedded_server
from validation.mutations import BASES, mutated

OBJECTS = 10_000
CHUNKS = 10


@pytest.mark.parametrize("seed", range(CHUNKS))
def test_python_and_cel_agree(seed: int) -> None:
    seen: Counter[str] = Counter()
    for document in mutated(seed, OBJECTS // CHUNKS):
        seen[compare(document)] += 1
    # Nothing of this is worth much if all objects are of one sort.
    assert min(seen["refused by the schema"], seen["refused by a rule"], seen["accepted"]) > OBJECTS // CHUNKS // 20


def compare(document: Document) -> str:
    schema = schemas().get(document["kind"])
    if schema is not None and validate_custom(filled_in(document, schema), custom_schema(schema)):
        with pytest.raises(ApiError):
            decode(document)
        return "refused by the schema"
    try:
        decode(document)
        error = None
    except ApiError as raised:
        error = raised
    if error is not None and _is_for_kubernetes(error.field, is_ours=schema is not None):
        return "refused by Kubernetes"
    typed = convert(document, KINDS[document["apiVersion"], document["kind"]])
    default(typed)
    in_python = {(found.rule.message, found.field, found.sentence) for found in broken_rules(typed)}
    in_cel = {(found.rule.message, found.field, found.sentence) for found in cel_broken(document)}
    assert said_by_the_embedded_server(document) == expected_of_it(cel_broken(document)), document
    # A server does not know what the controllers fill in, so it may find less in what is wrong anyway.
    assert in_cel <= in_python, document
    assert bool(in_cel) == bool(in_python), document
    if not in_python:
        return "accepted" if error is None else "refused by the controllers"
    assert error is not None
    assert in_cel == in_python or len(in_python) > 1
    return "refused by a rule"


def _is_for_kubernetes(field: str, *, is_ours: bool) -> bool:
    """Metadata, and kinds that are not ours, have rules of the server's own."""
    if field.startswith("metadata.annotations[volcano.sh/") or field == "metadata.annotations":
        return False
    return field.startswith("metadata") and field != "metadata.namespace" if is_ours else True


@pytest.mark.parametrize("seed", range(4))
def test_they_agree_about_changes(seed: int) -> None:
    changed = 0
    olds = {base["kind"]: base for base in BASES}
    for document in mutated(1000 + seed, 600):
        old = copy.deepcopy(olds[document["kind"]])
        if old["kind"] == "PodGroup":
            old["status"] = {"phase": Random(seed).choice(("Pending", "Running"))}
        try:
            before, after = decode(old), decode(document)
        except ApiError:
            continue
        in_python = {(found.rule.message, found.field) for found in broken_update_rules(before, after)}
        in_cel = {(found.rule.message, found.field) for found in cel_broken(document, old) if found.rule.on_update}
        assert said_by_the_embedded_server(document, old) == expected_of_it(cel_broken(document, old)), document
        assert in_cel == in_python, document
        changed += bool(in_cel)
    assert changed > 25


def test_every_rule_is_broken_by_some_object() -> None:
    """Otherwise the comparison above says nothing about it."""
    found = {one.rule.message for document in mutated(77, 8000) for one in _found(document)}
    assert {rule.message for rule in RULES if not rule.on_update} - found == set()


def _found(document: Document) -> list[Document]:
    try:
        typed = msgspec.convert(document, KINDS[document["apiVersion"], document["kind"]])
        check_fields(document, type(typed))
        default(typed)
        return list(broken_rules(typed))
    except (msgspec.ValidationError, ApiError, ValueError):
        return []
