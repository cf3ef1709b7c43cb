"""The example that newcomers apply to a cluster, by the very commands of the README, with shorter runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kube.client import eventually
from kube.cluster import Cluster, condition

EXAMPLE = Path(__file__).parents[2] / "examples" / "kubernetes" / "cluster.yaml"
GROUPS = "/apis/scheduling.volcano.sh/v1beta1"
JOBS = "/apis/batch.volcano.sh/v1alpha1"


def test_jobs_run_to_their_end_and_what_cannot_start_says_why(cluster: Cluster) -> None:
    size = ["--nodes", "6", "--node-cpu", "32", "--node-memory", "128Gi", "--node-gpus", "8"]
    nodes = cluster.start("hollow-nodes", *size, "--name-prefix", cluster.name)
    system = cluster.start("run", "--no-leader-elect", "--probe-port", "0", "--log-format", "json")
    eventually(lambda: " ready. " in nodes.log, timeout=60)
    eventually(system.is_ready, timeout=60)
    text = EXAMPLE.read_text(encoding="utf-8")
    assert "run: 2m" in text
    try:
        cluster.server.kubectl(
            "apply", "--namespace", cluster.namespace, "-f", "-", stdin=text.replace("run: 2m", "run: 2s")
        )

        def job(name: str) -> Any:
            return cluster.admin.get(f"{JOBS}/namespaces/{cluster.namespace}/jobs/{name}").get("status", {})

        eventually(lambda: job("train").get("state", {}).get("phase") == "Completed", timeout=60)
        assert job("train")["succeeded"] == 5
        pods = cluster.pods()
        assert {pods[f"train-worker-{index}"]["status"]["phase"] for index in range(4)} == {"Succeeded"}
        assert pods["notebook"]["status"]["phase"] == "Running"

        def refused() -> bool:
            groups = cluster.admin.list(f"{GROUPS}/namespaces/{cluster.namespace}/podgroups")
            [wide] = [group for group in groups if group["metadata"]["name"].startswith("too-wide-")]
            return "1600 cpu requested" in condition(wide, "Unschedulable").get("message", "")

        eventually(refused)
        assert job("too-wide")["state"]["phase"] == "Pending"
        assert not [name for name in cluster.pods() if name.startswith("too-wide")]
    finally:
        cluster.server.kubectl("delete", "--namespace", cluster.namespace, "-f", str(EXAMPLE), "--wait=false")
        assert nodes.terminate() == 0
    assert system.terminate() == 0
