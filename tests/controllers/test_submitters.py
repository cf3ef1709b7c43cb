"""Who created a Job is written on its pods and its group; a template or an owner names nobody else."""

from __future__ import annotations

import pytest

from builders import pod
from controllers.fake_cluster import FakeCluster, job, owned_by, replica_set, task
from stromboli.api import PodGroup, names

USER = names.SUBMITTER


@pytest.mark.parametrize("said", [{USER: "anna"}, {}])
def test_pods_and_groups_have_the_user_of_their_job(said: dict[str, str]) -> None:
    made = job("ns/j", task("main", 1), annotations=dict(said))
    made.spec.tasks[0].template.metadata.annotations[USER] = "somebody-else"
    cluster = FakeCluster(made)
    cluster.settle()
    cluster.enqueue()
    cluster.settle()
    [group] = cluster.list(PodGroup)
    for one in (group, cluster.pod("ns/j-main-0")):
        assert one.metadata.annotations.get(USER) == said.get(USER)


def test_a_group_made_for_a_pod_has_the_user_of_the_pod() -> None:
    cluster = FakeCluster(pod("ns/p", cpu=1, annotations={USER: "anna"}))
    cluster.settle()
    [group] = cluster.list(PodGroup)
    assert group.metadata.annotations == {USER: "anna"}


def test_an_owner_names_nobody() -> None:
    owner = replica_set("ns/web", 1, annotations={USER: "somebody-else"})
    cluster = FakeCluster(owner, pod("ns/web-1", cpu=1, owner=owned_by("ReplicaSet", "web")))
    cluster.settle()
    assert [USER in group.metadata.annotations for group in cluster.list(PodGroup)] == [False]
