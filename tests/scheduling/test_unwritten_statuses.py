"""The status of a group whose write was given up on its way."""

from __future__ import annotations

from msgspec.structs import replace

from builders import START, cluster, group, node, pod
from stromboli.cluster import Applied, Cluster, TaskKey
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import PatchGroup
from stromboli.scheduling.registry import Registry

NOW = START + 1000
REGISTRY = Registry(installed_plugins=(), installed_actions=())
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
