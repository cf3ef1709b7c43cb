"""Random worlds with all features in one, in which many pods keep a gate until their queue has room, and their forged
reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest

from all_features.case import case_of
from all_features.checkers import gates
from all_features.generator.gated import GATE, draw_gated
from all_features.judge import judge
from all_features.verdict import Verdict
from all_features.world import Run, World

SEEDS = (2, 3, 4, 6)  # in which limits matter
SEED = 3  # a world in which all of this happens


@pytest.mark.parametrize("seed", SEEDS)
def test_a_world_with_gates_keeps_all_rules(seed: int) -> None:
    verdict = judge(draw_gated(seed), seed)
    assert verdict.findings == []
    # A check that looks at nothing proves nothing.
    assert {"gates: starts", "gates: limits"} <= set(verdict.judged)


def test_worlds_are_always_the_same() -> None:
    assert draw_gated(7) == draw_gated(7)
    assert draw_gated(7) != draw_gated(8)


@cache
def true_run() -> Run:
    return draw_gated(SEED).observe()


def findings(change: Callable[[Run], None] = lambda run: None) -> list[str]:
    """What the checker says of the report with a change."""
    run = true_run()
    world = World(deepcopy(run.world.documents), run.world.config, run.world.policy, run.world.until)
    copy = replace(run, world=world, samples=[])
    copy.report = deepcopy(run.report)
    change(copy)
    verdict = Verdict()
    gates.check(case_of(copy), verdict)
    return [found.text for found in verdict.findings]


def test_a_true_run_is_in_order() -> None:
    assert findings() == []


def test_a_pod_that_starts_with_its_gate() -> None:
    def forget(run: Run) -> None:
        events = run.report["events"]
        bound = {event["object"] for event in events if event["type"] == "Bound"}
        first = next(event for event in events if event["type"] == "Ungated" and event["object"] in bound)
        events.remove(first)

    assert any(text.endswith("starts with its gate") for text in findings(forget))


def test_a_gate_that_nobody_asked_for() -> None:
    def opt_out(run: Run) -> None:
        for document in run.world.documents:
            document.get("metadata", {}).get("annotations", {}).pop(GATE, None)

    assert any(text.endswith("has not opted in") for text in findings(opt_out))


def test_a_limit_that_was_not_kept() -> None:
    def shrink(run: Run) -> None:
        seen: Counter[str] = Counter()
        for document in run.world.documents:
            if document["kind"] == "Pod" and GATE in document["metadata"].get("annotations", {}):
                document["spec"]["containers"][0]["resources"]["requests"]["cpu"] = 9
                seen["changed"] += 1
        assert seen["changed"]

    assert any("has promised" in text for text in findings(shrink))
