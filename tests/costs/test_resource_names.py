"""Names of resources that somebody invents cost others nothing: columns belong to what nodes offer."""

from __future__ import annotations

from collections.abc import Iterable

from builders import cluster, established, group, node, pod, queue
from stromboli.api import KObject
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.insight.inspection import take_picture
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Decision, PatchPod
from stromboli.scheduling.registry import Registry

INVENTED = 3480


def tenant() -> Iterable[KObject]:
    """3,480 names in 58 pods, one of which runs: its user wrote the node into it."""
    for first in range(0, INVENTED, 60):
        name = f"tenant/p{first:04}"
        yield group(name)
        asks = {f"example.com/n{number}": 10**12 for number in range(first, first + 60)}
        yield pod(name, cpu=1, resources=asks, group=name.partition("/")[2], node="n1" if first == 0 else "")


def others() -> Iterable[KObject]:
    """10 CPUs on two nodes: gangs of 4, 4 and 4 pods, of which two start."""
    yield node("n1", cpu=6, memory="8Gi")
    yield node("n2", cpu=5, memory="8Gi")
    for name in ("a", "b", "c"):
        yield group(f"team/{name}", min_member=4)
        yield from (pod(f"team/{name}{number}", cpu=1, group=name) for number in range(4))


def run(known: Cluster, now: float = 2_000_000_000.0) -> list[Decision]:
    registry = Registry()
    decisions = Scheduler(registry.default(), registry).run(known, now).decisions
    known.validate()
    return decisions


def binds(decisions: Iterable[Decision]) -> dict[str, str]:
    return {one.task: one.node for one in decisions if isinstance(one, Bind)}


def reason(decisions: Iterable[Decision], task: str) -> str:
    (said,) = [one.message for one in decisions if isinstance(one, PatchPod) and one.task == task]
    return said


def test_names_that_nobody_offers_are_no_columns() -> None:
    known = cluster(others(), tenant())

    assert known.axis.width == 8
    assert len(known.axis) == 4


def test_others_are_placed_as_if_the_names_did_not_exist() -> None:
    invented = run(cluster(others(), tenant()))
    plain = cluster(others(), (pod("tenant/p0000", cpu=1, node="n1")))

    assert len(binds(invented)) == 8
    assert binds(invented) == binds(run(plain))


def test_the_reason_names_what_no_node_offers() -> None:
    decisions = run(cluster(others(), tenant()))

    said = reason(decisions, "tenant/p0060")
    assert "1000000000000 example.com/n100 requested" in said  # the first by name of n60 to n119
    assert "at most 0" in said


def test_so_does_the_reason_of_a_job_that_is_not_admitted() -> None:
    asks = {"cpu": 1, "example.com/tpu": 2}
    known = cluster(node("n1", cpu=4), group("team/g", min_resources=asks, phase="Pending"))
    registry = Registry()
    cycle = Scheduler(registry.default(), registry).run(known, 2_000_000_000.0)

    assert known.jobs["team/g"].phase == "Pending"  # type: ignore[index]
    assert "<unoffered>" not in str(cycle.decisions)
    assert "2 example.com/tpu requested, and the cluster has 0" in str(cycle.decisions)


def test_a_request_of_zero_asks_for_nothing() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("team/g", min_resources={"cpu": 1, "example.com/tpu": 0}, phase="Pending"),
        pod("team/p", cpu=1, resources={"example.com/tpu": 0}, group="g"),
    )

    assert binds(run(known)) == {"team/p": "n1"}


def test_pods_start_when_a_node_begins_to_offer_what_they_ask_for() -> None:
    tpu = "example.com/tpu"
    known = cluster(
        node("n1", cpu=9),
        queue("q", capability={tpu: 3}),
        (group(f"team/g{number}", queue="q") for number in range(3)),
        (pod(f"team/p{number}", cpu=1, resources={tpu: 2}, group=f"g{number}") for number in range(3)),
        pod("team/there", cpu=1, resources={tpu: 1}, node="n1", scheduler="another"),
    )
    assert binds(run(known)) == {}

    known.apply(Applied(established(node("n1", cpu=9, resources={tpu: 9}))))

    # The queue may have 3, and each pod asks for 2.
    assert binds(run(known)) == {"team/p0": "n1"}
    row = known.nodes["n1"].row
    assert known.ledger.table.used[row, known.axis.index[tpu]] == 3


def test_the_order_in_which_pods_and_nodes_arrive_changes_nothing() -> None:
    tpu = "example.com/tpu"
    objects = [
        pod("team/p", cpu=1, resources={tpu: 2}, group="g"),
        group("team/g", min_resources={tpu: 2}, phase="Pending"),
        node("n1", cpu=9, resources={tpu: 4}),
        pod("team/running", cpu=1, resources={tpu: 2}, node="n1"),
    ]

    assert binds(run(cluster(objects))) == binds(run(cluster(reversed(objects)))) == {"team/p": "n1"}


def test_a_name_that_the_last_node_ceases_to_offer_is_no_column_any_more() -> None:
    tpu = "example.com/tpu"
    known = cluster(
        (node(name, cpu=9, resources={tpu: 2}) for name in ("n1", "n2")),
        queue("q", capability={tpu: 3}),
        group("team/g", queue="q", min_resources={tpu: 1}),
        pod("team/runs", cpu=1, resources={tpu: 2}, group="g", node="n1"),
        pod("team/waits", cpu=1, resources={tpu: 1}, group="g"),
    )
    known.snapshot()
    column, row = known.axis.index[tpu], known.nodes["n1"].row

    known.apply(Applied(established(node("n2", cpu=9))))
    assert known.axis.index[tpu] == column

    known.apply(Applied(established(node("n1", cpu=9))))
    assert tpu not in known.axis.index
    assert not known.ledger.table.used[:, column].any()
    assert known.jobs["team/g"].unoffered == ((tpu, 1),)  # type: ignore[index]
    assert binds(run(known)) == {}

    # The same place again: no other name may find in it what was this one's.
    known.apply(Applied(established(node("n2", cpu=9, resources={"example.com/fpga": 1}))))
    known.apply(Applied(established(node("n1", cpu=9, resources={tpu: 3}))))
    assert known.axis.index[tpu] == column
    assert known.ledger.table.used[row, column] == 2
    assert binds(run(known)) == {"team/waits": "n1"}


def test_nodes_that_change_in_other_ways_leave_columns_and_shapes_alone() -> None:
    known = cluster(
        (node(name, cpu=9, resources={"example.com/tpu": 2}) for name in ("n1", "n2")),
        pod("team/runs", cpu=1, resources={"example.com/tpu": 2}, node="n1"),
    )
    shape, changes = known.tasks["team/runs"].shape, known.axis.changes  # type: ignore[index]

    known.apply(Applied(established(node("n1", cpu=8, resources={"example.com/tpu": 1}))))
    known.apply(Deleted(node("n2")))

    assert known.axis.changes == changes
    assert known.tasks["team/runs"].shape is shape  # type: ignore[index]


def test_views_name_what_pods_use_and_no_node_offers() -> None:
    tpu = "example.com/tpu"
    known = cluster(
        node("n1", cpu=9),
        queue("q"),
        group("team/g", queue="q"),
        pod("team/runs", cpu=1, resources={tpu: 2}, group="g", node="n1"),
    )

    picture = take_picture(known, [], 2_000_000_000.0)

    everywhere = {"cpu": 1000, tpu: 2}
    assert [one.used for one in picture.nodes] == [everywhere]
    assert [one.allocated for one in picture.queues if one.name == "q"] == [everywhere]
    assert [one.allocated for one in picture.namespaces if one.queue == "q"] == [everywhere]
    assert [one.allocated for one in picture.jobs] == [everywhere]
