"""Services get their share as well: ReplicaSets without a PodGroup of their own, each pod of which claims for itself.

Such pods share a generated group, which is no gang. If only the first of them could have others evicted, a service that
is scaled up would wait for ever while other queues have more than they deserve.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, floor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairness.scenes import (
    Document,
    Run,
    fair_inside,
    flat,
    gang,
    in_queues,
    nodes,
    patch,
    pods,
    priority_class,
    queue,
    replica_set,
    simulate,
)
from fairness.test_fair_state import Case, Pair, cases, in_queue

CYCLES = 80
QUIET_FROM = 60


def scaled(target: str, before: int, after: int, **facts: object) -> list[Document]:
    """A ReplicaSet that is scaled at 10 s."""
    change = {"spec": {"replicas": after}}
    return [replica_set(target, before, **facts), patch("ReplicaSet", target, change, at=10)]  # type: ignore[arg-type]


# 4 CPUs, two equal queues. b has 1 and a the other 3 when b's service is scaled to 2: that is what b deserves.
def test_a_service_that_is_scaled_up_reclaims(tmp_path: Path) -> None:
    lines = [nodes(4), queue("a"), queue("b")]
    report = simulate(tmp_path, *lines, pods("ns/a", 4, queue="a", at=1), scaled("ns/b", 1, 2, queue="b"), until=60)
    assert in_queues(report) == {"a": 2, "b": 2}
    assert [event["object"] for event in report["events"] if event["type"] == "Evicted"] == ["ns/a-2"]


# Weights, sizes and times a tenth and ten times as large as usual: it comes to rest with what each queue deserves.
@pytest.mark.parametrize(("heavy", "cpus", "of_b"), [(1, 4, 2), (1, 40, 20), (10, 22, 20), (100, 101, 100)])
@pytest.mark.parametrize("grace", [0, 3, 30])
def test_two_services_that_come_back_do_not_take_turns(heavy: int, cpus: int, of_b: int, grace: float) -> None:
    a = replica_set("ns/a", cpus, queue="a", grace=grace, at=1)
    b = scaled("ns/b", 1, 2 * cpus, queue="b", grace=grace)
    run = Run(flat(nodes(cpus), queue("a", weight=1), queue("b", weight=heavy), a, b), cycles=CYCLES)
    assert run.running() == Counter({("b", "ns"): of_b, ("a", "ns"): cpus - of_b})
    assert len(run.evictions) == of_b - 1
    assert {eviction.victim.partition("-")[0] for eviction in run.evictions} == {"ns/a"}


# b has what it deserves, 2 of 4, and a the rest. A third pod of b would be on what a deserves.
def test_nothing_is_reclaimed_beyond_what_the_queue_deserves() -> None:
    a, b = replica_set("ns/a", 4, queue="a", at=1), scaled("ns/b", 2, 3, queue="b")
    assert Run(flat(nodes(4), queue("a"), queue("b"), a, b), cycles=CYCLES).evictions == []


# One queue: a service of high priority has all three pods at once or one of them first, and a low one has the rest of
# the 4 CPUs.
@pytest.mark.parametrize("before", [0, 1])
def test_each_pod_of_a_service_preempts(before: int) -> None:
    low = replica_set("ns/low", 4, queue="q")
    high = scaled("ns/high", before, 3, queue="q", priority="high")
    run = Run(flat(nodes(4), queue("q"), priority_class("high", 100), low, high), cycles=CYCLES)
    assert [eviction.victim.partition("-")[0] for eviction in run.evictions] == ["ns/low"] * (3 - before)
    assert len({eviction.claimant for eviction in run.evictions}) == 3 - before


# Who says with a PodGroup, or with a minimum, how many pods belong together gets no more than these by force.
@pytest.mark.parametrize("least", [1, 2])
def test_gangs_claim_their_minimum_only(least: int) -> None:
    of_b = gang("ns/b", least, least=least, queue="b") + gang("ns/b", least + 1, least=least, queue="b", at=3)[-1:]
    run = Run(flat(nodes(6), queue("a"), queue("b"), of_b, replica_set("ns/a", 6, queue="a", at=1)), cycles=20)
    assert run.evictions == []
    with_minimum = replica_set("ns/c", 2, queue="b", least=2)
    more = patch("ReplicaSet", "ns/c", {"spec": {"replicas": 3}}, at=3)
    run = Run(flat(nodes(6), queue("a"), queue("b"), with_minimum, more, replica_set("ns/a", 6, queue="a", at=1)))
    assert run.evictions == []


def services(case: Case, first: Pair) -> list[Document]:
    """One ReplicaSet for all that a namespace asks for in a queue. The first comer is there before all others, and then
    each of them is scaled up from a single pod."""
    made: list[Document] = []
    for (line, namespace), count in case.asks.items():
        name, at = f"{namespace}/{line}", 3 if (line, namespace) == first else 6
        made += [replica_set(name, 1, queue=line), patch("ReplicaSet", name, {"spec": {"replicas": count}}, at=at)]
    return made


# As with single pods (`test_who_comes_first_gives_back`), and however they come: each queue has its share, give or take
# one pod, and nobody is evicted any more.
@settings(max_examples=60)
@given(cases(), st.data(), st.booleans())
def test_scaled_services_share_fairly(case: Case, data: st.DataObject, inside: bool) -> None:
    first = data.draw(st.sampled_from(sorted(case.asks)), label="first")
    case.asks[first] = case.total
    lines = flat(nodes(*case.sizes), (queue(name, **facts) for name, facts in case.queues.items()))
    run = Run(lines + services(case, first), fair_inside() if inside else None, cycles=CYCLES)
    assert [eviction for eviction in run.evictions if eviction.cycle >= QUIET_FROM] == []
    has, shares = run.running(), case.exact_shares()
    for line, share in shares.items():
        got = in_queue(has, line)
        assert floor(share) <= got, f"{line} should have {share} and has {got}"
        if line != first[0]:
            assert got <= ceil(share), f"{line} should have {share} and has {got}"
    run.engine.cluster.validate()
