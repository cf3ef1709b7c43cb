"""The life of claims on a real API server, with a pretended provisioner beside hollow nodes."""

from __future__ import annotations

from kube.client import eventually
from kube.cluster import Cluster, condition
from kube.volume_story import SELECTED, STEPS, TIMEOUT, kill_rounds, volume_story


def why(cluster: Cluster, pod: str) -> str:
    message: str = condition(cluster.pods()[pod], "PodScheduled").get("message", "")
    return message


def test_the_life_of_a_claim(cluster: Cluster) -> None:
    cluster.hollow_nodes(2, volumes=True)
    cluster.scheduler()
    with volume_story(cluster) as story:
        # A pod whose claim does not exist waits and says so.
        cluster.group("p", 1)
        story.pod("p", "data", group="p")
        eventually(lambda: "/data does not exist" in why(cluster, "p"), timeout=TIMEOUT)

        # With the claim its node is selected, the volume takes a second, and the pod is bound there.
        of = story.storage_class("fast", provision="1s")
        story.claim("data", of)
        node = cluster.all_bound(["p"], timeout=TIMEOUT)["p"]
        claim = story.claims()["data"]
        assert claim["metadata"]["annotations"][SELECTED] == node
        assert claim["status"]["phase"] == "Bound"
        story.check()

        # A gang with a claim each starts as a whole, though the first attempt for each claim fails.
        late = story.storage_class("late", provision="200ms", provision_fails="1")
        names = story.gang("late", 2, late)
        cluster.all_bound(names, timeout=TIMEOUT)
        story.check()
        assert cluster.events("VolumesNotReady")


def test_existing_volumes(cluster: Cluster) -> None:
    first, second = cluster.hollow_nodes(2, volumes=True)
    cluster.scheduler()
    with volume_story(cluster) as story:
        of = story.storage_class("local", provisioner="kubernetes.io/no-provisioner")
        for name, node in (("v0", first), ("v1", second)):
            story.volume(name, of, node)
        names = story.gang("g", 2, of)
        nodes = cluster.all_bound(names, timeout=TIMEOUT)
        assert sorted(nodes.values()) == sorted([first, second])
        story.check()
        # No volume is left for a third.
        story.claim("more", of)
        cluster.group("more", 1)
        story.pod("more", "more", group="more")
        eventually(lambda: "without a volume for a claim" in why(cluster, "more"), timeout=TIMEOUT)


def test_a_scheduler_that_is_killed_at_every_step(cluster: Cluster) -> None:
    """`benchmarks/volume_kills.py` does this fifty times."""
    cluster.hollow_nodes(3, volumes=True)
    with volume_story(cluster) as story:
        assert kill_rounds(story, len(STEPS)) == len(STEPS)
