"""A scenario, the embedded server, and the controllers beside a server that is too old to judge: one verdict."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from stromboli.api import ApiError
from stromboli.kube.crds import validating_policies
from validation import verdicts
from validation.embedded_client import EmbeddedClient, too_old_to_judge
from validation.mutations import mutated
from validation.verdicts import compare

OBJECTS = 600  # by hand, benchmarks/refusals.py compares ten thousand
NAMESPACE = {"metadata": {"name": "mine"}}


@pytest.fixture(scope="module")
def old() -> EmbeddedClient:
    client = too_old_to_judge()
    client.create("/api/v1/namespaces", NAMESPACE)
    return client


@pytest.fixture(scope="module")
def door() -> EmbeddedClient:
    client = EmbeddedClient()
    client.install(*validating_policies())
    client.create("/api/v1/namespaces", NAMESPACE)
    return client


def test_all_ways_agree(door: EmbeddedClient, old: EmbeddedClient) -> None:
    seen = Counter(compare(document, "mine", door, old) for document in mutated(700, OBJECTS))
    assert min(seen["refused"], seen["accepted"]) > OBJECTS // 20


def test_controllers_refuse_what_an_old_server_stores(old: EmbeddedClient) -> None:
    stored = 0
    for document in mutated(701, OBJECTS):
        path, sent, in_cluster = verdicts.as_sent(document, "mine")
        made = verdicts.answer_to(old, path, sent)
        stored += isinstance(made, dict) and verdicts.error_in(in_cluster) is not None
        compare(document, "mine", None, old)
    assert stored > OBJECTS // 20, "otherwise the schemas refuse everything"


@pytest.mark.parametrize(
    ("way", "forged"),
    [
        ("error_in", lambda _: ApiError("spec.other", "must be different")),
        ("said_by_controllers", lambda _: "spec.other: must be different"),
        ("said_by_controllers", lambda _: ""),
    ],
)
def test_a_forged_verdict_is_noticed(
    way: str, forged: Any, old: EmbeddedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever refuses nothing, or names another field, is found out."""
    monkeypatch.setattr(verdicts, way, forged)
    with pytest.raises(AssertionError):
        Counter(compare(document, "mine", None, old) for document in mutated(702, 100))
