"""A sub-group that its gang can spare is judged as what it is: more than a pod, and less than the gang.

A gang of two sub-groups of two pods needs one of them. It fills four nodes with room for one pod each.
"""

from __future__ import annotations

import pytest

from explanations.close_scenes import policy
from starvation.scenes import Document, gang, node, priority_class, queue, scene

NODES = [node(f"n{number}", 1) for number in range(4)]
CLASSES = [priority_class("high", 100), priority_class("low", 10)]
LABELS = {"app": "v"}


def victim(**options: object) -> list[Document]:
    head, *members = gang("v", 1, 1, 1, 1, least=2, **options)  # type: ignore[arg-type]
    head["spec"]["subGroupPolicy"] = [policy("p", 2, 1)]
    for number, member in enumerate(members):
        member["metadata"]["labels"] = {"unit": "aabb"[number], **LABELS}
    return [head, *members]


def budget(most: int) -> Document:
    return {
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "v"},
        "spec": {"maxUnavailable": most, "selector": {"matchLabels": LABELS}},
    }  # fmt: skip


@pytest.mark.parametrize(("most", "gone"), [(2, {"v-0", "v-1"}), (1, set())])
def test_a_budget_for_two_pods_lets_a_sub_group_go(most: int, gone: set[str]) -> None:
    found = scene(
        NODES, CLASSES, budget(most), victim(priority="low"), gang("late", 1, 1, priority="high", at=4), until=8
    ).run()  # fmt: skip
    assert {name for _, name in found.happened("Evicted")} == gone


# Each queue deserves 2 of 4 CPUs. Without all of its gang, "theirs" would have less.
def test_a_queue_loses_a_sub_group_and_not_the_gang() -> None:
    found = scene(
        NODES, queue("mine"), queue("theirs"), victim(queue="theirs"), gang("late", 1, 1, queue="mine", at=4), until=8
    ).run()  # fmt: skip
    assert {name for _, name in found.happened("Evicted")} == {"v-0", "v-1"}
    assert {"late-0", "late-1"} <= found.running
