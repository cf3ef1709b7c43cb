"""Fair shares between jobs and namespaces."""

from __future__ import annotations

import pytest

from builders import GPU, cluster, group, node, plugin, pod, pods, queue, quota, session
from stromboli.cluster import Applied, Cluster, Deleted, Status, fits
from stromboli.scheduling.configuration.arguments import ConfigurationError
from stromboli.scheduling.session import Session

DRF = [["drf"]]


def take_turns(current: Session, known: Cluster, node_name: str) -> list[str]:
    """Place one pod at a time, of the job that comes first, until nothing fits; returns the jobs in that order."""
    statement = current.statement()
    target = known.nodes[node_name]
    turns = []
    while True:
        for job in sorted(current.jobs, key=current.job_key):
            waiting = current.pending_tasks(job)
            if waiting and fits(waiting[0].request, current.nodes.idle[target.row]):
                statement.allocate(waiting[0], target)
                turns.append(job.name)
                break
        else:
            return turns


# Nine CPUs and 18 GB. A task of A is 1/9 of the CPUs and 4/18 = 2/9 of the memory: 2/9 a turn.
# A task of B is 3/9 of the CPUs and 1/18 of the memory: 3/9 a turn.
#   A 0 B 0 → A (by name)    A 2/9 B 0 → B    A 2/9 B 3/9 → A    A 4/9 B 3/9 → B    A 4/9 B 6/9 → A    full
def test_the_example_of_the_textbook() -> None:
    known = cluster(
        node("n1", cpu=9, memory=18),
        group("a", created=0),
        group("b", created=0),
        pods("a", 9, group="a", cpu=1, memory=4),
        pods("b", 9, group="b", cpu=3, memory=1),
    )
    current = session(known, tiers=DRF)
    assert take_turns(current, known, "n1") == ["a", "b", "a", "b", "a"]
    shares = [current.job_key(job)[0] for job in current.jobs]
    assert shares[0] == shares[1]  # both 2/3


# 7 of 21 and 1 of 3 are the same third, and no rounding may say otherwise: the tie goes to the older one.
def test_equal_shares_of_different_resources_are_equal() -> None:
    known = cluster(
        node("n1", cpu=21, memory=3),
        group("cpu"),
        group("memory"),
        pod("c", group="cpu", cpu=7, node="n1"),
        pod("m", group="memory", memory=1, node="n1"),
    )
    current = session(known, tiers=DRF)
    first, second = current.jobs
    assert current.job_key(first)[0] == current.job_key(second)[0]
    assert current.job_key(first) < current.job_key(second)


# Ten of the eleven places for pods are taken, by pods that want next to nothing: no share worth speaking of.
def test_the_number_of_pods_is_no_share() -> None:
    known = cluster(
        node("n1", cpu=100, pods=11),
        group("many-small"),
        group("one-big"),
        pods("s", 10, group="many-small", cpu="1m", node="n1"),
        pod("b", group="one-big", cpu=50, node="n1"),
    )
    current = session(known, tiers=DRF)
    assert [job.name for job in sorted(current.jobs, key=current.job_key)] == ["many-small", "one-big"]


def test_who_has_a_resource_that_no_ready_node_offers_has_all_of_it() -> None:
    known = cluster(
        node("n1", cpu=10),
        node("lost", cpu=10, gpu=4, ready=False),
        group("cpu"),
        group("gpu"),
        pod("c", group="cpu", cpu=9, node="n1"),
        pod("g", group="gpu", gpu=1, node="lost"),
    )
    current = session(known, tiers=DRF)
    assert GPU in current.axis.index
    assert [job.name for job in sorted(current.jobs, key=current.job_key)] == ["cpu", "gpu"]


def test_a_cluster_without_nodes_has_no_shares() -> None:
    known = cluster(group("a"), group("b"), pod("p", group="b", cpu=1))
    current = session(known, tiers=DRF)
    assert [job.name for job in sorted(current.jobs, key=current.job_key)] == ["a", "b"]


# -- namespaces ---------------------------------------------------------------------------------------------------


def namespace_order(current: Session, queue_name: str, *namespaces: str) -> list[str]:
    own = current.queues[queue_name]  # type: ignore[index]
    return sorted(namespaces, key=lambda namespace: current.namespace_key(own, namespace))


# 6/3 = 2 is less than 3/1 = 3, although six is more than three.
def test_namespaces_are_compared_by_what_they_use_over_their_weight() -> None:
    known = cluster(
        node("n1", cpu=16),
        quota("ns1/q", weight=3),
        group("ns1/pg"),
        group("ns2/pg"),
        pods("ns1/p", 6, group="pg", cpu=1, node="n1"),
        pods("ns2/p", 3, group="pg", cpu=1, node="n1"),
    )
    assert namespace_order(session(known, tiers=DRF), "default", "ns1", "ns2") == ["ns1", "ns2"]
    known.apply(Applied(quota("ns1/q", weight=2)))  # 6/2 = 3/1: a tie, by name
    assert namespace_order(session(known, tiers=DRF), "default", "ns1", "ns2") == ["ns1", "ns2"]
    known.apply(Applied(quota("ns1/q", weight=1)))
    assert namespace_order(session(known, tiers=DRF), "default", "ns1", "ns2") == ["ns2", "ns1"]


# (3e17 + 3) / 3 = 1e17 + 1 is more than 7e17 / 7 = 1e17, by less than a floating-point number can tell.
def test_weighted_shares_are_compared_exactly() -> None:
    known = cluster(
        node("n1", memory=2 * 10**18),
        quota("a/q", weight=3),
        quota("b/q", weight=7),
        group("a/pg"),
        group("b/pg"),
        pod("a/p", group="pg", memory=3 * 10**17 + 3, node="n1"),
        pod("b/p", group="pg", memory=7 * 10**17, node="n1"),
    )
    assert namespace_order(session(known, tiers=DRF), "default", "a", "b") == ["b", "a"]


# ns1 has much in q1, but what counts in q2 is what it has there.
def test_what_a_namespace_has_in_another_queue_does_not_count() -> None:
    known = cluster(
        node("n1", cpu=16),
        queue("q1"),
        queue("q2"),
        group("ns1/elsewhere", queue="q1"),
        pods("ns1/e", 9, group="elsewhere", cpu=1, node="n1"),
        group("ns1/pg", queue="q2"),
        pods("ns1/p", 1, group="pg", cpu=1, node="n1"),
        group("ns2/pg", queue="q2"),
        pods("ns2/p", 2, group="pg", cpu=1, node="n1"),
    )
    current = session(known, tiers=DRF)
    assert namespace_order(current, "q2", "ns1", "ns2", "ns3") == ["ns3", "ns1", "ns2"]
    assert namespace_order(current, "q1", "ns1", "ns2") == ["ns2", "ns1"]


# The highest valid weight among the quotas of a namespace, whatever comes and goes.
def test_the_weight_of_a_namespace_follows_its_quotas() -> None:
    known = cluster(node("n1", cpu=1), quota("ns/abc", weight=123))
    weight_of = known.snapshot().namespaces["ns"]
    assert weight_of.weight == 123
    for change, weight in [
        (Applied(quota("ns/abc", weight="456")), 456),
        (Applied(quota("ns/def")), 456),
        (Applied(quota("ns/def", weight=16)), 456),
        (Applied(quota("ns/ghi", weight=0)), 456),
        (Deleted(quota("ns/abc", weight=999)), 16),
        (Deleted(quota("ns/def")), 1),
        (Applied(quota("ns/bad", weight="-3")), 1),
        (Applied(quota("ns/bad", weight="a lot")), 1),
        (Applied(quota("ns/bad", weight="2.5")), 1),
        (Deleted(quota("ns/ghi")), 1),
    ]:
        known.apply(change)
        assert weight_of.weight == weight


def test_the_namespace_level_can_be_moved_below_priority_or_switched_off() -> None:
    known = cluster(node("n1", cpu=1))
    assert session(known, tiers=DRF).namespace_scope == "beforePriority"
    within = plugin("drf", {"namespaceOrderScope": "withinPriority"})
    assert session(known, tiers=[[within]]).namespace_scope == "withinPriority"
    with pytest.raises(ConfigurationError, match="namespaceOrderScope"):
        session(known, tiers=[[plugin("drf", {"namespaceOrderScope": "afterwards"})]])
    off = session(known, tiers=[[plugin("drf", namespaceOrder=False)]])
    assert off.namespace_key(off.queues["default"], "ns1") == ("ns1",)  # type: ignore[index]


def test_queues_have_no_order_unless_they_are_a_tree() -> None:
    plain, tree = (session(cluster(), tiers=[[plugin("drf", hierarchy=on)]]) for on in (False, True))
    assert not plain.points.queue_order
    assert [hook.plugin for hook in tree.points.queue_order.hooks] == ["drf"]


# -- preemption ---------------------------------------------------------------------------------------------------


def may_preempt(current: Session, known: Cluster, evictor: str, candidate: str, *, whole: bool = False) -> bool:
    tasks = known.tasks
    return current.may_evict("preemptable", tasks[evictor], tasks[candidate], whole=whole)  # type: ignore[index]


def two_jobs(first: int, second: int) -> Cluster:
    """Jobs of pods with one CPU each, on a full node; each job has a pod that waits."""
    return cluster(
        node("n1", cpu=first + second),
        group("a"),
        group("b"),
        pods("a", first, group="a", cpu=1, node="n1"),
        pods("b", second, group="b", cpu=1, node="n1"),
        pod("more-a", group="a", cpu=1),
        pod("more-b", group="b", cpu=1),
    )


# Of ten: a has x and would have x + 1, b has y and would have y - 1. Allowed while x + 1 is no more than y - 1.
@pytest.mark.parametrize(("x", "y", "allowed"), [(2, 8, True), (4, 6, True), (5, 5, False), (6, 4, False)])
def test_shares_are_compared_after_the_move(x: int, y: int, allowed: bool) -> None:
    known = two_jobs(x, y)
    assert may_preempt(session(known, tiers=DRF), known, "default/more-a", "default/b-0") is allowed


# 1 against 9: after four moves 5 stand against 5. A fifth would make it 6 against 4, and nothing leads back.
def test_taking_room_comes_to_an_end_and_is_never_returned() -> None:
    known = two_jobs(1, 9)
    current = session(known, tiers=DRF)
    for number in range(2, 6):
        known.apply(Applied(pod(f"more-a-{number}", group="a", cpu=1)))
    current = session(known, tiers=DRF)
    statement = current.statement()
    moves = 0
    for waiting in current.pending_tasks(known.jobs["default/a"]):  # type: ignore[index]
        victim = known.tasks[f"default/b-{moves}"]  # type: ignore[index]
        if current.may_evict("preemptable", waiting, victim):
            statement.evict(victim, reason="Preempted", message="")
            statement.pipeline(waiting, known.nodes["n1"])
            moves += 1
        assert not may_preempt(current, known, "default/more-b", "default/a-0")
    assert moves == 4


def test_inside_a_job_shares_say_nothing() -> None:
    known = two_jobs(3, 3)
    current = session(known, tiers=[["drf"], ["priority"]])
    assert not may_preempt(current, known, "default/more-a", "default/a-0")
    known.apply(Applied(pod("urgent-a", group="a", cpu=1, priority=9)))
    assert may_preempt(session(known, tiers=[["drf"], ["priority"]]), known, "default/urgent-a", "default/a-0")


# Gone as a whole, b would be left with nothing, and a with more than that.
def test_a_whole_gang_is_not_sent_away_for_a_share() -> None:
    known = two_jobs(1, 9)
    assert not may_preempt(session(known, tiers=DRF), known, "default/more-a", "default/b-0", whole=True)


def two_namespaces(weight: int) -> Cluster:
    return cluster(
        node("n1", cpu=12),
        quota("ns2/q", weight=weight),
        group("ns1/pg"),
        group("ns2/pg"),
        pods("ns1/p", 2, group="pg", cpu=1, node="n1"),
        pods("ns2/p", 9, group="pg", cpu=1, node="n1"),
        pod("ns1/e", group="pg", cpu=1),
    )


# After the move ns1 would have 3/12 = 0.25, and ns2 (8/12)/3 = 0.222 at weight 3, or 0.667 at weight 1.
@pytest.mark.parametrize(("weight", "allowed"), [(3, False), (1, True)])
def test_namespaces_are_compared_by_weight_before_jobs(weight: int, allowed: bool) -> None:
    known = two_namespaces(weight)
    assert may_preempt(session(known, tiers=DRF), known, "ns1/e", "ns2/p-0") is allowed


def test_without_the_namespace_level_only_jobs_are_compared() -> None:
    known = two_namespaces(3)  # by jobs: 3/12 against 8/12
    current = session(known, tiers=[[plugin("drf", namespaceOrder=False)]])
    assert may_preempt(current, known, "ns1/e", "ns2/p-0")


# ns1 would have 5 of 12 and ns2 7. That is enough, although the victim's job is left with nothing.
def test_between_namespaces_the_shares_of_jobs_are_not_looked_at() -> None:
    known = cluster(
        node("n1", cpu=12),
        group("ns1/pg"),
        pods("ns1/p", 4, group="pg", cpu=1, node="n1"),
        *[item for n in range(8) for item in (group(f"ns2/g{n}"), pod(f"ns2/p{n}", group=f"g{n}", cpu=1, node="n1"))],
        pod("ns1/e", group="pg", cpu=1),
    )
    assert may_preempt(session(known, tiers=DRF), known, "ns1/e", "ns2/p0")


# A millicore of ten million CPUs is no difference: the new job of ns1 has nothing else, so it may.
def test_namespaces_that_differ_by_next_to_nothing_are_even() -> None:
    known = cluster(
        node("n1", cpu=10_000_000),
        group("ns1/old"),
        pod("ns1/old", group="old", cpu=500, node="n1"),
        group("ns2/pg"),
        pod("ns2/stays", group="pg", cpu=500, node="n1"),
        pod("ns2/goes", group="pg", cpu=1, node="n1"),
        group("ns1/new"),
        pod("ns1/e", group="new", cpu="1m"),
    )
    assert may_preempt(session(known, tiers=DRF), known, "ns1/e", "ns2/goes")


# 4/12 each after the move. Namespaces that end even may preempt, whatever their jobs have: 4 against 0 left for b, or 3
# for c. One more pod would be 5/12 against 3/12.
def test_namespaces_may_preempt_until_they_are_even() -> None:
    known = cluster(
        node("n1", cpu=12),
        group("ns1/a"),
        group("ns2/b"),
        group("ns2/c"),
        pods("ns1/a", 3, group="a", cpu=1, node="n1"),
        pods("ns2/b", 1, group="b", cpu=1, node="n1"),
        pods("ns2/c", 4, group="c", cpu=1, node="n1"),
        pod("ns1/e", group="a", cpu=1),
    )
    current = session(known, tiers=DRF)
    assert may_preempt(current, known, "ns1/e", "ns2/b-0")
    assert may_preempt(current, known, "ns1/e", "ns2/c-0")
    known.apply(Applied(pod("ns1/a-3", group="a", cpu=1, node="n1")))
    assert not may_preempt(session(known, tiers=DRF), known, "ns1/e", "ns2/c-0")
    assert known.tasks["ns2/c-0"].status is Status.RUNNING  # type: ignore[index]
