"""What a scheduler remembers of the pods of a job from one cycle to the next is forgotten when they change."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from builders import START, cluster, established, group, node, pod, queue
from stromboli.cluster import Applied, Cluster, Deleted, Job
from stromboli.scheduling.attempt import JobKinds
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

POLICY = """
actions: [{name: allocate}]
tiers: [{plugins: [{name: priority}, {name: gang}, {name: predicates}]}]
"""


def world() -> Cluster:
    """Two equal gangs, far too large for the node."""
    gangs = [
        (group(f"ns/{name}", queue="q", min_member=2, phase="Inqueue"),
         *(pod(f"ns/{name}-{number}", group=name, cpu=8) for number in range(2)))
        for name in "ab"
    ]  # fmt: skip
    return cluster(node("n1", cpu=4), queue("q"), *gangs)


def scheduler() -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    return Scheduler(registry.load(POLICY, where="test"), registry)


def job(session: Session, name: str) -> Job:
    return next(job for job in session.waiting if job.name == name)


def order(session: Session) -> list[str]:
    return [task.name for task in session.pending_tasks(job(session, "a"))]


def are_alike(session: Session) -> bool:
    kinds = session.state(JobKinds)
    return kinds.of(job(session, "a")) == kinds.of(job(session, "b"))


def add_a_pod(known: Cluster) -> None:
    known.apply(Applied(established(pod("ns/a-2", group="a", cpu=8), 50)))


def delete_a_pod(known: Cluster) -> None:
    known.apply(Deleted(established(pod("ns/a-1", group="a", cpu=8), 50)))


def raise_a_priority(known: Cluster) -> None:
    changed = pod("ns/a-1", group="a", cpu=8)
    changed.spec.priority = 7
    known.apply(Applied(established(changed, 50)))


def replace_a_pod_by_a_larger_one(known: Cluster) -> None:
    larger = pod("ns/a-0", group="a", cpu=9)
    larger.metadata.uid = "another"
    known.apply(Applied(established(larger, 50)))


def lower_the_minimum(known: Cluster) -> None:
    known.apply(Applied(established(group("ns/a", queue="q", min_member=1, phase="Inqueue"), 50)))


CHANGES = {
    "a pod is added": (add_a_pod, ["a-0", "a-1", "a-2"]),
    "a pod is deleted": (delete_a_pod, ["a-0"]),
    "a pod has another priority": (raise_a_priority, ["a-1", "a-0"]),
    "a pod is replaced": (replace_a_pod_by_a_larger_one, ["a-0", "a-1"]),
    "the group has another minimum": (lower_the_minimum, ["a-0", "a-1"]),
}
STILL_ALIKE = "a pod has another priority"


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_in_the_next_cycle(change: str) -> None:
    apply: Callable[[Cluster], None]
    apply, expected = CHANGES[change]
    known, remembers = world(), scheduler()
    for now in (START + 1000, START + 1001):
        session = remembers.open(known.snapshot(), now)
        assert order(session) == ["a-0", "a-1"]
        assert are_alike(session)
    apply(known)
    session = remembers.open(known.snapshot(), START + 1002)
    assert order(session) == expected
    assert are_alike(session) == (change == STILL_ALIKE)
    fresh = scheduler().open(known.snapshot(), START + 1002)
    assert order(fresh) == expected


def test_schedulers_with_other_rules_share_no_memory() -> None:
    known = world()
    raise_a_priority(known)
    with_priority = scheduler().open(known.snapshot(), START + 1000)
    assert order(with_priority) == ["a-1", "a-0"]
    registry = Registry(installed_plugins=(), installed_actions=())
    without = Scheduler(registry.load(POLICY.replace("{name: priority}, ", ""), where="test"), registry)
    assert order(without.open(known.snapshot(), START + 1000)) == ["a-0", "a-1"]
