"""How many pods may be disturbed, as Kubernetes counts it."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from builders import pod
from controllers.fake_cluster import FakeCluster, owned_by, replica_set
from stromboli.api import (
    LabelSelector,
    ObjectMeta,
    OwnerReference,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    StatefulSet,
    StatefulSetSpec,
)


def budget(**spec: int | str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="b", namespace="ns"),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": "web"}), **spec),  # type: ignore[arg-type]
    )


def settled(cluster: FakeCluster) -> PodDisruptionBudgetStatus:
    cluster.settle()
    found = cluster.get(PodDisruptionBudget, "ns/b")
    assert found is not None
    return found.status


def bare_pods(running: int, pending: int = 0) -> list[object]:
    return [
        pod(f"ns/p{number}", cpu=1, labels={"app": "web"}, node="n1" if number < running else "")
        for number in range(running + pending)
    ]


@pytest.mark.parametrize(
    ("spec", "running", "pending", "desired", "allowed"),
    [
        ({"min_available": 2}, 3, 0, 2, 1),
        ({"min_available": 2}, 2, 1, 2, 0),
        ({"min_available": 5}, 3, 0, 5, 0),  # never below 0
        ({"min_available": 0}, 3, 0, 0, 3),
        ({"min_available": "50%"}, 5, 0, 3, 2),  # 2.5 -> 3
        ({"min_available": "100%"}, 3, 0, 3, 0),
        ({"max_unavailable": 1}, 3, 0, 2, 1),
        ({"max_unavailable": 1}, 2, 1, 2, 0),  # one of three is not there yet
        ({"max_unavailable": "30%"}, 5, 0, 3, 2),  # 1.5 -> 2 may be missing
        ({"max_unavailable": "100%"}, 3, 0, 0, 3),
        ({"max_unavailable": 9}, 3, 0, 0, 3),
    ],
)
def test_numbers(spec: dict[str, int | str], running: int, pending: int, desired: int, allowed: int) -> None:
    status = settled(FakeCluster(budget(**spec), *bare_pods(running, pending)))  # type: ignore[arg-type]
    assert status.expected_pods == running + pending
    assert status.current_healthy == running
    assert (status.desired_healthy, status.disruptions_allowed) == (desired, allowed)


def test_a_set_is_measured_by_what_it_should_be() -> None:
    """Three are wanted, one was just evicted: against the two that are left, one more could go."""
    cluster = FakeCluster(replica_set("ns/web", 3), budget(max_unavailable=1))
    cluster.start()
    assert settled(cluster).disruptions_allowed == 1
    cluster.evict("ns/web-0")
    status = settled(cluster)
    assert (status.expected_pods, status.current_healthy, status.disruptions_allowed) == (3, 2, 0)


def test_so_is_a_stateful_set() -> None:
    """Its successor has the same name and comes when the pod is gone; meanwhile there are only two."""
    owner = StatefulSet(metadata=ObjectMeta(name="db", namespace="ns", uid="db"), spec=StatefulSetSpec(replicas=3))
    reference = OwnerReference(api_version="apps/v1", kind="StatefulSet", name="db", uid="db", controller=True)
    pods = [pod(f"ns/db-{number}", cpu=1, labels={"app": "web"}, node="n1", owner=reference) for number in (0, 1)]
    cluster = FakeCluster(owner, budget(max_unavailable=1), *pods)
    status = settled(cluster)
    assert (status.expected_pods, status.current_healthy, status.disruptions_allowed) == (3, 2, 0)
    cluster.put(replace(owner, spec=replace(owner.spec, replicas=2)))
    assert settled(cluster).disruptions_allowed == 1
    cluster.advance(1)
    cluster.run()
    assert settled(cluster).disruptions_allowed == 1


def test_who_leaves_is_not_healthy_and_who_finished_does_not_count() -> None:
    cluster = FakeCluster(budget(min_available=1), *bare_pods(4))  # type: ignore[arg-type]
    cluster.grace = 30.0
    cluster.evict("ns/p0")
    cluster.finish("ns/p1")
    status = settled(cluster)
    assert (status.expected_pods, status.current_healthy, status.disruptions_allowed) == (3, 2, 1)


def test_a_budget_covers_its_namespace_and_its_selector_only() -> None:
    cluster = FakeCluster(
        budget(min_available=0),
        pod("ns/mine", cpu=1, node="n1", labels={"app": "web"}),
        pod("ns/unlabelled", cpu=1, node="n1"),
        pod("elsewhere/web", cpu=1, node="n1", labels={"app": "web"}),
        pod("ns/adopted", cpu=1, node="n1", labels={"app": "web"}, owner=owned_by("StatefulSet", "s")),
    )
    assert settled(cluster).current_healthy == 2


def test_a_budget_of_nothing_allows_nothing() -> None:
    assert settled(FakeCluster(budget(max_unavailable=1))).disruptions_allowed == 0


def test_what_others_keep_in_the_status_stays() -> None:
    noted = budget(min_available=1)
    noted = replace(noted, status=replace(noted.status, disrupted_pods={"p0": "2030-01-01T00:00:00Z"}))
    assert settled(FakeCluster(noted)).disrupted_pods == {"p0": "2030-01-01T00:00:00Z"}
