"""Small requests that used to cost minutes or the process: expressions, patches, selectors, nested bodies."""

from __future__ import annotations

import json
import re
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from embedded.api import Api, EmbeddedTransport, config_map
from stromboli.api.validation.patterns import Pattern, TooCostly, pattern
from stromboli.embedded.patches.strategic_merge import apply_strategic_merge
from stromboli.embedded.schema import Schema

MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


@pytest.fixture
def api() -> Api:
    return Api(EmbeddedTransport())


# -- expressions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bomb", ["^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(a|aa)+$", "^([a-z]+)*[0-9]$", "(.*a){20}$"])
def test_an_expression_that_goes_back_and_forth_is_matched_in_one_pass(api: Api, bomb: str) -> None:
    """`re` needs 2 ** 5,000 steps for most of these."""
    schema = {"type": "object", "properties": {"p": {"type": "string", "pattern": bomb}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    names = {"plural": "toys", "kind": "Toy"}
    spec = {"group": "t.example", "scope": "Cluster", "versions": [version], "names": names}
    api.create(DEFINITIONS, {"metadata": {"name": "toys.t.example"}, "spec": spec})
    toy = {"apiVersion": "t.example/v1", "kind": "Toy", "metadata": {"name": "x"}, "p": "a" * 5000 + "!"}
    answer = api.call("POST", "/apis/t.example/v1/toys", json.dumps(toy).encode())
    assert (answer.status, answer.reason) == (422, "Invalid")


def test_an_expression_that_is_too_costly_refuses_the_value() -> None:
    large = Pattern("a(a|b){400}$")  # it must remember which of the last 401 characters were an a
    text = "".join(Random(1).choices("ab", k=20_000))
    with pytest.raises(TooCostly):
        large.found_in(f"{text}c")
    assert pattern("(a{1000}){1000}") is None, "too large to be checked"
    assert pattern(r"(a)\1") is None, "Go has no references"


_pieces = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\d", r"\w", r"\s", r"\b", "^", "$", "1", " ", "(?:a|b1)", "(?:ab)*", "(a|)+"]
)
_expressions = st.recursive(
    _pieces,
    lambda inner: st.one_of(
        st.tuples(inner, inner).map("".join),
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{0,2}", "{1,}", "*?"])).map(
            lambda both: f"(?:{both[0]}){both[1]}"
        ),
        st.tuples(inner, inner).map(lambda both: f"(?:{both[0]}|{both[1]})"),
        inner.map(lambda one: f"(?i:{one})"),
    ),
    max_leaves=6,
)


@given(_expressions, st.text("abAB1 -", max_size=8))
def test_it_finds_what_re_finds(expression: str, text: str) -> None:
    assert Pattern(expression).found_in(text) == (re.search(expression, text, re.ASCII) is not None)


# -- patches ----------------------------------------------------------------------------------------------------------


def test_a_strategic_merge_of_long_lists_takes_one_pass() -> None:
    """100,000 values against 100,000: looked up, not searched for, which would be 10 ** 10 comparisons."""
    names = [f"n{number}" for number in range(100_000)]
    schema = Schema(
        type="object",
        properties={
            "set": Schema(type="array", is_set=True),
            "items": Schema(type="array", keys=("name",), items=Schema(type="object", open=True)),
        },
    )
    before = {"set": list(names), "items": [{"name": name} for name in names]}
    patch: dict[str, Any] = {
        "set": [*names, "more"],
        "$deleteFromPrimitiveList/set": names[1:],
        "items": [{"name": name, "$patch": "delete"} for name in names[2:]] + [{"name": "n1", "x": 1}],
        "$setElementOrder/items": [{"name": name} for name in reversed(names)],
    }
    merged = apply_strategic_merge(before, patch, schema)
    assert merged == {"set": ["n0", "more"], "items": [{"name": "n1", "x": 1}, {"name": "n0"}]}


def test_copies_of_copies_are_refused(api: Api) -> None:
    api.create(MAPS, config_map("one", a="1"))
    operations = [{"op": "add", "path": "/x", "value": {"a": "b" * 100}}]
    operations += [{"op": "copy", "from": "/x", "path": f"/x/{number}"} for number in range(60)]
    answer = api.call("PATCH", f"{MAPS}/one", operations, kind="application/json-patch+json")
    assert answer.status == 422


def test_a_long_list_is_not_changed_ten_thousand_times(api: Api) -> None:
    """Each insertion at its front moves 600,000 items: 40 GB in all."""
    api.create(MAPS, config_map("one", a="1"))
    operations: list[dict[str, Any]] = [{"op": "add", "path": "/x", "value": [0] * 600_000}]
    operations += [{"op": "add", "path": "/x/0", "value": 0}] * 9000
    answer = api.call("PATCH", f"{MAPS}/one", operations, kind="application/json-patch+json")
    assert answer.status == 422


# -- selectors and bodies ---------------------------------------------------------------------------------------------


def test_a_long_field_selector_is_refused(api: Api) -> None:
    """Blanks were tried again from each place: 60,000 of them took ten seconds."""
    answer = api.call("GET", MAPS, fieldSelector="metadata.name=a" + " " * 60_000 + "x")
    assert (answer.status, answer.reason) == (400, "BadRequest")
    api.create(MAPS, config_map("one", a="1"))
    assert len(api.call("GET", MAPS, fieldSelector=" metadata.name = one , ").body["items"]) == 1


@pytest.mark.parametrize(
    ("body", "media"),
    [
        (b'{"a":' * 300 + b"1" + b"}" * 300, "application/json"),
        (b"[" * 500_000, "application/json"),
        (b"[" * 100_000, "application/yaml"),
        (b"- " * 100_000, "application/yaml"),
        (b"a: {" + b"a, " * 300_000 + b"}", "application/yaml"),
    ],
)
def test_deep_and_large_bodies_are_refused(api: Api, body: bytes, media: str) -> None:
    """The YAML ones overflowed the stack of the parser, and the process was gone."""
    answer = api.call("POST", MAPS, body, kind=media)
    assert answer.status == 400


def test_an_error_of_ours_is_one_line(
    api: Api, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("with a secret in it")

    monkeypatch.setattr("stromboli.embedded.server.api_server.find_route", fail)
    for _ in range(20):
        assert api.call("GET", MAPS).status == 500
    [record] = caplog.records
    assert record.exc_info is None
    assert "ZeroDivisionError in fail" in record.__dict__["fields"]["why"]
