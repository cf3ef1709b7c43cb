"""JSON of others: read or refused, whatever it is."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stromboli import plain_json
from stromboli.api import Job, Pod, decode_json
from stromboli.kube.client.wire import Page, decode_message


def nested(levels: int, inside: str = "1") -> str:
    return "[" * levels + inside + "]" * levels


def test_two_hundred_levels_are_read_and_one_more_is_refused() -> None:
    assert plain_json.decode(nested(200))
    with pytest.raises(plain_json.TooDeep, match="nested more than 200 levels"):
        plain_json.decode(nested(201))


@pytest.mark.parametrize("data", [nested(100_000), "[" * 100_000, b"\xff", b'"\xff"', '"\ud800"', "", "{", "\ud800"])
def test_whatever_cannot_be_read_is_a_decode_error(data: bytes | str) -> None:
    for read in (plain_json.decode, plain_json.decode_shallow):
        with pytest.raises(msgspec.DecodeError):
            read(data)


def test_a_deep_value_from_a_server_is_read_as_null_and_what_is_beside_it_is_kept() -> None:
    found = plain_json.decode_shallow('{"a": ' + nested(9000) + ', "b": [1, "]}[{"], "c": {"d": "\\\\"}}')
    assert (found["b"], found["c"]) == ([1, "]}[{"], {"d": "\\"})
    value, levels = found["a"], 1  # the object itself
    while isinstance(value, list):
        (value,), levels = value, levels + 1
    assert (value, levels) == (None, 200)


documents = st.recursive(
    st.none() | st.integers(0, 9) | st.text('a\\"[]{},:é', max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('ab\\"[]{}', max_size=2), inner, max_size=3),
    max_leaves=12,
)


def cut(value: Any, levels: int) -> Any:
    """The rule, by recursion."""
    if not isinstance(value, dict | list):
        return value
    if not levels:
        return None
    if isinstance(value, list):
        return [cut(one, levels - 1) for one in value]
    return {name: cut(one, levels - 1) for name, one in value.items()}


@given(document=documents, around=st.integers(190, 205), blank=st.booleans())
def test_what_is_cut_is_what_is_too_deep(document: Any, around: int, blank: bool) -> None:
    text = nested(around, json.dumps(document, indent=1 if blank else None))
    expected = document
    for _ in range(around):
        expected = [expected]
    assert plain_json.decode_shallow(text) == cut(expected, 200)


def test_one_deep_object_does_not_hide_the_list_of_the_others() -> None:
    """An API server of Kubernetes takes ten thousand levels, in a field that keeps what it does not know."""
    deep = '{"metadata": {"name": "deep"}, "spec": {"tasks": [{"template": {"x": ' + nested(9000) + "}}]}}"
    page = decode_message(f'{{"items": [{deep}, {{"metadata": {{"name": "other"}}}}]}}'.encode(), Page)
    assert page.items is not None
    assert [decode_json(bytes(item), Job).metadata.name for item in page.items] == ["deep", "other"]


def test_a_deep_object_that_does_not_fit_its_kind_is_an_error_of_that_object() -> None:
    with pytest.raises(Exception, match="priority"):
        decode_json('{"metadata": {"name": "p"}, "x": ' + nested(9000) + ', "spec": {"priority": "high"}}', Pod)
