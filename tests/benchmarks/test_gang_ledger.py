"""The checker of `benchmarks/gang_kills.py` finds each fault that it looks for."""

from __future__ import annotations

from typing import Any

import pytest

from kube.gang_story import CPUS, Ledger


class Told:
    """What an API server would have said of the pods."""

    def __init__(self) -> None:
        self.changes: list[Any] = []

    def pods(self) -> list[Any]:
        return self.changes

    def say(self, gang: str, number: int, node: str = "", phase: str = "Running", **metadata: str) -> None:
        name = f"{gang}-w-{number}"
        labels = {"volcano.sh/job-name": gang}
        self.changes.append({
            "metadata": {"name": name, "uid": name, "labels": labels, **metadata},
            "spec": {"nodeName": node} if node else {}, "status": {"phase": phase},
        })  # fmt: skip


class Story:
    """Gangs a and b of two pods each."""

    def __init__(self) -> None:
        self.told = Told()
        self.ledger = Ledger(self.told, {"a": 2, "b": 2})

    def bind(self, *pods: str) -> None:
        for pod in pods:
            self.told.say(pod[0], int(pod[1:]), "n")
        self.ledger.read()

    def kill(self) -> None:
        self.ledger.life += 1


@pytest.fixture
def story() -> Story:
    return Story()


def test_whole_gangs_are_no_fault(story: Story) -> None:
    story.bind("a0")
    story.kill()
    story.bind("a1", "b0", "b1")
    story.ledger.check()
    assert story.ledger.binds == ["a", "a", "b", "b"]


def test_a_gang_started_before_a_half_gang(story: Story) -> None:
    story.bind("a0")
    story.kill()
    story.bind("b0", "a1", "b1")
    with pytest.raises(AssertionError, match="b was started before a, which lacked 1 of 2"):
        story.ledger.check()


def test_binds_that_are_sent_together_may_overtake_each_other(story: Story) -> None:
    story.bind("a0")
    story.kill()
    story.ledger.burst = 2
    story.bind("b0", "a1", "b1")
    story.ledger.check()


def test_but_a_gang_is_not_completed_before_a_half_gang(story: Story) -> None:
    story.bind("a0")
    story.kill()
    story.ledger.burst = 2
    story.bind("b0", "b1", "a1")
    with pytest.raises(AssertionError, match="b was started before a"):
        story.ledger.check()


def test_what_one_scheduler_binds_may_overlap(story: Story) -> None:
    story.bind("a0", "b0", "b1", "a1")
    story.ledger.check()


def test_a_half_gang(story: Story) -> None:
    story.bind("a0", "a1", "b0")
    assert story.ledger.halves() == ["b"]
    with pytest.raises(AssertionError, match="b has 1 of 2 pods on nodes"):
        story.ledger.check()


def test_a_pod_on_two_nodes(story: Story) -> None:
    story.bind("a0", "a1", "b0", "b1")
    story.told.say("a", 0, "other")
    story.ledger.read()
    with pytest.raises(AssertionError, match="a-w-0 was on n and is on other"):
        story.ledger.check()


@pytest.mark.parametrize(("phase", "metadata"), [("Failed", {}), ("Running", {"deletionTimestamp": "now"})])
def test_a_pod_that_is_lost(story: Story, phase: str, metadata: dict[str, str]) -> None:
    story.bind("a0", "a1", "b0", "b1")
    story.told.say("a", 0, "n", phase, **metadata)
    story.ledger.read()
    with pytest.raises(AssertionError, match="a-w-0 was lost"):
        story.ledger.check()


def test_a_pod_too_many(story: Story) -> None:
    story.bind("a0", "a1", "b0", "b1")
    story.told.say("a", 2)
    story.ledger.read()
    with pytest.raises(AssertionError, match="a has a pod too many: a-w-2"):
        story.ledger.check()


def test_a_node_without_room() -> None:
    told = Told()
    ledger = Ledger(told, {"a": CPUS, "b": 1})
    for number in range(CPUS):
        told.say("a", number, "n")
    told.say("b", 0, "n")
    ledger.read()
    with pytest.raises(AssertionError, match=f"n has {CPUS + 1} pods"):
        ledger.check()


def test_pods_that_succeeded_leave_their_room() -> None:
    told = Told()
    ledger = Ledger(told, {"a": CPUS, "b": 1})
    for phase in ("Running", "Succeeded"):
        for number in range(CPUS):
            told.say("a", number, "n", phase)
    told.say("b", 0, "n")
    ledger.read()
    ledger.check()


def in_sub_groups(*binds: tuple[int, str]) -> Ledger:
    """A gang of four pods in two sub-groups: the pods that have a node, and which. There are two nodes in each rack."""
    told = Told()
    ledger = Ledger(told, {"a": 4}, sub_groups=2, racks={"n0": "r0", "n1": "r0", "n2": "r1", "n3": "r1"})
    for number, node in binds:
        told.say("a", number, node)
    ledger.read()
    return ledger


def test_sub_groups_in_one_rack_each() -> None:
    ledger = in_sub_groups((0, "n0"), (2, "n2"), (1, "n1"), (3, "n3"))
    ledger.check()
    assert not any(one.is_half for one in ledger.sub_groups.values())


def test_a_sub_group_in_part() -> None:
    ledger = in_sub_groups((0, "n0"), (2, "n2"), (3, "n3"))
    assert [key for key, one in ledger.sub_groups.items() if one.is_half] == [("a", 0)]


def test_a_sub_group_in_two_racks() -> None:
    ledger = in_sub_groups((0, "n0"), (2, "n2"), (1, "n1"), (3, "n1"))
    with pytest.raises(AssertionError, match="sub-group 1 of a is in r0 and r1"):
        ledger.check()
