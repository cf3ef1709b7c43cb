"""`stromboli bench cluster`, without a real API server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from documents.pages import table
from live.fake_node_api import fake_node_api
from stromboli.console.main import run
from stromboli.errors import UserError
from stromboli.kube.bench import BenchmarkPlan, BenchmarkResult, benchmark
from stromboli.kube.bench.child_process import ChildProcess


def test_too_many_pods_for_the_nodes_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "cluster", "--nodes", "2", "--pods", "200", "--existing-pods", "100"]) == 2
    assert capsys.readouterr().err == (
        "stromboli: error: 2 nodes have room for 220 pods; use more --nodes or fewer pods.\n"
    )


def test_a_server_without_pod_groups_is_reported_and_not_changed(tmp_path: Path) -> None:
    async def story() -> None:
        async with fake_node_api() as (server, config):
            kubeconfig = tmp_path / "kubeconfig"
            kubeconfig.write_text(
                json.dumps(
                    {
                        "clusters": [{"name": "c", "cluster": {"server": config.server}}],
                        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
                        "current-context": "c",
                    }
                ),
                encoding="utf-8",
            )
            plan = BenchmarkPlan(kubeconfig, None, nodes=1, pods=2, gang_size=1, existing_pods=0)
            with pytest.raises(UserError, match=r"install them with: kubectl apply -k deploy/crds$"):
                await benchmark(plan, lambda line: None)
            assert {method for method, _ in server.requests} == {"GET"}

    asyncio.run(story())


def test_a_child_process_is_measured_and_its_last_log_line_is_kept() -> None:
    async def story() -> None:
        child = ChildProcess(["simulate", "no-such-file.yaml"])
        await child.start()
        try:
            while not child.ended:
                await asyncio.sleep(0.01)
            assert child.last_log_line() == "stromboli: error: no-such-file.yaml: No such file or directory"
        finally:
            await child.stop()
        assert child.cpu_seconds > 0

    asyncio.run(story())


def test_every_figure_is_explained() -> None:
    explained = {name.strip("` ") for row in table("docs/bench.md", "name") for name in row[0].split(",")}
    given = {field.name for field in fields(BenchmarkPlan)} | {"server_version"}
    assert explained == {field.name for field in msgspec.structs.fields(BenchmarkResult)} - given
