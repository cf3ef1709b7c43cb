"""Kubernetes' own groups: who says that a pod is in one."""

from __future__ import annotations

import pytest

from starvation.scenes import pod
from workload_groups.scenes import composite, member, nodes, running, situation, workload_group


@pytest.mark.parametrize("name", ["g@scheduling.k8s.io", "c@composite.scheduling.k8s.io"])
def test_a_pod_is_in_one_by_its_spec_only(name: str) -> None:
    """The annotation for Volcano's groups, with a name that no object can have, let a pod in. Nobody compared it with
    the others then, which must have one priority, one queue and one scheduler."""
    story = [composite("c", 1), workload_group("g", 2, parent="c"), member("g-0", "g"), pod("forged", group=name)]
    found = situation(*nodes(1, 8), *story, until=3).run()
    assert running(found) == set()
    said = found["pods"]["default/forged"]
    assert (said["reason"], said["message"]) == (
        "NoPodGroup", f'PodGroup default/"{name}" does not exist; create it, or correct the pod\'s annotation.',
    )  # fmt: skip


def test_a_group_of_another_namespace_is_out_of_reach() -> None:
    story = [workload_group("g", 2), member("g-0", "g"), member("g-1", "g")]
    story[2]["metadata"]["namespace"] = "other"
    found = situation(*nodes(1, 8), *story, until=3).run()
    assert running(found) == set()
    assert found["pods"]["other/g-1"]["reason"] == "NoPodGroup"


def test_nor_is_a_parent_of_another_namespace() -> None:
    story = [composite("c", 1), workload_group("g", 1, parent="c"), member("g-0", "g")]
    for document in story[1:]:
        document["metadata"]["namespace"] = "other"
    found = situation(*nodes(1, 8), *story, until=3).run()
    assert running(found) == set()
    assert found["pods"]["other/g-0"]["message"] == (
        "CompositePodGroup other/c, the parent of PodGroup other/g, does not exist; create it."
    )
