"""The weight of a namespace is a Kubernetes quantity, so an API server may write it in another form than its user."""

from __future__ import annotations

import pytest

from starvation.scenes import node, pod
from together.situations import Situation, assert_restarts_change_nothing, happened, in_namespace, situation, weighted


def against_one(weight: str, cpus: int = 8) -> Situation:
    """Two namespaces that both want all CPUs; b has weight 1."""
    return situation(
        weighted("a", weight), weighted("b", 1), node("n1", cpus),
        in_namespace("a", [pod(f"job-{number}", 1) for number in range(cpus)]),
        in_namespace("b", [pod(f"job-{number}", 1) for number in range(cpus)]),
        until=3,
    )  # fmt: skip


# (weight as written, weight, CPUs of a and b). With 1000 : 1, b gets one as soon as a has one, and a the rest: 7/1000
# is less than 1. With 3 : 1, 6/3 = 2/1.
WHOLE = [("1k", 1000, (7, 1)), ("3.0", 3, (6, 2)), ("3000m", 3, (6, 2)), ("3e0", 3, (6, 2))]
NOT_WHOLE = ["500m", "2.5", "0", "-3"]


def cpus(story: Situation) -> tuple[int, ...]:
    namespaces = story.run()["namespaces"]
    return tuple(int(namespaces[f"default/{name}"]["allocated"]["cpu"]) for name in "ab")


@pytest.mark.parametrize(("written", "weight", "expected"), WHOLE, ids=[case[0] for case in WHOLE])
def test_a_weight_counts_however_it_is_written(written: str, weight: int, expected: tuple[int, int]) -> None:
    story = against_one(written)
    assert story.run()["namespaces"]["default/a"]["weight"] == weight
    assert cpus(story) == expected


@pytest.mark.parametrize("written", NOT_WHOLE)
def test_what_is_not_a_whole_number_counts_as_one(written: str) -> None:
    assert cpus(against_one(written)) == (4, 4)


@pytest.mark.parametrize("written", NOT_WHOLE)
def test_what_is_not_a_whole_number_is_a_warning_on_the_quota(written: str) -> None:
    assert (0, "a/weight") in happened(against_one(written).run(), "Warning")


def test_restarts_change_nothing() -> None:
    assert_restarts_change_nothing(against_one("1k"))
