"""What one cycle says of a group stays said while its status is on its way to the API server.

A group of two pods that goes whole or not at all uses both CPUs of a node. A more important pod wants one of them.
"""

from __future__ import annotations

from typing import Any

from builders import cluster, node, priority_class
from stromboli.api import decode
from stromboli.cluster import Applied, Cluster, Deleted
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle, Evict, PatchGroup
from stromboli.scheduling.registry import Registry

NOW = 1_893_456_000.0
MADE = "2030-01-01T00:00:00Z"
TARGET = "DisruptionTarget"


def pod(name: str, group: str, **more: Any) -> dict[str, Any]:
    status = {"phase": "Running"} if "nodeName" in more else {}
    spec = {
        "schedulerName": "volcano", "schedulingGroup": {"podGroupName": group}, **more,
        "containers": [{"name": "main", "resources": {"requests": {"cpu": 1}}}],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata(name), "spec": spec, "status": status}


def metadata(name: str) -> dict[str, Any]:
    return {"name": name, "namespace": "ns", "uid": f"u-{name}", "creationTimestamp": MADE}


def group(name: str, count: int, **more: Any) -> dict[str, Any]:
    spec = {"schedulingPolicy": {"gang": {"minCount": count}}, **more}
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": metadata(name), "spec": spec,
    }  # fmt: skip


def targets(cycle: Cycle, kind: str = TARGET) -> list[str]:
    """What the cycle writes about the group `whole` in this condition."""
    patches = [one for one in cycle.decisions if isinstance(one, PatchGroup) and "whole" in one.job]
    return [next((c.status for c in patch.conditions if c.type == kind), "none") for patch in patches]


def story() -> tuple[Cluster, Scheduler]:
    """The cycle that evicts both pods, and is the first one that sees their nodes; its status is not written yet."""
    known = cluster(node("n", cpu=2), priority_class("high", 100))
    whole = [group("whole", 2, disruptionMode={"all": {}}), *(pod(f"whole-{n}", "whole", nodeName="n") for n in (0, 1))]
    for document in [*whole, group("urgent", 1, priorityClassName="high")]:
        known.apply(Applied(decode(document)))
    known.apply(Applied(decode(pod("urgent-0", "urgent", priorityClassName="high", priority=100))))
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler = Scheduler(registry.default(), registry)
    cycle = scheduler.run(known, NOW)
    assert sorted(one.task for one in cycle.decisions if isinstance(one, Evict)) == ["ns/whole-0", "ns/whole-1"]
    assert targets(cycle) == ["True"]
    assert targets(cycle, "PodGroupInitiallyScheduled") == ["True"]
    return known, scheduler


def test_a_group_that_was_evicted_whole_says_so_until_that_is_written() -> None:
    known, scheduler = story()
    assert set(targets(scheduler.run(known, NOW + 1))) <= {"True"}
    for number in (0, 1):
        known.apply(Deleted(decode(pod(f"whole-{number}", "whole", nodeName="n"))))
    for seconds in (2, 3):  # admitted again, with no pods
        last = scheduler.run(known, NOW + seconds)
        assert targets(last) == ["True"]
        write(known, last)
    assert targets(scheduler.run(known, NOW + 4)) == []


def test_a_group_that_is_there_again_does_not_say_it() -> None:
    """Its pods were evicted and came back before anything was written."""
    known, scheduler = story()
    for number in (0, 1):
        known.apply(Deleted(decode(pod(f"whole-{number}", "whole", nodeName="n"))))
    scheduler.run(known, NOW + 1)
    known.apply(Applied(decode(node_document())))
    for number in (2, 3):
        known.apply(Applied(decode(pod(f"whole-{number}", "whole", nodeName="m"))))
    assert "True" not in targets(scheduler.run(known, NOW + 2))


def node_document() -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": "m", "uid": "m"},
        "status": {"allocatable": {"cpu": 2, "memory": "8Gi", "pods": 10}},
    }  # fmt: skip


def write(known: Cluster, cycle: Cycle) -> None:
    for one in cycle.decisions:
        if isinstance(one, PatchGroup):
            shown = known.jobs[one.job].object
            assert shown is not None
            known.apply(Applied(one.applied_to(shown)))
