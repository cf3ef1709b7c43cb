"""The scheduler process: a configuration that changes while it runs, and an orderly stop."""

from __future__ import annotations

import os
from pathlib import Path

from kube.client import eventually
from kube.cluster import Cluster, configuration


class ConfigMap:
    """A folder as a kubelet mounts a ConfigMap: the file is a link into a folder that is a link to the data, and a
    change turns the inner link."""

    def __init__(self, folder: Path, text: str) -> None:
        self._folder = folder / "mounted"
        self._folder.mkdir()
        self._version = 0
        self.change(text)
        self.path = self._folder / "scheduler.yaml"
        self.path.symlink_to(Path("..data") / "scheduler.yaml")

    def change(self, text: str) -> None:
        self._version += 1
        data = self._folder / f"..{self._version}"
        data.mkdir()
        (data / "scheduler.yaml").write_text(text, encoding="utf-8")
        turned = self._folder / "..data_tmp"
        turned.symlink_to(data.name)
        os.replace(turned, self._folder / "..data")


def test_a_configuration_that_changes_while_the_scheduler_runs(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=4)
    mounted = ConfigMap(cluster.folder, configuration("enqueue"))
    scheduler = cluster.scheduler(config=mounted.path)
    cluster.single("first")
    eventually(lambda: cluster.group_of("first").get("status", {}).get("phase") == "Inqueue")
    assert not cluster.bound()

    mounted.change(configuration("enqueue, allocate"))
    cluster.all_bound(["first"])
    [event] = eventually(lambda: cluster.events("ConfigurationChanged"))
    assert event["type"] == "Normal"

    mounted.change(configuration("enqueue, alocate"))
    [refused] = eventually(lambda: cluster.events("ConfigurationRefused"))
    assert refused["type"] == "Warning"
    assert 'unknown action "alocate"' in refused["message"]
    assert refused["involvedObject"]["kind"] == "Lease"
    cluster.single("second")
    cluster.all_bound(["second"])
    assert scheduler.metric("stromboli_configuration_loads_total", outcome="refused") == 1

    mounted.change(configuration("enqueue"))
    eventually(lambda: scheduler.metric("stromboli_configuration_loads_total", outcome="accepted") == 2)
    cluster.single("third")
    eventually(lambda: cluster.group_of("third").get("status", {}).get("phase") == "Inqueue")
    assert set(cluster.bound()) == {"first", "second"}


def test_what_was_decided_is_done_before_the_scheduler_ends(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=6)
    scheduler = cluster.scheduler("--qps", "2", "--burst", "1", replicas=True)
    eventually(lambda: cluster.lease()["holderIdentity"])
    gang = cluster.gang("gang", 6)
    eventually(lambda: scheduler.metric("stromboli_binds_in_flight") > 3, every=0.02)
    assert not cluster.is_bound(*gang)

    assert scheduler.terminate() == 0
    assert cluster.is_bound(*gang)
    assert cluster.lease()["holderIdentity"] == ""
    assert {event["involvedObject"]["name"] for event in cluster.events("Scheduled")} == set(gang)
    assert scheduler.said("stopped")


def test_what_cannot_be_done_in_time_is_left_to_the_next_scheduler(cluster: Cluster) -> None:
    cluster.hollow_nodes(1, cpu=8)
    history = cluster.history()
    scheduler = cluster.scheduler("--qps", "0.2", "--burst", "1", replicas=True)
    gang = cluster.gang("gang", 8)
    eventually(lambda: len(cluster.bound()) == 1)
    assert scheduler.terminate() == 0
    assert 0 < len(cluster.bound()) < 8
    assert cluster.lease()["holderIdentity"] == ""

    cluster.scheduler(replicas=True)
    cluster.all_bound(gang)
    assert all(len(nodes) <= 1 for nodes in history.nodes_of_pods().values())
    cluster.assert_no_node_is_overfull()
