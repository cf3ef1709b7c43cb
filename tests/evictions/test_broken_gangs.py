"""No gang is stopped where others would do: across jobs, roles and nodes."""

from __future__ import annotations

import itertools
from collections import Counter
from random import Random
from typing import Any

import pytest

from starvation.scenes import gang, group, node, pod, priority_class, scene
from stromboli.api import names

HIGH = priority_class("high", 100)


def evicted(*parts: Any) -> set[str]:
    report = scene(HIGH, *parts, until=4).run().report
    return {name.removeprefix("default/") for name, one in report["pods"].items() if one["phase"] == "Evicted"}


def members(name: str, least: int, *nodes: str) -> list[dict[str, Any]]:
    """A group whose pods of one CPU run on these nodes."""
    return [group(name, least), *(pod(f"{name}-{i}", 1, group=name, on=on) for i, on in enumerate(nodes))]


# Two jobs of two pods, of which one is enough for each. The urgent gang needs two CPUs: the surplus pod of each.
@pytest.mark.parametrize("nodes", [("n1", "n1", "n2", "n2"), ("n1", "n2", "n1", "n2"), ("n1", "n2", "n2", "n1")])
def test_surplus_pods_of_several_jobs(nodes: tuple[str, ...]) -> None:
    gone = evicted(
        node("n1", 2), node("n2", 2), members("a", 1, *nodes[:2]), members("b", 1, *nodes[2:]),
        gang("urgent", 1, 1, priority="high", at=1),
    )  # fmt: skip
    assert Counter(name[0] for name in gone) == {"a": 1, "b": 1}


# The first urgent pod fits everywhere, the second only on n2, where job a has a pod. On n1 are pods of both jobs: if
# the first took that of a, the second would stop a.
def test_a_choice_that_matters_later() -> None:
    n2 = node("n2", 1, labels={"kind": "special"})
    selective = pod("urgent-1", 1, group="urgent", priority="high", at=1, selector={"kind": "special"})
    for young, old in (("a", "b"), ("b", "a")):
        gone = evicted(
            node("n1", 2), n2, node("n3", 1), members(young, 1, "n1", "n2" if young == "a" else "n3"),
            members(old, 1, "n1", "n2" if old == "a" else "n3"), group("urgent", 2, priority="high", at=1),
            pod("urgent-0", 1, group="urgent", priority="high", at=1), selective,
        )  # fmt: skip
        assert Counter(name[0] for name in gone) == {"a": 1, "b": 1}


# One large pod needs a whole node. On n1 it would stop a gang of six, on n2 two jobs of one pod each.
def test_a_large_gang_is_not_stopped_to_save_two_small_jobs() -> None:
    singles = [pod(f"single-{i}", 1, on="n2") for i in range(2)]
    large = members("large", 6, "n1", "n1", "n3", "n3", "n3", "n3")
    urgent = gang("urgent", 2, priority="high", at=1)
    assert evicted(node("n1", 2), node("n2", 2), node("n3", 4), singles, large, urgent) == {"single-0", "single-1"}


# On n1 it would stop five jobs of one pod each, on n2 a gang of two pods of 2.5 CPUs.
def test_five_small_jobs_are_not_stopped_to_save_a_gang_of_two() -> None:
    singles = [pod(f"single-{i}", 1, on="n1") for i in range(5)]
    pair = [group("pair", 2), *(pod(f"pair-{i}", 2.5, group="pair", on="n2") for i in range(2))]
    urgent = gang("urgent", 5, priority="high", at=1)
    assert evicted(node("n1", 5), node("n2", 5), singles, pair, urgent) == {"pair-0", "pair-1"}


# An urgent pod needs 2 CPUs. On n0 a gang of three has two pods; on n1 its third, and two pods of which one is enough.
# Both ways one job stops: with three pods or with two.
def test_a_pair_goes_before_a_gang_of_three() -> None:
    gone = evicted(
        node("n0", 2), node("n1", 3), members("gang", 3, "n0", "n1", "n0"), members("pair", 1, "n1", "n1"),
        pod("urgent", 2, priority="high", at=1),
    )  # fmt: skip
    assert gone == {"pair-0", "pair-1"}


# Two urgent pods of 2 CPUs. If the gang a goes, each node has room for one of them, and nobody else has to go, although
# the first of them found room beside the gang.
def test_who_becomes_needless_when_a_promise_moves_is_spared() -> None:
    gone = evicted(
        node("n0", 4), node("n1", 3), members("a", 4, "n0", "n0", "n1", "n1"), members("b", 1, "n0"),
        members("c", 1, "n1", "n0"), gang("urgent", 2, 2, priority="high", at=1),
    )  # fmt: skip
    assert gone == {"a-0", "a-1", "a-2", "a-3"}


def least_stopped(jobs: dict[str, tuple[int, list[str]]], wanted: list[set[str]]) -> int:
    """By trying everything: how many pods of jobs that stop have to go at least. All pods have one CPU, all nodes are
    full, and each wanted pod may use some nodes."""
    pods = [(name, i, on) for name, (_, nodes) in jobs.items() for i, on in enumerate(nodes)]
    best = len(pods) + 1
    for chosen in itertools.combinations(pods, len(wanted)):
        if any(
            all(on in places for (_, _, on), places in zip(chosen, order, strict=True))
            for order in itertools.permutations(wanted)
        ):
            lost = Counter(name for name, _, _ in chosen)
            best = min(
                best, sum(len(nodes) for name, (least, nodes) in jobs.items() if len(nodes) - lost[name] < least)
            )
    return best


@pytest.mark.parametrize("seed", range(60))
def test_fewest_pods_of_jobs_that_stop(seed: int) -> None:
    random = Random(seed)
    names = [f"n{i}" for i in range(random.randint(2, 4))]
    jobs: dict[str, tuple[int, list[str]]] = {}
    for letter in "abcd"[: random.randint(2, 4)]:
        nodes = [random.choice(names) for _ in range(random.randint(1, 3))]
        jobs[letter] = (random.randint(1, len(nodes)), nodes)
    used = Counter(on for _, nodes in jobs.values() for on in nodes)
    names = [name for name in names if used[name]]
    wanted = [set(names), {random.choice(names)}][: random.randint(1, 2)]
    if len(wanted) == 2 and sum(used.values()) < 3:
        wanted.pop()
    urgent = [group("urgent", len(wanted), priority="high", at=1)]
    for i, places in enumerate(wanted):
        selector = {"name": next(iter(places))} if len(places) == 1 else None
        urgent.append(pod(f"urgent-{i}", 1, group="urgent", priority="high", at=1, selector=selector))
    gone = evicted(
        *(node(name, used[name], labels={"name": name}) for name in names),
        *(members(name, least, *nodes) for name, (least, nodes) in jobs.items()),
        urgent,
    )
    lost = Counter(name[0] for name in gone)
    stopped = sum(len(nodes) for name, (least, nodes) in jobs.items() if len(nodes) - lost[name] < least)
    assert stopped == least_stopped(jobs, wanted), (jobs, wanted, gone)


# A crew of five needs a master and two workers, and has one of each to spare, but not two of one. Its first two pods
# are on n1, beside two single pods on n2, which stop when they go.
@pytest.mark.parametrize(("roles", "gone"), [("mmwww", "single"), ("wwwmm", "single"), ("wmwmw", "crew")])
def test_no_role_loses_more_than_it_can_spare(roles: str, gone: str) -> None:
    crew = group("crew", 3)
    crew["spec"]["minTaskMember"] = {"m": 1, "w": 2}
    pods = [pod(f"crew-{i}", 1, group="crew", on="n1" if i < 2 else "n3") for i in range(5)]
    for one, role in zip(pods, roles, strict=True):
        one["metadata"]["annotations"][names.TASK_SPEC] = role
    singles = [pod(f"single-{i}", 1, on="n2") for i in range(2)]
    urgent = pod("urgent", 2, priority="high", at=1)
    found = evicted(node("n1", 2), node("n2", 2), node("n3", 3), crew, pods, singles, urgent)
    assert found == {f"{gone}-0", f"{gone}-1"}
