"""A session of the official Python client: create, watch, patch, bind."""

from __future__ import annotations

from pathlib import Path

import kubernetes
import pytest

from embedded.running import running


@pytest.mark.filterwarnings("default")
def test_a_session(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        client = kubernetes.config.new_client_from_config(str(cluster.kubeconfig))
        core = kubernetes.client.CoreV1Api(client)
        containers = [kubernetes.client.V1Container(name="main", image="x")]
        body = kubernetes.client.V1Pod(
            metadata=kubernetes.client.V1ObjectMeta(name="a", labels={"app": "web"}),
            spec=kubernetes.client.V1PodSpec(containers=containers),
        )
        start = core.list_namespaced_pod("default").metadata.resource_version
        made = core.create_namespaced_pod("default", body)
        assert made.status.phase == "Pending"
        core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"team": "b"}}})
        target = kubernetes.client.V1ObjectReference(kind="Node", name="node-1")
        binding = kubernetes.client.V1Binding(metadata=kubernetes.client.V1ObjectMeta(name="a"), target=target)
        core.create_namespaced_pod_binding("a", "default", binding, _preload_content=False)
        bound = core.read_namespaced_pod("a", "default")
        assert (bound.spec.node_name, bound.metadata.labels) == ("node-1", {"app": "web", "team": "b"})
        core.delete_namespaced_pod("a", "default", grace_period_seconds=0)
        watch = kubernetes.watch.Watch()
        types = []
        for event in watch.stream(core.list_namespaced_pod, "default", resource_version=start, timeout_seconds=20):
            types.append(event["type"])
            if event["type"] == "DELETED":
                watch.stop()
        assert types == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]
