"""The commands on a cluster in one process: look, submit, suspend, resume, cancel."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from console.situations import volcano_job
from stromboli.console.main import run
from stromboli.console.up.cluster import Plan, run_cluster
from stromboli.console.up.machines import Machines
from stromboli.kube.client import JOBS, Client


class Shell:
    """Runs commands against a cluster, and waits for what they cause."""

    def __init__(self, kubeconfig: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.options = ["--kubeconfig", str(kubeconfig)]
        self._capsys = capsys

    def run(self, *arguments: str) -> tuple[int, str, str]:
        self._capsys.readouterr()
        status = run([*arguments, *self.options])
        said = self._capsys.readouterr()
        return status, said.out, said.err

    def data(self, *arguments: str) -> Any:
        status, out, err = self.run(*arguments, "-o", "json")
        assert status == 0, err
        return json.loads(out)


def on_a_cluster(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    script: Callable[[Shell, Callable[[str, str], None]], None],
    config: Path | None = None,
) -> None:
    machines = [Machines(["node-0", "node-1"], {"cpu": "4", "memory": "8Gi", "pods": "110"})]
    plan = Plan(folder=folder / "data", persistent=False, machines=machines, period=0.2, config=config)

    async def main() -> None:
        stop = asyncio.Event()

        async def work(client: Client) -> None:
            loop = asyncio.get_running_loop()

            async def until(job: str, phase: str) -> None:
                while (await client.get(JOBS, job)).status.state.phase != phase:
                    await asyncio.sleep(0.05)

            def wait(job: str, phase: str) -> None:
                asyncio.run_coroutine_threadsafe(asyncio.wait_for(until(job, phase), 60), loop).result()

            shell = Shell(folder / "data" / "kubeconfig", capsys)
            try:
                await asyncio.to_thread(script, shell, wait)
            finally:
                stop.set()

        await run_cluster(plan, stop, [work])

    asyncio.run(main())


def test_the_life_of_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text(json.dumps(volcano_job("first", 4, 2, run=600)), encoding="utf-8")
    second.write_text(json.dumps(volcano_job("second", 2, 2, run=600)), encoding="utf-8")

    def script(shell: Shell, wait: Callable[[str, str], None]) -> None:
        assert shell.run("submit", "-f", str(first))[:2] == (0, "Job default/first created\n")
        wait("default/first", "Running")
        plan = shell.data("plan", "-f", str(second))
        assert (plan["startsNow"], plan["reasons"][0]["code"]) == (False, "InsufficientNode")
        assert shell.run("submit", "-f", str(second))[0] == 0
        wait("default/second", "Pending")
        why = shell.data("why", "second")
        while not why["reasons"]:  # its PodGroup is still to be created
            why = shell.data("why", "second")
        assert why["reasons"][0]["code"] == "InsufficientNode"
        assert "starts when default/first ends" in [one["sentence"] for one in why["counterfactuals"]]
        status = shell.data("status")
        assert status["used"] == {"cpu": "8"}
        assert status["nodes"]["used"] == 2
        assert {job["name"]: job["phase"] for job in shell.data("jobs")} == {
            "default/first": "Running",
            "default/second": "Pending",
        }
        diag = shell.data("diag", "--metrics-url", "http://127.0.0.1:1/metrics")
        assert diag["measured"] == "on a copy, on this machine"
        assert diag["reasons"][0]["code"] == "InsufficientNode"
        assert shell.run("suspend", "first")[:2] == (0, "Job default/first suspended\n")
        wait("default/first", "Aborted")
        wait("default/second", "Running")
        assert shell.run("suspend", "first")[2] == (
            "stromboli: error: Job default/first is suspended already. Continue it with: stromboli resume "
            "default/first\n"
        )
        assert shell.run("resume", "default/first")[:2] == (0, "Job default/first resumed\n")
        wait("default/first", "Pending")
        assert shell.run("cancel", "default/second", "--yes")[:2] == (0, "Job default/second deleted\n")
        wait("default/first", "Running")
        assert shell.run("resume", "first")[2] == (
            "stromboli: error: Job default/first is not suspended: it is Running.\n"
        )
        assert shell.run("submit", "-f", str(first))[::2] == (
            2, "stromboli: error: Job default/first exists already; nothing was created. Use another name, "
            "change it with kubectl apply, or delete it: stromboli cancel default/first\n",
        )  # fmt: skip
        assert shell.run("cancel", "nobody")[:3:2] == (
            2, "stromboli: error: There is no Job, PodGroup or pod default/nobody. Try: stromboli jobs\n",
        )  # fmt: skip
        assert shell.run("suspend", "nobody")[0] == 2
        assert shell.run("why", "nobody")[2] == (
            "stromboli: error: There is no job default/nobody. Try: stromboli jobs\n"
        )

    on_a_cluster(tmp_path, capsys, script)


def test_names_without_a_namespace_are_in_that_of_the_context(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    namespace, job = tmp_path / "namespace.yaml", tmp_path / "job.yaml"
    namespace.write_text('{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "lab"}}', encoding="utf-8")
    job.write_text(json.dumps(volcano_job("huge", 1, 64, run=600)), encoding="utf-8")

    def script(shell: Shell, wait: Callable[[str, str], None]) -> None:
        config = tmp_path / "data" / "kubeconfig"
        content = yaml.safe_load(config.read_text(encoding="utf-8"))
        content["contexts"][0]["context"]["namespace"] = "lab"
        other = tmp_path / "lab.kubeconfig"
        other.write_text(json.dumps(content), encoding="utf-8")
        other.chmod(0o600)
        shell.options = ["--kubeconfig", str(other)]
        assert shell.run("submit", "-f", str(namespace))[0] == 0
        assert shell.run("submit", "-f", str(job), "--dry-run")[1].startswith("Job lab/huge is valid")
        assert shell.data("plan", "-f", str(job))["job"] == "lab/huge"
        assert shell.run("submit", "-f", str(job))[:2] == (0, "Job lab/huge created\n")
        wait("lab/huge", "Pending")
        assert shell.data("why", "huge")["job"]["name"] == "lab/huge"
        assert shell.data("why", "job/huge")["job"]["name"] == "lab/huge"
        assert shell.run("suspend", "huge")[:2] == (0, "Job lab/huge suspended\n")
        assert shell.run("cancel", "huge")[:2] == (0, "Job lab/huge deleted\n")

    on_a_cluster(tmp_path, capsys, script)


def test_a_group_is_cancelled_with_its_pods(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = tmp_path / "gang.yaml"
    documents: list[dict[str, Any]] = [
        {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "gang"},
         "spec": {"minMember": 9}},
        *(
            {"apiVersion": "v1", "kind": "Pod",
             "metadata": {"name": f"gang-{n}", "annotations": {"scheduling.k8s.io/group-name": "gang"}},
             "spec": {"schedulerName": "volcano", "containers": [{"name": "main", "image": "none"}]}}
            for n in range(2)
        ),
    ]  # fmt: skip
    manifest.write_text("\n---\n".join(json.dumps(one) for one in documents), encoding="utf-8")

    def script(shell: Shell, wait: Callable[[str, str], None]) -> None:
        assert shell.run("submit", "-f", str(manifest))[1].splitlines() == [
            "PodGroup default/gang created", "Pod default/gang-0 created", "Pod default/gang-1 created",
        ]  # fmt: skip
        assert shell.data("why", "gang")["reasons"][0]["code"] == "NotEnoughPods"
        assert shell.data("why", "gang-1")["job"]["name"] == "default/gang"
        assert shell.run("cancel", "gang")[:2] == (0, "PodGroup default/gang deleted\n")
        assert shell.data("jobs") == []

    on_a_cluster(tmp_path, capsys, script)


def test_a_submission_that_fails_says_the_next_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    away = volcano_job("away", 1, 1)
    away["metadata"]["namespace"] = "nowhere"
    manifest = tmp_path / "both.yaml"
    manifest.write_text("\n---\n".join(json.dumps(one) for one in (queue, away)), encoding="utf-8")

    def script(shell: Shell, wait: Callable[[str, str], None]) -> None:
        assert shell.run("submit", "-f", str(manifest)) == (
            2, "", "stromboli: error: Namespace nowhere of Job nowhere/away does not exist; nothing was created. "
            "Create it: kubectl create namespace nowhere\n",
        )  # fmt: skip
        assert [one["name"] for one in shell.data("queues")["queues"]] == ["default", "root"]

    on_a_cluster(tmp_path, capsys, script)


def write(path: Path, *documents: Any) -> str:
    path.write_text("\n---\n".join(json.dumps(one) for one in documents), encoding="utf-8")
    return str(path)


def test_half_a_file_is_never_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    queue = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    first, second = volcano_job("first", 1, 1), volcano_job("second", 1, 1, queue="q")
    one = write(tmp_path / "one.yaml", first)
    both = write(tmp_path / "both.yaml", second, first)
    twice = write(tmp_path / "twice.yaml", second, second)
    away = write(tmp_path / "away.yaml", volcano_job("third", 1, 1), volcano_job("lost", 1, 1, queue="nowhere"))

    def script(shell: Shell, wait: Callable[[str, str], None]) -> None:
        assert shell.run("submit", "-f", one)[0] == 0
        assert shell.run("submit", "-f", both) == (
            2, "", "stromboli: error: Job default/first exists already; nothing was created. Use another name, "
            "change it with kubectl apply, or delete it: stromboli cancel default/first\n",
        )  # fmt: skip
        assert shell.run("submit", "-f", twice)[::2] == (
            2, "stromboli: error: Job default/second is in the manifests twice; nothing was created. Use another "
            "name.\n",
        )  # fmt: skip
        assert [job["name"] for job in shell.data("jobs")] == ["default/first"]
        status, out, err = shell.run("submit", "-f", away)
        assert (status, out) == (0, "Job default/third created\nJob default/lost created\n")
        assert "warning: Job default/lost: there is no queue nowhere" in err
        mine = write(tmp_path / "queue.yaml", queue, second)
        assert shell.run("submit", "-f", mine) == (0, "Queue q created\nJob default/second created\n", "")

    on_a_cluster(tmp_path, capsys, script)


def test_a_reservation_is_not_a_job(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nightly = {
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation", "metadata": {"name": "nightly"},
        "spec": {
            "ttl": "1h", "owners": [{"labelSelector": {"matchLabels": {"app": "x"}}}],
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}},
        },
    }  # fmt: skip
    file = write(tmp_path / "nightly.yaml", nightly)

    def script(shell: Shell, wait: Callable[[str, str], None]) -> None:
        assert shell.run("submit", "-f", file)[0] == 0
        assert shell.run("cancel", "nightly")[::2] == (
            2, "stromboli: error: There is no Job, PodGroup or pod default/nightly, but a Reservation nightly. Look at "
            "it with: stromboli reservations; delete it with: kubectl delete reservation nightly\n",
        )  # fmt: skip
        assert shell.run("why", "nightly")[::2] == (
            2, "stromboli: error: There is no job default/nightly, but a Reservation nightly. Why it waits: stromboli "
            "reservations -o wide\n",
        )  # fmt: skip

    on_a_cluster(tmp_path, capsys, script)
