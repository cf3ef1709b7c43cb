"""A bind that the API server refuses is retried later, and on another node if one fits."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from msgspec.structs import replace

from builders import START, cluster, established, group, node, pod, pods, queue
from stromboli.cluster import Applied, BindFailed, Cluster, Task, TaskKey
from stromboli.scheduling.bind_backoff import RETRIED_BESIDE_OTHERS, RETRIED_IN_VAIN, RETRIED_JOBS, retried_at
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, Evict, PatchGroup
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.registry import Registry

NOW = START + 1000
REGISTRY = Registry(installed_plugins=(), installed_actions=())
SCHEDULER = Scheduler(REGISTRY.default(), REGISTRY)

WHY = 'admission webhook "policy.example.com" denied the request'


def one_pod(nodes: int) -> Cluster:
    return cluster(
        [node(f"n{number}", cpu=4) for number in range(nodes)],
        group("ns/g", min_member=1), pod("ns/a", group="g", cpu=1),
    )  # fmt: skip


def binds(cycle: Cycle) -> list[tuple[str, str]]:
    return [(one.task, one.node) for one in cycle.decisions if isinstance(one, Bind)]


def refuse(known: Cluster, task: str, at: float, *, node: str) -> None:
    known.apply(BindFailed(TaskKey(task), node, WHY, at))


def accept(known: Cluster, *accepted: tuple[str, str]) -> None:
    for task, name in accepted:
        waiting = known.tasks[TaskKey(task)].pod
        known.apply(Applied(replace(waiting, spec=replace(waiting.spec, node_name=name))))


def attempts(known: Cluster, until: int) -> list[tuple[int, str]]:
    """(when, node) of the binds of ns/a in one cycle a second, all of which are refused."""
    tried = []
    for second in range(until):
        for task, name in binds(SCHEDULER.run(known, NOW + second)):
            tried.append((second, name))
            refuse(known, task, NOW + second, node=name)
    return tried


def test_pauses_grow() -> None:
    times = [second for second, _ in attempts(one_pod(1), 600)]
    pauses = [later - sooner for sooner, later in pairwise(times)]
    assert pauses[0] >= 6
    assert all(later >= 1.8 * sooner for sooner, later in pairwise(pauses[:4]))
    assert len(times) <= 10  # 600 cycles would bind 600 times otherwise


def test_another_node_is_tried_first() -> None:
    tried = attempts(one_pod(3), 12)
    assert {name for _, name in tried[:3]} == {"n0", "n1", "n2"}


def test_a_bind_that_succeeds_ends_it() -> None:
    known = one_pod(1)
    [(task, name)] = binds(SCHEDULER.run(known, NOW))
    refuse(known, task, NOW, node=name)
    assert binds(SCHEDULER.run(known, NOW + 0.5)) == []

    bound = pod("ns/a", group="g", cpu=1, node="n0")
    known.apply(Applied(established(bound)))
    assert not known.ledger.refused_binds
    assert known.tasks[TaskKey("ns/a")].refused is None
    known.validate()


def test_the_pod_and_its_group_say_who_refused_and_when_it_is_tried_again() -> None:
    known = one_pod(1)
    [(task, name)] = binds(SCHEDULER.run(known, NOW))
    refuse(known, task, NOW, node=name)
    cycle = SCHEDULER.run(known, NOW + 0.5)
    why = cycle.waiting[TaskKey("ns/a")]
    assert why.code == "BindRefused"
    assert WHY in why.message
    assert "ns/a to n0" in why.message
    assert "The next attempt is at 2030-01-01T00:1" in why.message
    assert cycle.next_due is not None
    assert NOW + 1 <= cycle.next_due <= NOW + 1.5
    # The same words in the next cycle, so that nothing is written again.
    assert SCHEDULER.run(known, NOW + 0.6).waiting[TaskKey("ns/a")] == why


def test_nobody_is_evicted_for_a_pod_that_pauses() -> None:
    known = cluster(
        [node("n0", cpu=1), node("n1", cpu=1)],
        group("ns/low"), pod("ns/low-0", group="low", cpu=1, node="n1", priority=0),
        group("ns/g"), pod("ns/a", group="g", cpu=1, priority=10),
    )  # fmt: skip
    assert binds(SCHEDULER.run(known, NOW)) == [("ns/a", "n0")]
    refuse(known, "ns/a", NOW, node="n0")
    cycle = SCHEDULER.run(known, NOW + 0.5)
    assert not [one for one in cycle.decisions if isinstance(one, Evict)]


def test_the_others_of_its_gang_wait_for_it_and_hold_nothing() -> None:
    known = cluster(
        node("n0", cpu=2), group("ns/g", min_member=2), pods("ns/a", 2, group="g", cpu=1),
        group("ns/h", created=500), pod("ns/b", group="h", cpu=1, created=500),
    )  # fmt: skip
    first = binds(SCHEDULER.run(known, NOW))
    assert [task for task, _ in first] == ["ns/a-0", "ns/a-1"]
    for task, name in first:
        refuse(known, task, NOW, node=name)
    assert binds(SCHEDULER.run(known, NOW + 0.5)) == [("ns/b", "n0")]


def test_no_answer_is_no_refusal() -> None:
    """The server was away: nothing says that the next attempt would fail."""
    known = one_pod(1)
    [(task, _)] = binds(SCHEDULER.run(known, NOW))
    known.apply(BindFailed(TaskKey(task)))
    assert binds(SCHEDULER.run(known, NOW + 0.5)) == [("ns/a", "n0")]


def test_refused_pods_come_back_one_by_one() -> None:
    """Five hundred attempts in one instant would hold up everybody else's binds."""
    known = cluster(
        node("n0", cpu=600, pods=600),
        [group(f"ns/g{number}") for number in range(500)],
        [pod(f"ns/p{number}", group=f"g{number}", cpu=1) for number in range(500)],
    )
    for task, name in binds(SCHEDULER.run(known, NOW)):
        refuse(known, task, NOW, node=name)
    times = {retried_at(task.key, task.refused) for task in known.tasks.values() if task.refused is not None}
    assert len(times) > 250


def many_refused(number: int, *, queue_name: str = "") -> Cluster:
    """So many jobs of one pod, all of them refused, and one that was never tried."""
    known = cluster(
        [node(f"n{number}", cpu=600, pods=600) for number in range(2)],
        [group(f"ns/g{number}", queue=queue_name) for number in range(number)],
        [pod(f"ns/p{number}", group=f"g{number}", cpu=1) for number in range(number)],
    )
    if queue_name:
        known.apply(Applied(queue(queue_name, fifo=True)))
    for task, name in binds(SCHEDULER.run(known, NOW)):
        refuse(known, task, NOW, node=name)
    known.apply(Applied(group("ns/new", queue=queue_name, created=500)))
    known.apply(Applied(pod("ns/new-0", group="new", cpu=1, created=500)))
    return known


def test_paused_jobs_are_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    known = many_refused(20)
    tried: list[str] = []
    really = Fitting.choose

    def choose(fitting: Fitting, task: Task, *arguments: Any) -> list[int]:
        tried.append(task.key)
        return really(fitting, task, *arguments)

    monkeypatch.setattr(Fitting, "choose", choose)
    cycle = SCHEDULER.run(known, NOW + 0.5)
    assert set(tried) == {"ns/new-0"}
    assert [task for task, _ in binds(cycle)] == ["ns/new-0"]
    assert {why.code for why in cycle.waiting.values()} == {"BindRefused"}
    assert len(cycle.waiting) == 20
    assert cycle.next_due == min(retried_at(t.key, t.refused) for t in known.tasks.values() if t.refused is not None)


def test_a_cycle_retries_a_limited_number_of_jobs_the_longest_due_first() -> None:
    known = many_refused(RETRIED_JOBS + 20)
    due = sorted((retried_at(t.key, t.refused), t.key) for t in known.tasks.values() if t.refused is not None)
    first = SCHEDULER.run(known, NOW + 10)
    assert {task for task, _ in binds(first)} == {"ns/new-0", *(key for _, key in due[:RETRIED_JOBS])}
    assert first.next_due == NOW + 10
    assert binds(SCHEDULER.run(known, NOW + 10.5)) == []  # they are not answered yet
    accept(known, *binds(first))
    second = SCHEDULER.run(known, NOW + 11)
    assert {task for task, _ in binds(second)} == {key for _, key in due[RETRIED_JOBS:]}


def test_after_many_refusals_in_vain_few_jobs_are_retried_until_one_is_bound() -> None:
    known = many_refused(2 * RETRIED_JOBS)
    for task, name in binds(SCHEDULER.run(known, NOW + 10)):
        refuse(known, task, NOW + 10, node=name)
    in_vain = binds(SCHEDULER.run(known, NOW + 11))
    assert len(in_vain) == RETRIED_IN_VAIN
    for task, name in in_vain:
        refuse(known, task, NOW + 11, node=name)
    known.apply(Applied(group("ns/other")))
    known.apply(Applied(pod("ns/other-0", group="other", cpu=1)))
    beside = binds(SCHEDULER.run(known, NOW + 11.5))
    assert "ns/other-0" in [task for task, _ in beside]
    assert len(beside) == 1 + RETRIED_BESIDE_OTHERS
    accept(known, *beside)
    assert len(binds(SCHEDULER.run(known, NOW + 12))) > 10 * RETRIED_IN_VAIN


def test_a_job_whose_turn_has_not_come_says_the_same_as_before() -> None:
    known = many_refused(RETRIED_JOBS + 1)
    before = SCHEDULER.run(known, NOW + 0.5)
    after = SCHEDULER.run(known, NOW + 10)
    [late] = set(before.waiting) - {task for task, _ in binds(after)}
    assert after.waiting[late].message == before.waiting[late].message
    assert "The next attempt is at" in after.waiting[late].message


def test_a_refused_job_stays_admitted() -> None:
    known = one_pod(2)
    [(task, name)] = binds(SCHEDULER.run(known, NOW))
    refuse(known, task, NOW, node=name)
    cycle = SCHEDULER.run(known, NOW + 0.5)
    assert groups_said(cycle) == ["Inqueue"]


def test_a_retry_does_not_count_as_a_start_before_it_is_answered() -> None:
    known = one_pod(2)
    [(task, name)] = binds(SCHEDULER.run(known, NOW))
    refuse(known, task, NOW, node=name)
    SCHEDULER.run(known, NOW + 0.5)
    retry = SCHEDULER.run(known, NOW + 10)
    [(task, name)] = binds(retry)
    assert groups_said(retry) == []
    assert groups_said(SCHEDULER.run(known, NOW + 11)) == []
    accept(known, (task, name))
    assert groups_said(SCHEDULER.run(known, NOW + 12)) == ["Running"]


def groups_said(cycle: Cycle) -> list[str]:
    return [one.phase for one in cycle.decisions if isinstance(one, PatchGroup)]


def test_a_paused_job_stops_its_fifo_queue() -> None:
    known = many_refused(1, queue_name="line")
    assert binds(SCHEDULER.run(known, NOW + 0.5)) == []
