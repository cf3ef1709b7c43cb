"""What a pod's condition says about refused binds is what a new scheduler knows of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stromboli.cluster import RefusedBind
from stromboli.cluster.refused_bind import read_refusals

NODES = st.sampled_from(["n1", "n2", "node-3.example.com"])
TIMES = st.integers(946684800, 946688400).map(float)
REASONS = st.sampled_from(["", "no", "it says: by n9 4 times, last at noon; 3 tolerated. Why: because"])


@given(st.lists(st.tuples(NODES, REASONS, TIMES, st.booleans()), min_size=1, max_size=6), st.integers(0, 3))
def test_a_record_is_read_as_it_was_written(refusals: list[tuple[str, str, float, bool]], tolerated: int) -> None:
    refused = RefusedBind(tolerated=tolerated)
    for node, why, at, by_volumes in sorted(refusals, key=lambda one: one[2]):
        refused.add(node, why, at, by_volumes=by_volumes)
    assert read_refusals(refused.record) == refused


def test_what_is_no_record_is_ignored() -> None:
    assert read_refusals("") is None
    assert read_refusals("Its volumes were refused by n1 2 times, last at noon; 0 tolerated. Why: no") is None
