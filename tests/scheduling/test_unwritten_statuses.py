"""Statuses whose write was given up on its way, or takes its time."""

from __future__ import annotations

from msgspec.structs import replace

from builders import START, cluster, group, node, pod, queue
from stromboli.api import Guarantee, QueueReservation, decode
from stromboli.cluster import Applied, Cluster, TaskKey
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import PatchGroup, PatchReservation
from stromboli.scheduling.registry import Registry

NOW = START + 1000
REGISTRY = Registry(installed_plugins=(), installed_actions=())
WITH_LOCKS = """
actions: "enqueue, allocate"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: node_reservation}, {name: reservation}]
- plugins: [{name: predicates}, {name: proportion}]
"""
SCHEDULER = Scheduler(REGISTRY.default(), REGISTRY)


def running_pod() -> Cluster:
    known = cluster([node("n", cpu=4)], group("ns/g", min_member=1), pod("ns/a", group="g", cpu=1))
    write(known, decided(known, NOW))
    waiting = known.tasks[TaskKey("ns/a")].pod
    bound = replace(waiting, spec=replace(waiting.spec, node_name="n"))
    known.apply(Applied(bound))
    write(known, decided(known, NOW + 1))
    known.apply(Applied(replace(bound, status=replace(bound.status, phase="Running"))))
    return known


def decided(known: Cluster, at: float) -> list[PatchGroup]:
    return [one for one in SCHEDULER.run(known, at).decisions if isinstance(one, PatchGroup)]


def write(known: Cluster, decisions: list[PatchGroup]) -> None:
    for one in decisions:
        shown = known.jobs[one.job].object
        assert shown is not None
        known.apply(Applied(one.applied_to(shown)))


# A process that was suspended for longer than its lease lasts gives up what it had not written yet.
def test_it_is_decided_again_until_the_group_shows_it() -> None:
    known = running_pod()
    lost = decided(known, NOW + 2)
    assert [(one.phase, one.running) for one in lost] == [("Running", 1)]
    again = decided(known, NOW + 3)
    assert again == lost
    write(known, again)
    assert decided(known, NOW + 4) == []


# Its node is locked for another queue. Somebody annotates it before the API server has shown that it failed.
def test_a_reservation_fails_once() -> None:
    owner = queue("owner", created=0)
    owner.spec.guarantee = Guarantee(resource={"cpu": 4}, policy="Best-Effort")
    owner.status.reservation = QueueReservation(nodes=["n"], guarantee=owner.spec.guarantee)
    asked = decode(
        {
            "apiVersion": "scheduling.volcano.sh/v1alpha1",
            "kind": "Reservation",
            "metadata": {"name": "r", "uid": "r1", "creationTimestamp": "2030-01-01T00:00:00Z"},
            "spec": {
                "nodeName": "n",
                "owners": [{"object": {"kind": "Pod", "name": "p", "namespace": "ns"}}],
                "template": {
                    "metadata": {"namespace": "ns"},
                    "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
                },
            },
        }
    )
    known = cluster([node("n", cpu=4)], owner, queue("default"), asked)
    scheduler = Scheduler(REGISTRY.load(WITH_LOCKS), REGISTRY)
    first = scheduler.run(known, NOW).decisions
    known.apply(Applied(replace(asked, metadata=replace(asked.metadata, annotations={"seen": "yes"}))))
    again = scheduler.run(known, NOW + 1).decisions
    failed = [[one.phase for one in decisions if isinstance(one, PatchReservation)] for decisions in (first, again)]
    assert failed == [["Failed"], []]
