"""No more pods are evicted than it takes.

First cases in which it once took more; then small clusters in which every smaller set of victims is tried.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from builders import group, node, pod
from builders import priority_class as api_priority_class
from builders import queue as line
from fairness.scenes import Document, Run, flat, nodes, patch, pods, priority_class, queue, replica_set
from oracles.stories import Story
from stromboli.api import KObject, Taint
from stromboli.scheduling.eviction import reprieve

# -- borrowed room ----------------------------------------------------------------------------------------------------


def borrowed(*more: Document) -> list[Document]:
    """8 CPUs at equal weights; "mine" has all of them. Since 2, "yours" wants half, and cannot have it: mine is not
    reclaimable. So mine deserves 4 and has 8."""
    return flat(
        nodes(8), queue("mine", reclaimable=False), queue("yours"), priority_class("high", 100),
        replica_set("ns/low", 8, queue="mine"), replica_set("ns/other", 8, queue="yours", at=2), more,
    )  # fmt: skip


# One for one leaves mine with what it had. (Down to 4 CPUs with the new pod, five would have to go.)
@pytest.mark.parametrize("wanted", [1, 2, 3])
def test_a_queue_that_has_borrowed_gives_up_only_what_its_own_pod_needs(wanted: int) -> None:
    run = Run(borrowed(*pods("ns/urgent", 1, cpu=wanted, queue="mine", priority="high", at=5)), cycles=12)
    assert len(run.evictions) == wanted
    assert {eviction.claimant for eviction in run.evictions} == {"ns/urgent-0"}
    assert run.running() == Counter({("mine", "ns"): 8})


# The queue was told to have 4 CPUs at most when it had 8. One for one is no more than it has, so it is allowed; and
# what was allowed when a pod was evicted for it is allowed when the room is free.
def test_a_queue_above_its_limit_keeps_its_promises() -> None:
    limited = patch("Queue", "mine", {"spec": {"capability": {"cpu": 4}}}, at=3)
    urgent = pods("ns/urgent", 1, queue="mine", priority="high", at=5)
    run = Run([*borrowed(*urgent), limited], cycles=12)
    assert [eviction.claimant for eviction in run.evictions] == ["ns/urgent-0"]
    assert "ns/urgent-0" in run.binds[run.evictions[0].cycle + 1]


# -- gangs ------------------------------------------------------------------------------------------------------------

TIERS = [["priority", "gang", "conformance"], ["drf", "proportion", "predicates", "nodeorder"]]


def story(*objects: KObject | Iterable[KObject]) -> Story:
    return Story(*objects, api_priority_class("high", 100), actions="reclaim, allocate, preempt", tiers=TIERS).run()


# n0: 3 CPUs, two of the trio and one other. n1: 5 CPUs, one of the trio, one single, 3 free. Of the newcomers the first
# wants 4: the single on n1 would do. The second wants 2, for which the trio must go, and that leaves 4 on n1 as well.
def test_whoever_was_evicted_for_one_is_spared_if_the_next_frees_as_much() -> None:
    told = story(
        node("n0", cpu=3), node("n1", cpu=5),
        group("trio", min_member=3), [pod(f"trio-{n}", group="trio", cpu=1, node=f"n{n // 2}") for n in range(3)],
        group("other", min_member=0), pod("other-0", group="other", cpu=1, node="n0"),
        group("single", min_member=0), pod("single-0", group="single", cpu=1, node="n1"),
        group("new", min_member=2, priority_class="high"),
        pod("new-0", group="new", cpu=4), pod("new-1", group="new", cpu=2),
    )  # fmt: skip
    assert told.evicted == ["trio-0", "trio-1", "trio-2"]


# Three run where two are needed. One may go by itself, for the first newcomer; for the second the other two must go.
# That frees one CPU more than is wanted, but nobody would be served by the one that stays.
def test_nobody_is_spared_who_would_be_alone() -> None:
    told = story(
        node("n0", cpu=3),
        group("trio", min_member=2), [pod(f"trio-{n}", group="trio", cpu=1, node="n0") for n in range(3)],
        group("new", min_member=2, priority_class="high"), [pod(f"new-{n}", group="new", cpu=1) for n in range(2)],
    )  # fmt: skip
    assert told.evicted == ["trio-0", "trio-1", "trio-2"]


# n0: 3 CPUs, all used by "low". n1: 8 CPUs, 7 used by "mid", 1 free. The newcomers want 3 each. For the first, "low" is
# the cheapest victim; for the second, "mid" is the only one, and leaves 8 - 3 = 5 CPUs: enough for the first as well.
# The free node has a taint.
def test_a_promise_moves_to_a_node_that_a_later_victim_leaves() -> None:
    told = story(
        api_priority_class("mid", 50), node("free", cpu=8, taints=[Taint(key="team", effect="NoSchedule")]),
        node("n0", cpu=3), node("n1", cpu=8),
        group("low", min_member=0), pod("low-0", group="low", cpu=3, node="n0"),
        group("mid", min_member=0, priority_class="mid"), pod("mid-0", group="mid", cpu=7, node="n1"),
        group("new", min_member=2, priority_class="high"), [pod(f"new-{n}", group="new", cpu=3) for n in range(2)],
    )  # fmt: skip
    assert told.evicted == ["mid-0"]
    assert told.nominated == {"new-0": "n1", "new-1": "n1"}


# "low" has all of n0. One or two newcomers with 3 CPUs come first, and would go to n0. Those that come last want 1 CPU
# in zone b and c, for which one "mid" with 4 CPUs must go from n1 and n2. That leaves 3 CPUs on each: room for one of
# the first. What one of them leaves free on n0 is of no use.
@pytest.mark.parametrize("first", [1, 2])
def test_promises_move_to_different_nodes(first: int) -> None:
    told = story(
        api_priority_class("mid", 50), node("n0", cpu=6), node("n1", cpu=4, labels={"zone": "b"}),
        node("n2", cpu=4, labels={"zone": "c"}),
        group("low", min_member=0), pod("low-0", group="low", cpu=6, node="n0"),
        group("mid", min_member=0, priority_class="mid"),
        [pod(f"mid-{n}", group="mid", cpu=4, node=f"n{n + 1}") for n in range(2)],
        group("new", min_member=first + 2, priority_class="high"),
        [pod(f"new-{n}", group="new", cpu=3) for n in range(first)],
        [pod(f"new-{n + first}", group="new", cpu=1, node_selector={"zone": "bc"[n]}) for n in range(2)],
    )  # fmt: skip
    assert told.evicted == ["mid-0", "mid-1"]
    assert [told.nominated[f"new-{n}"] for n in range(first)] == ["n2", "n1"][-first:]


# The same with two newcomers, and another pod of "low" has to go for each. Both can stay, also if they can only be
# spared one after the other.
@pytest.mark.parametrize("at_once", [True, False])
def test_several_victims_are_spared(at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    without, tried = reprieve._without, list[int]()

    def refuses_many(*arguments: Any) -> bool:
        units = arguments[4]
        tried.append(len(units))
        return (at_once or len(units) == 1) and without(*arguments)

    monkeypatch.setattr(reprieve, "_without", refuses_many)
    told = story(
        api_priority_class("mid", 50), node("m0", cpu=3), node("n0", cpu=3), node("n1", cpu=4, labels={"zone": "b"}),
        node("n2", cpu=4, labels={"zone": "c"}),
        group("low", min_member=0), pod("low-0", group="low", cpu=3, node="m0"),
        pod("low-1", group="low", cpu=3, node="n0"),
        group("mid", min_member=0, priority_class="mid"),
        [pod(f"mid-{n}", group="mid", cpu=4, node=f"n{n + 1}") for n in range(2)],
        group("new", min_member=4, priority_class="high"), [pod(f"new-{n}", group="new", cpu=3) for n in range(2)],
        [pod(f"new-{n + 2}", group="new", cpu=1, node_selector={"zone": "bc"[n]}) for n in range(2)],
    )  # fmt: skip
    assert told.evicted == ["mid-0", "mid-1"]
    assert tried == ([2] if at_once else [2, 1, 1])


# "low" would be spared as above if the first newcomer did not have to run on n0.
def test_a_promise_stays_where_the_pod_must_run() -> None:
    told = story(
        api_priority_class("mid", 50), node("n0", cpu=3, labels={"zone": "a"}), node("n1", cpu=8),
        group("low", min_member=0), pod("low-0", group="low", cpu=3, node="n0"),
        group("mid", min_member=0, priority_class="mid"), pod("mid-0", group="mid", cpu=7, node="n1"),
        group("new", min_member=2, priority_class="high"),
        pod("new-0", group="new", cpu=3, node_selector={"zone": "a"}), pod("new-1", group="new", cpu=3),
    )  # fmt: skip
    assert told.evicted == ["low-0", "mid-0"]


# 13 CPUs at 1 : 2, and qb wants 7: qa deserves 6 and has 7. qb's gang of 4 and 3 lacks one CPU on n2 and one on n1, or
# two on n0, and only one of qa's pods is too many. No pod of "loose" is protected by the others, so what may not be
# taken from it one by one may not be taken all at once either.
def test_what_nobody_permits_of_one_is_not_permitted_of_all() -> None:
    told = story(
        node("n0", cpu=3), node("n1", cpu=6), node("n2", cpu=4), line("qa"), line("qb", weight=2),
        group("loose", queue="qa", min_member=0),
        [pod(f"loose-{n}", group="loose", cpu=1, node=where) for n, where in enumerate(["n0", "n0", "n1", "n2"])],
        group("rest", queue="qa", min_member=2),
        pod("rest-0", group="rest", cpu=2, node="n1", preemptable=False),
        pod("rest-1", group="rest", cpu=1, node="n1", preemptable=False),
        group("new", queue="qb", min_member=2), pod("new-0", group="new", cpu=4), pod("new-1", group="new", cpu=3),
    )  # fmt: skip
    assert told.evicted == []


# -- every smaller set ------------------------------------------------------------------------------------------------


@dataclass
class Crowd:
    """Crowded nodes, and one gang that wants in. Only what a recount by hand needs is kept beside the objects."""

    objects: list[KObject]
    room: dict[str, int]  # CPUs of each node that are free
    places: dict[str, tuple[str, int, str]]  # running pod -> its node, CPUs and job
    least: dict[str, int]  # job -> how many of its pods must run together
    claimants: dict[str, int]  # waiting pod -> CPUs


@st.composite
def crowds(draw: st.DrawFn, *, alike: bool = False) -> Crowd:
    """`alike`: the pods that want in are equal."""
    room = {f"n{number}": draw(st.integers(3, 6)) for number in range(draw(st.integers(1, 3)))}
    made: list[KObject] = [
        *(node(name, cpu=cpu) for name, cpu in room.items()),
        *(line(name, weight=draw(st.integers(1, 3))) for name in ("qa", "qb")),
    ]
    places: dict[str, tuple[str, int, str]] = {}
    least: dict[str, int] = {}
    for number in range(draw(st.integers(2, 6))):
        job = f"run{number}"
        count = draw(st.integers(1, 4))
        least[job] = draw(st.integers(0, count))
        made.append(group(job, queue=draw(st.sampled_from(["qa", "qa", "qb"])), min_member=least[job]))
        for member in range(count):
            cpu = draw(st.integers(1, 3))
            where = draw(st.sampled_from(sorted(room)))
            if room[where] >= cpu:
                room[where] -= cpu
                places[f"{job}-{member}"] = where, cpu, job
                made.append(pod(f"{job}-{member}", group=job, cpu=cpu, node=where))
    each = st.just(draw(st.integers(1, 4))) if alike else st.integers(1, 4)
    claimants = {f"new-{number}": draw(each) for number in range(draw(st.sampled_from([1, 1, 2, 3])))}
    from_queue = draw(st.sampled_from(["qa", "qb"]))
    made.append(group("new", queue=from_queue, min_member=len(claimants), priority_class="high"))
    made.extend(pod(name, group="new", cpu=cpu) for name, cpu in claimants.items())
    return Crowd(made, room, places, least, claimants)


def breaks_no_gang(crowd: Crowd, victims: Iterable[str]) -> bool:
    """Every job that loses somebody stays at its minimum, or goes altogether, or was short of it before."""
    running = Counter(job for _, _, job in crowd.places.values())
    taken = Counter(crowd.places[name][2] for name in victims)
    return all(
        running[job] - count >= crowd.least[job] or running[job] == count or running[job] < crowd.least[job]
        for job, count in taken.items()
    )


def free_without(crowd: Crowd, victims: Iterable[str]) -> Counter[str]:
    free = Counter(crowd.room)
    for name in victims:
        where, cpu, _ = crowd.places[name]
        free[where] += cpu
    return free


def makes_room(crowd: Crowd, victims: Iterable[str], wanted: Mapping[str, int]) -> bool:
    """`wanted`: CPUs by node."""
    free = free_without(crowd, victims)
    return all(free[where] >= cpu for where, cpu in wanted.items())


# Where the claimants go is the scheduler's choice. For these nodes, whoever is evicted is needed.
@settings(max_examples=300)
@given(crowds())
def test_no_smaller_set_of_victims_would_do(crowd: Crowd) -> None:
    told = story(crowd.objects)
    event(f"{len(told.evicted)} evicted for {len(crowd.claimants)}")
    if not told.evicted:
        return
    wanted: Counter[str] = Counter()
    for name, cpu in crowd.claimants.items():
        wanted[told.nominated[name]] += cpu
    assert makes_room(crowd, told.evicted, wanted)
    assert breaks_no_gang(crowd, told.evicted)
    for count in range(len(told.evicted)):
        for fewer in combinations(told.evicted, count):
            enough = makes_room(crowd, fewer, wanted) and breaks_no_gang(crowd, fewer)
            assert not enough, f"{fewer} would do for {crowd.claimants}, and {told.evicted} went"


# If the claimants are equal, they can be counted: nobody is evicted who is not needed, wherever they go.
@settings(max_examples=300)
@given(crowds(alike=True))
def test_no_smaller_set_of_victims_would_do_on_other_nodes(crowd: Crowd) -> None:
    told = story(crowd.objects)
    event(f"{len(told.evicted)} evicted for {len(crowd.claimants)}")
    cpu = next(iter(crowd.claimants.values()))
    for count in range(len(told.evicted)):
        for fewer in combinations(told.evicted, count):
            places = sum(free // cpu for free in free_without(crowd, fewer).values())
            enough = places >= len(crowd.claimants) and breaks_no_gang(crowd, fewer)
            assert not enough, f"{fewer} would do for {crowd.claimants}, and {told.evicted} went"
