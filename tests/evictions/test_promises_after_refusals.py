"""Promises beside binds that were refused.

Promises of earlier cycles are renewed when a session is opened. Nodes that refused a pod must be closed to it by then:
otherwise a promise is renewed that the filters of the same session do not let come true, and it is kept for ever.

Queue `a` has borrowed both CPUs of n1. At 5 s `claimant` of queue `b` reclaims one of them, which takes 10 s to leave.
The volume of `refused` cannot be made on n2.
"""

from __future__ import annotations

import pytest

from starvation.scenes import queue
from stromboli.scheduling import cycle
from stromboli.scheduling.session import Session
from volumes.volume_scenes import Document, claim, node, play, pod, run, storage_class, with_claims


def promise_beside_refusal() -> list[Document]:
    return [
        node("n1", 2, labels={"only": "n1"}), node("n2", 1), queue("a"), queue("b"),
        *[pod(f"borrower-{number}", 1, on="n1", queue="a", grace=10) for number in range(2)],
        storage_class(takes=1, fails="always"), claim("data"),
        with_claims(pod("refused", 1, queue="b"), "data"),
        pod("claimant", 1, queue="b", at=5, selector={"only": "n1"}),
    ]  # fmt: skip


def test_a_promise_beside_a_refused_pod_comes_true() -> None:
    outcome = play(promise_beside_refusal(), until=20)
    assert "refused" in {who for _, who in outcome.gave_back()}
    assert [time for time, _ in outcome.happened("Evicted")] == [5.0]
    assert outcome.started["claimant"] == 15.0


@pytest.mark.parametrize("what", ["filter", "score"])
def test_nothing_that_chooses_nodes_is_added_after_nodes_were_chosen(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def open_late(session: Session) -> None:
        with session.registering("late", tier=0):
            (session.add_filter if what == "filter" else session.add_score)(lambda task: None)

    monkeypatch.setattr(cycle, "FEATURES", (*cycle.FEATURES, open_late))
    with pytest.raises((AssertionError, RuntimeError), match=f"late adds a {what} after nodes were chosen"):
        run(promise_beside_refusal(), until=20)
