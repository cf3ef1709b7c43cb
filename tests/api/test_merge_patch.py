"""Merge patches: the table of RFC 7386, as far as documents are mappings."""

from __future__ import annotations

from typing import Any

import pytest

from stromboli.api.merge_patch import merge_patch


@pytest.mark.parametrize(
    ("document", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
        ({"a": "b"}, {"a": {"b": None, "c": 1}}, {"a": {"c": 1}}),
    ],
)
def test_merge(document: dict[str, Any], patch: dict[str, Any], result: dict[str, Any]) -> None:
    assert merge_patch(document, patch) == result


def test_the_document_stays_as_it_was() -> None:
    document = {"spec": {"weight": 1, "parent": "root"}}
    assert merge_patch(document, {"spec": {"weight": 2, "parent": None}}) == {"spec": {"weight": 2}}
    assert document == {"spec": {"weight": 1, "parent": "root"}}
