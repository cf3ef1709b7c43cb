"""Random worlds with all features in one, in which most groups must be close together, and their forged reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from functools import cache

import pytest

from all_features.case import case_of
from all_features.checkers import domains
from all_features.domains import is_hard, layouts
from all_features.generator.close import draw_close
from all_features.judge import judge
from all_features.verdict import Verdict
from all_features.world import Run, World

SEEDS = range(8)
PARTS = 4  # so that several processes share them
SEED = 406  # a world in which all of this happens


@pytest.mark.parametrize("part", range(PARTS))
def test_a_world_of_close_groups_keeps_all_rules(part: int) -> None:
    judged: Counter[str] = Counter()
    for seed in SEEDS[part::PARTS]:
        verdict = judge(draw_close(seed), seed)
        judged += verdict.judged
        assert verdict.findings == [], f"python benchmarks/all_features.py --close --seed {seed} --worlds 1"
    # A check that looks at nothing proves nothing.
    assert {"domains: hard groups", "domains: sub-groups"} <= set(judged)


def test_worlds_are_always_the_same() -> None:
    assert draw_close(7) == draw_close(7)
    assert draw_close(7) != draw_close(8)


# -- what the checker sees ------------------------------------------------------------------------------------------


@cache
def true_run() -> Run:
    return draw_close(SEED).observe()


def forged(change: Callable[[Run], None]) -> Run:
    run = true_run()
    world = World(deepcopy(run.world.documents), run.world.config, run.world.policy, run.world.until)
    copy = replace(run, world=world, samples=[])
    copy.report = deepcopy(run.report)
    change(copy)
    return copy


def findings(run: Run) -> list[str]:
    verdict = Verdict()
    domains.check(case_of(run), verdict)
    return [found.text for found in verdict.findings]


def members_of(run: Run, *, sub_groups: bool) -> list[str]:
    """The pods that were bound of groups with sub-groups of several pods, or of hard groups without."""
    case = case_of(run)
    wanted = {
        name for name, layout in layouts(case).items()
        if (layout.policy is not None and layout.policy.size > 1 if sub_groups else is_hard(layout.topology))
    }  # fmt: skip
    return [life.pod.key for life in case.history.lives if life.pod.unit.name in wanted and life.bound]


def test_a_true_run_is_in_order() -> None:
    assert findings(true_run()) == []


def test_a_group_across_domains() -> None:
    def move(run: Run) -> None:
        chosen = members_of(run, sub_groups=False)
        for event in run.report["events"]:
            if event["type"] == "Bound" and event["object"] in chosen:
                event["node"] = "in-no-domain"

    assert any("its others are on" in text for text in findings(forged(move)))


def test_a_part_of_a_sub_group_starts() -> None:
    def leave_out(run: Run) -> None:
        first = members_of(run, sub_groups=True)[0]
        run.report["events"] = [
            event for event in run.report["events"] if not (event["type"] == "Bound" and event["object"] == first)
        ]

    assert any("pods of sub-group" in text and text.endswith("run") for text in findings(forged(leave_out)))


def test_a_part_of_a_sub_group_is_evicted() -> None:
    def evict(run: Run) -> None:
        chosen = members_of(run, sub_groups=True)
        event = next(
            event for event in reversed(run.report["events"])
            if event["type"] == "Finished" and event["object"] in chosen
        )  # fmt: skip
        bound = next(e for e in run.report["events"] if e["type"] == "Bound" and e["object"] == event["object"])
        event |= {"type": "Evicted", "reason": "Preempted", "t": bound["t"] + 1}
        run.report["events"].sort(key=lambda event: event["t"])

    assert any(text.endswith("stay") for text in findings(forged(evict)))


def test_a_group_waits_for_which_a_domain_has_room() -> None:
    def empty(run: Run) -> None:
        for told in run.report["nodes"].values():
            told |= {"used": {}, "held": {}, "reservedFor": [], "lockedBy": None, "promised": {}}
        for told in run.report["queues"].values():
            told["allocated"] = {}
        for document in run.world.documents:
            if document["kind"] == "Queue":
                document["spec"] = {"weight": 1}

    assert any("would fit" in text for text in findings(forged(empty)))
