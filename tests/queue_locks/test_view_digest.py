"""The lock worker skips a round in which the cluster is as it was. So the digest is of everything that a round reads: a
worker that was restarted holds the round, and must not find what the other would have missed."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest

from stromboli.controllers.queue_locks.node_use import ClusterView

DERIVED = {"offered", "row", "column"}  # from the names of resources and nodes, and from sizes

CHANGED: dict[str, Any] = {
    "resources": ("cpu", "memory"),
    "names": ("n1", "n3"),
    "sizes": np.array([[4.0, 5.0]]),
    "used": np.array([[1.0, 3.0]]),
    "fixed": np.array([[0.0, 1.0]]),
    "counts": np.array([True, False]),
    "usable": np.array([False, True]),
    "by_queue": {"lab": np.array([[1.0, 1.0]])},
    "movable": {0: {"lab": 2}},
    "promised": {1: {"lab"}},
    "set_aside": {0: {"lab", "clinic"}},
    "held": [(0, "lab", np.array([2.0]))],
    "domains": np.array([[True, True]]),
}


def view() -> ClusterView:
    return ClusterView(
        resources=("cpu",),
        offered=frozenset({"cpu"}),
        names=("n1", "n2"),
        sizes=np.array([[4.0, 4.0]]),
        used=np.array([[1.0, 2.0]]),
        fixed=np.zeros((1, 2)),
        counts=np.array([True, True]),
        usable=np.array([True, True]),
        row={"n1": 0, "n2": 1},
        column={"cpu": 0},
        by_queue={"lab": np.array([[1.0, 2.0]])},
        movable={0: {"lab": 1}},
        promised={0: {"lab"}},
        set_aside={0: {"lab"}},
        held=[(0, "lab", np.array([1.0]))],
        domains=np.array([[True, False]]),
    )


def test_it_is_equal_for_equal_contents() -> None:
    assert view().digest() == view().digest()


@pytest.mark.parametrize("name", [field.name for field in fields(ClusterView) if field.name not in DERIVED])
def test_it_differs_if_anything_changed(name: str) -> None:
    assert replace(view(), **{name: CHANGED[name]}).digest() != view().digest()


def test_a_promise_is_not_what_is_set_aside() -> None:
    promised = replace(view(), promised={1: {"lab"}}, set_aside={})
    assert promised.digest() != replace(view(), promised={}, set_aside={1: {"lab"}}).digest()
