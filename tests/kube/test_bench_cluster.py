"""`stromboli bench cluster` on a real API server: small, but all of it."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kube.client import Client
from kube.crd_install import install_crds

COMMAND = [sys.executable, "-c", "from stromboli.console.main import main; main()", "bench", "cluster"]
SIZE = ["--nodes", "8", "--pods", "45", "--gang-size", "10", "--existing-pods", "16", "--output", "json"]


def left_of_it(admin: Client) -> list[str]:
    """What a run left behind, apart from its namespace, which is a controller's to remove."""
    groups = "/apis/scheduling.volcano.sh/v1beta1"
    places = ["/api/v1/nodes", "/api/v1/pods", f"{groups}/queues", f"{groups}/podgroups"]
    places.append("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases")
    found = [one["metadata"] for place in places for one in admin.list(place)]
    alive = [one["metadata"] for one in admin.list("/api/v1/namespaces") if one["status"]["phase"] == "Active"]
    return [meta["name"] for meta in found + alive if "bench-" in meta["name"] + meta.get("namespace", "")]


def test_everything_is_measured_and_nothing_is_left(admin: Client, kubeconfig: Path) -> None:
    install_crds(admin)
    done = subprocess.run(
        [*COMMAND, "--kubeconfig", str(kubeconfig), *SIZE], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert (result["nodes"], result["pods"], result["existing_pods"]) == (8, 45, 16)
    for name, value in result.items():
        if name.endswith(("_per_second", "_seconds", "_mib")) or "_part_of_" in name:
            assert value > 0 or name == "stream_last_create_to_last_bind_seconds", f"{name} was not measured"
    ratio = result["stream_pods_per_second"] / result["limit_creates_and_binds_per_second"]
    assert result["stream_part_of_creates_and_binds"] == pytest.approx(ratio, abs=0.01)
    assert left_of_it(admin) == []


def test_a_bare_loop_and_the_scheduler_are_compared(admin: Client, kubeconfig: Path) -> None:
    install_crds(admin)
    script = Path(__file__).parents[2] / "benchmarks" / "bind_capacity.py"
    size = ["--nodes", "4", "--pods", "40", "--rounds", "2"]
    done = subprocess.run(
        [sys.executable, str(script), "--kubeconfig", str(kubeconfig), *size],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert len(result["rounds"]) == 2
    for one in result["rounds"]:
        assert one["part"] == pytest.approx(one["scheduler_per_second"] / one["bare_per_second"])
    assert result["medians"]["start_to_first_bind_seconds"] > 0
    assert left_of_it(admin) == []


def heed_interrupts() -> None:
    """A shell has what it runs in the background ignore them, and the tests may be there."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_an_interrupted_run_cleans_up_too(admin: Client, kubeconfig: Path) -> None:
    install_crds(admin)
    command = [*COMMAND, "--kubeconfig", str(kubeconfig), "--nodes", "8", "--pods", "800"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=heed_interrupts) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if "binding" in line:
                running.send_signal(signal.SIGINT)
                break
        said = running.stderr.read()
    assert running.returncode == 130, said
    assert said.rstrip().endswith("cleaning up …")
    assert left_of_it(admin) == []
