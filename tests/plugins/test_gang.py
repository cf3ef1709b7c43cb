"""Gangs start together, and are not broken apart."""

from __future__ import annotations

import pytest

from builders import cluster, established, group, node, pod, pods, session
from stromboli.api import Pod
from stromboli.cluster import Applied, Cluster, Status
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.session import Session


def gang_session(known: Cluster) -> Session:
    return session(known, tiers=[["gang"]])


def permits(current: Session, known: Cluster, evictor: str, candidate: str, *, whole: bool = False) -> bool:
    """Whether gang spares nobody: it only ever protects, so a permitting plugin is stood in for by its absence."""
    hooks = current.points.preemptable.protect.hooks
    assert [hook.plugin for hook in hooks] == ["gang"]
    return all(hook.call(known.tasks[evictor], known.tasks[candidate], whole) != -1 for hook in hooks)


def six_tasks(min_member: int) -> Cluster:
    return cluster(
        node("n1", cpu=100),
        group("ns1/pg1", min_member=min_member),
        pod("ns1/pending", group="pg1", cpu=1),
        pod("ns1/pending-best-effort", group="pg1"),
        pod("ns1/pipelined", group="pg1", cpu=1),
        pod("ns1/pipelined-best-effort", group="pg1"),
        pod("ns1/running", group="pg1", cpu=1, node="n1"),
        pod("ns1/running-best-effort", group="pg1", node="n1"),
    )


# Running 2, promised 2, and of the 2 that wait 1 wants nothing but a place:
#   ready     2 + 1 = 3        pipelined  2 + 2 + 1 = 5        not starving from 2 + 2 = 4 on
@pytest.mark.parametrize(
    ("min_member", "ready", "pipelined", "starving"),
    [(3, True, True, False), (4, False, True, False), (5, False, True, True), (6, False, False, True)],
)
def test_how_far_a_gang_is(min_member: int, ready: bool, pipelined: bool, starving: bool) -> None:
    known = six_tasks(min_member)
    current = gang_session(known)
    statement = current.statement()
    for name in ("ns1/pipelined", "ns1/pipelined-best-effort"):
        statement.pipeline(known.tasks[name], known.nodes["n1"])
    job = current.jobs[0]
    assert current.job_ready(job) is ready
    assert current.job_pipelined(job) is pipelined
    assert current.job_starving(job) is starving


def test_a_gang_with_too_few_pods_is_not_tried() -> None:
    known = cluster(group("ns1/pg1", min_member=3), pods("ns1/p", 2, group="pg1", cpu=1))
    current = gang_session(known)
    assert current.job_valid(current.jobs[0]) == Refusal("NotEnoughPods", need=3, have=2)


def test_a_minimum_without_a_role_counts_pods_without_a_role() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("ns1/pg1", min_member=2, roles={"": 2}),
        pod("ns1/p-0", group="pg1", cpu=1, node="n1"),
        pod("ns1/p-1", group="pg1", cpu=1, role="worker"),
    )
    current = gang_session(known)
    assert current.job_valid(current.jobs[0]) == Refusal("NotEnoughPods", need=2, have=1, subject='""')
    known.apply(Applied(established(pod("ns1/p-2", group="pg1", cpu=1, node="n1"), 9)))
    current = gang_session(known)
    assert current.job_valid(current.jobs[0]) is None
    assert current.job_ready(current.jobs[0])
    known.validate()


def test_pods_that_failed_are_no_members_and_those_that_succeeded_are() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("ns1/pg1", min_member=3),
        pod("ns1/done", group="pg1", cpu=1, node="n1", phase="Succeeded"),
        pod("ns1/failed", group="pg1", cpu=1, node="n1", phase="Failed"),
        pods("ns1/p", 1, group="pg1", cpu=1),
    )
    current = gang_session(known)
    assert current.job_valid(current.jobs[0]) == Refusal("NotEnoughPods", need=3, have=2)


# minMember 4 = one master and three workers; two masters and two workers are four pods, but not that gang.
def test_a_role_that_is_short_keeps_the_gang_from_being_tried() -> None:
    known = cluster(
        group("ns1/pg1", min_member=4, roles={"master": 1, "worker": 3}),
        pods("ns1/m", 2, group="pg1", cpu=1, role="master"),
        pods("ns1/w", 2, group="pg1", cpu=1, role="worker"),
    )
    current = gang_session(known)
    assert current.job_valid(current.jobs[0]) == Refusal("NotEnoughPods", need=3, have=2, subject="worker")


# 1 + 3 = 4 members stated by role, but the gang is 2: the roles cannot be meant, and are ignored.
def test_role_minimums_above_the_gangs_own_are_ignored() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("ns1/pg1", min_member=2, roles={"master": 1, "worker": 3}),
        pods("ns1/w", 2, group="pg1", cpu=1, role="worker", node="n1"),
    )
    current = gang_session(known)
    assert current.job_valid(current.jobs[0]) is None
    assert current.job_ready(current.jobs[0])


def test_a_gang_is_ready_when_every_role_is_filled() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("ns1/pg1", min_member=2, roles={"master": 1, "worker": 1}),
        pods("ns1/w", 2, group="pg1", cpu=1, role="worker", node="n1"),
        pod("ns1/m", group="pg1", cpu=1, role="master"),
    )
    current = gang_session(known)
    job = current.jobs[0]
    assert not current.job_ready(job)
    assert not current.job_pipelined(job)
    statement = current.statement()
    statement.pipeline(known.tasks["ns1/m"], known.nodes["n1"])
    assert not current.job_ready(job)
    assert current.job_pipelined(job)
    statement.discard()
    current.statement().allocate(known.tasks["ns1/m"], known.nodes["n1"])
    assert current.job_ready(job)


def test_gangs_with_members_missing_go_first() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("ns1/complete", min_member=1),
        pod("ns1/c0", group="complete", cpu=1, node="n1"),
        pod("ns1/c1", group="complete", cpu=1),
        group("ns1/waiting", min_member=1),
        pod("ns1/w0", group="waiting", cpu=1),
    )
    current = gang_session(known)
    assert [job.name for job in sorted(current.jobs, key=current.job_key)] == ["waiting", "complete"]


def running(min_member: int, count: int, **facts: object) -> list[Pod]:
    return [
        group("ns1/victim", min_member=min_member),  # type: ignore[list-item]
        *pods("ns1/v", count, group="victim", cpu=1, node="n1", **facts),
        group("ns1/evictor"),  # type: ignore[list-item]
        pod("ns1/e", group="evictor", cpu=1),
    ]


# Five run, three are needed: two may go one by one, then no more.
def test_what_is_above_the_minimum_may_go_one_by_one() -> None:
    known = cluster(node("n1", cpu=9), running(3, 5))
    current = gang_session(known)
    statement = current.statement()
    for name in ("ns1/v-0", "ns1/v-1"):
        assert permits(current, known, "ns1/e", name)
        statement.evict(known.tasks[name], reason="Preempted", message="")
    for name in ("ns1/v-2", "ns1/v-3", "ns1/v-4"):
        assert not permits(current, known, "ns1/e", name)
        assert permits(current, known, "ns1/e", name, whole=True)
    statement.discard()
    assert permits(current, known, "ns1/e", "ns1/v-4")
    known.validate()


def test_a_broken_gang_has_nothing_left_to_protect() -> None:
    known = cluster(node("n1", cpu=9), running(3, 2))
    assert permits(gang_session(known), known, "ns1/e", "ns1/v-0")


# A job of one pod was once evicted again and again, since "all but the minimum of one" was taken to be all of it.
@pytest.mark.parametrize(("min_member", "spared"), [(1, True), (0, False)])
def test_a_job_of_one_pod_goes_only_as_a_whole_unless_it_needs_none(min_member: int, spared: bool) -> None:
    known = cluster(node("n1", cpu=9), running(min_member, 1))
    current = gang_session(known)
    assert permits(current, known, "ns1/e", "ns1/v-0") is not spared
    assert permits(current, known, "ns1/e", "ns1/v-0", whole=True)


# Four run and three are needed, but of the one master none can be spared; of three workers one can.
def test_a_role_at_its_minimum_is_spared_though_the_gang_has_more_than_it_needs() -> None:
    known = cluster(
        node("n1", cpu=9),
        group("ns1/victim", min_member=3, roles={"master": 1, "worker": 2}),
        pod("ns1/m", group="victim", cpu=1, role="master", node="n1"),
        pods("ns1/w", 3, group="victim", cpu=1, role="worker", node="n1"),
        group("ns1/evictor"),
        pod("ns1/e", group="evictor", cpu=1),
    )
    current = gang_session(known)
    assert not permits(current, known, "ns1/e", "ns1/m")
    assert permits(current, known, "ns1/e", "ns1/w-0")


# One runs and one waits for nothing but a place: that gang of two counts as started, and is protected as such.
def test_a_gang_that_is_complete_by_a_pod_without_requests_is_protected() -> None:
    known = cluster(node("n1", cpu=9), running(2, 1), pod("ns1/small", group="victim"))
    current = gang_session(known)
    assert known.tasks["ns1/small"].status is Status.PENDING
    assert not permits(current, known, "ns1/e", "ns1/v-0")


def test_protection_is_the_same_when_other_queues_take_back() -> None:
    known = cluster(node("n1", cpu=9), running(2, 2))
    current = gang_session(known)
    (hook,) = current.points.reclaimable.protect.hooks
    assert hook.call(known.tasks["ns1/e"], known.tasks["ns1/v-0"], False) == -1
