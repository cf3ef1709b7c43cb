"""Restarts, hooks, probes and ends, as kubelets have them, with real processes."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stromboli.kube.client import PODS
from stromboli.kube.runner import ProcessRunner
from stromboli.kube.runner.memory_groups import MemoryGroups
from stromboli.kube.runner.sandbox_process import SandboxProcess, Spec

from .machine import Machine, eventually, is_alive, main_status, play, shell

AT = "2026-01-31T12:00:00Z"


def test_a_container_that_fails_is_restarted_after_growing_pauses(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        script = f"echo run >> {tmp_path}/runs; test $(wc -l < {tmp_path}/runs) -ge 4 || exit 7; echo enough"
        await machine.run("a", shell(script), restartPolicy="OnFailure")
        pod = await machine.until("a", lambda pod: "CrashLoopBackOff" in str(main_status(pod)["state"]))
        waiting, before = main_status(pod)["state"]["waiting"], main_status(pod)["lastState"]["terminated"]
        assert waiting["message"].startswith("back-off ")
        assert (before["exitCode"], before["reason"]) == (7, "Error")
        assert main_status(pod)["restartCount"] == 1  # at once after the first run, and not yet after the second
        pod = await machine.ended("a")
        assert (pod["status"]["phase"], main_status(pod)["restartCount"]) == ("Succeeded", 3)
        assert await machine.log("a") == "enough\n"
        assert await machine.log("a", previous="true") == ""

    play(tmp_path, story)


@pytest.mark.parametrize(("policy", "code", "phase"), [("Never", 3, "Failed"), ("OnFailure", 0, "Succeeded")])
def test_a_pod_ends_when_its_containers_are_not_restarted(tmp_path: Path, policy: str, code: int, phase: str) -> None:
    async def story(machine: Machine) -> None:
        await machine.run("a", shell(f"exit {code}"), restartPolicy=policy)
        pod = await machine.ended("a")
        ended = main_status(pod)["state"]["terminated"]
        assert (pod["status"]["phase"], ended["exitCode"]) == (phase, code)
        assert main_status(pod)["restartCount"] == 0

    play(tmp_path, story)


def test_init_containers_run_in_order_and_a_sidecar_beside_the_others(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        order = tmp_path / "order"
        first = shell(f"echo first >> {order}", name="first")
        # It is ready to help only after a moment, and the next container waits for that.
        sidecar = shell(
            f"trap 'echo sidecar >> {order}; exit 0' TERM; sleep 0.3; touch {tmp_path}/up; while :; do sleep 0.1; done",
            name="sidecar",
            restartPolicy="Always",
            startupProbe={"exec": {"command": ["test", "-e", f"{tmp_path}/up"]}, "periodSeconds": 1},
        )
        second = shell(f"test -e {tmp_path}/up && echo second >> {order}", name="second")
        main = shell(f"echo main >> {order}")
        await machine.run("a", main, initContainers=[first, sidecar, second])
        pod = await machine.ended("a")
        assert pod["status"]["phase"] == "Succeeded"
        assert order.read_text().split() == ["first", "second", "main", "sidecar"]
        ended = {one["name"]: one["state"]["terminated"]["exitCode"] for one in pod["status"]["initContainerStatuses"]}
        assert ended == {"first": 0, "sidecar": 0, "second": 0}

    play(tmp_path, story)


def test_a_failed_init_container_fails_the_pod(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        await machine.run("a", shell("true"), initContainers=[shell("exit 4", name="first")])
        pod = await machine.ended("a")
        assert (pod["status"]["phase"], pod["status"]["message"]) == ("Failed", "init container first failed")

    play(tmp_path, story)


def test_a_deleted_pod_gets_its_hook_then_sigterm_and_its_time(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        trace = tmp_path / "trace"
        main = shell(
            f"trap 'echo term >> {trace}; exit 0' TERM; echo ready; while :; do sleep 0.05; done",
            lifecycle={
                "postStart": {"exec": {"command": ["sh", "-c", f"echo hook >> {trace}"]}},
                "preStop": {"exec": {"command": ["sh", "-c", f"echo stop >> {trace}"]}},
            },
        )
        await machine.run("a", main, terminationGracePeriodSeconds=30)
        await machine.until("a", lambda pod: main_status(pod).get("ready"))
        await eventually(lambda: trace.exists())
        while "ready" not in await machine.log("a"):
            await asyncio.sleep(0.02)
        await machine.client.delete(PODS, "default/a")
        await machine.until("a", lambda pod: not pod)
        assert trace.read_text().split() == ["hook", "stop", "term"]
        assert not any((tmp_path / "machine" / "pods").iterdir())  # its folders are gone with it

    play(tmp_path, story)


def test_a_program_that_ignores_sigterm_is_killed_after_the_grace_period(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        main = shell(f"trap '' TERM; (setsid sleep 1000 &) ; echo $$ > {tmp_path}/pid; exec sleep 1000")
        await machine.run("a", main, terminationGracePeriodSeconds=1)
        await machine.until("a", lambda pod: main_status(pod).get("ready"))
        await eventually(lambda: _sleepers(tmp_path))
        await machine.client.delete(PODS, "default/a")
        await machine.until("a", lambda pod: not pod)
        assert not _sleepers(tmp_path)

    play(tmp_path, story)


def _sleepers(folder: Path) -> list[int]:
    """The processes whose folder of work is below this one: all that a test has started."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                text = (entry / "environ").read_bytes()
            except OSError:
                continue
            if f"MARK={folder}".encode() in text and is_alive(int(entry.name)):
                found.append(int(entry.name))
    return found


def test_probes_decide_about_ready_and_about_restarts(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        sign = tmp_path / "healthy"
        sign.touch()
        check = {"exec": {"command": ["test", "-e", str(sign)]}, "periodSeconds": 1, "failureThreshold": 1}
        await machine.run("ready", shell("sleep 1000"), meta={}, restartPolicy="Always")
        await machine.run("probed", shell("sleep 1000", readinessProbe=check), restartPolicy="Always")
        await machine.run("alive", shell("sleep 1000", livenessProbe=check), restartPolicy="Always",
                          terminationGracePeriodSeconds=1)  # fmt: skip
        for name in ("ready", "probed", "alive"):
            await machine.until(name, lambda pod: main_status(pod).get("ready"))
        sign.unlink()
        await machine.until("probed", lambda pod: not main_status(pod).get("ready"))
        pod = await machine.until("alive", lambda pod: main_status(pod).get("restartCount"))
        why = main_status(pod)["lastState"]["terminated"]["message"]
        assert why == "its liveness probe failed: the command ended with 1: "
        sign.touch()
        await machine.until("probed", lambda pod: main_status(pod).get("ready"))
        assert main_status(await machine.pod("probed"))["restartCount"] == 0

    play(tmp_path, story)


def test_a_deadline_ends_the_pod(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        await machine.run("a", shell("exec sleep 1000"), activeDeadlineSeconds=1, restartPolicy="Always")
        pod = await machine.ended("a")
        assert (pod["status"]["phase"], pod["status"]["reason"]) == ("Failed", "DeadlineExceeded")

    play(tmp_path, story)


def test_a_limit_of_memory_kills_the_program_that_exceeds_it(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        main = {
            "command": ["python3", "-c", "x = b'x' * (300 << 20); print(len(x))"],
            "resources": {"limits": {"memory": "60Mi"}},
        }
        await machine.run("a", main)
        pod = await machine.ended("a")
        ended = main_status(pod)["state"]["terminated"]
        if can_group:
            assert (ended["reason"], ended["exitCode"]) == ("OOMKilled", 137)
        else:  # the limit is one of address space, and Python says so itself
            assert ended["exitCode"] == 1
            assert "MemoryError" in await machine.log("a")

    groups = MemoryGroups()
    probe = groups.make("probe", 1 << 24)
    can_group = probe is not None
    if probe is not None:
        probe.remove()
    groups.close()
    play(tmp_path, story)


def test_after_a_restart_each_pod_goes_on_as_its_policy_says(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        await machine.run("always", shell(f"echo run >> {tmp_path}/always; exec sleep 1000"), restartPolicy="Always")
        await machine.run("never", shell(f"echo run >> {tmp_path}/never; exec sleep 1000"))
        await machine.run("done", shell("exit 0"))
        await machine.ended("done")
        for name in ("always", "never"):
            await machine.until(name, lambda pod: main_status(pod).get("ready"))
            await eventually(lambda name=name: (tmp_path / name).exists())
        await machine.stop()
        machine.start()
        pod = await machine.ended("never")
        assert (pod["status"]["phase"], pod["status"]["message"]) == ("Failed", "the process that ran it is gone")
        pod = await machine.until("always", lambda pod: main_status(pod)["restartCount"] and main_status(pod)["ready"])
        assert main_status(pod)["lastState"]["terminated"]["exitCode"] == 137
        await eventually(lambda: (tmp_path / "always").read_text() == "run\nrun\n")
        assert (tmp_path / "never").read_text() == "run\n"  # what may run only once is not started again
        assert (await machine.pod("done"))["status"]["phase"] == "Succeeded"

    play(tmp_path, story)


def test_a_container_that_ended_as_the_runner_was_killed_has_not_failed(tmp_path: Path) -> None:
    """Its end is in the status, and what follows from it is not."""

    async def story(machine: Machine) -> None:
        for name, policy in (("never", "Never"), ("always", "Always")):
            await machine.run(name, shell("exec sleep 1000"), restartPolicy=policy)
            await machine.until(name, lambda pod: main_status(pod).get("ready"))
        await machine.stop()
        ended = {"name": "main", "image": "", "imageID": "", "ready": False, "restartCount": 0}
        ended["state"] = {"terminated": {"exitCode": 0, "reason": "Completed", "startedAt": AT, "finishedAt": AT}}
        for name in ("never", "always"):
            patch = {"status": {"containerStatuses": [ended]}}
            await machine.client.patch(PODS, f"default/{name}", patch, subresource="status")
        machine.start()
        assert (await machine.ended("never"))["status"]["phase"] == "Succeeded"
        pod = await machine.until("always", lambda pod: main_status(pod).get("ready"))
        assert (main_status(pod)["restartCount"], main_status(pod)["lastState"]) == (1, ended["state"])

    play(tmp_path, story)


def test_a_pod_that_is_being_removed_gets_no_names_any_more(tmp_path: Path, monkeypatch: Any) -> None:
    """Its folder is removed while those of others are brought up to date."""
    remove = ProcessRunner._remove_folders

    def slowly(runner: ProcessRunner, uid: str) -> None:
        remove(runner, uid)
        time.sleep(1)

    monkeypatch.setattr(ProcessRunner, "_remove_folders", slowly)

    async def story(machine: Machine) -> None:
        await machine.run("a", shell("exec sleep 1000"))
        await machine.until("a", lambda pod: main_status(pod).get("ready"))
        await machine.client.delete(PODS, "default/a", grace_seconds=1)
        await machine.until("a", lambda pod: not pod)
        await machine.run("b", shell("sleep 1; echo b"))
        assert await machine.output("b") == "b\n"

    play(tmp_path, story)


def test_folders_of_pods_that_were_deleted_meanwhile_are_removed(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        for name in ("a", "b"):
            await machine.run(name, shell("echo said"))
            await machine.ended(name)
        await machine.stop()
        gone, kept = [(await machine.pod(name))["metadata"]["uid"] for name in ("a", "b")]
        await machine.client.delete(PODS, "default/a", grace_seconds=0)
        machine.start()
        folders = [machine.folder / kind / uid for kind in ("pods", "logs") for uid in (gone, kept)]
        await eventually(lambda: [one.exists() for one in folders] == [False, True, False, True])
        assert await machine.log("b") == "said\n"

    play(tmp_path, story)


def test_groups_of_a_runner_that_was_killed_are_removed() -> None:
    groups = MemoryGroups()
    if groups._parent is None:
        pytest.skip("no control groups can be made here")
    left = groups._parent.with_name(f"stromboli-{1 << 30}")  # no process has this number
    (left / "pod").mkdir(parents=True)
    groups.close()
    MemoryGroups().close()
    assert not left.exists()


def test_logs_have_times_tails_and_a_run_before(tmp_path: Path) -> None:
    async def story(machine: Machine) -> None:
        script = (
            f"echo one; echo two >&2; echo three; test -e {tmp_path}/again || {{ touch {tmp_path}/again; exit 1; }}"
        )
        await machine.run("a", shell(script), restartPolicy="OnFailure")
        await machine.ended("a")
        assert sorted((await machine.log("a")).split()) == ["one", "three", "two"]
        assert sorted((await machine.log("a", previous="true")).split()) == ["one", "three", "two"]
        stamped = (await machine.log("a", timestamps="true", tailLines="1")).split()
        assert stamped[0].endswith("Z")
        assert len(stamped) == 2
        assert await machine.log("a", sinceTime="2100-01-01T00:00:00Z") == ""
        assert await machine.log("a", sinceSeconds="1000") != ""
        await machine.run("b", shell("echo only"))
        await machine.ended("b")
        with pytest.raises(LookupError, match='previous terminated container "main" in pod "b" not found'):
            await machine.log("b", previous="true")

    play(tmp_path, story)


@pytest.fixture(autouse=True)
def mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """All processes of a test have its folder in a variable, so that none can hide."""
    monkeypatch.setattr("stromboli.kube.runner.environment._KEPT", ("PATH", "MARK"))
    monkeypatch.setenv("MARK", str(tmp_path))
    yield
    assert [process for process in _sleepers(tmp_path) if process != os.getpid()] == []


def test_of_many_pods_only_some_start_at_the_same_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two for each core: others on this machine, such as the API server, want to work, too."""
    launch, at_once = SandboxProcess.launch, [0]

    async def counted(spec: Spec) -> SandboxProcess:
        starting.append(spec)
        at_once.append(len(starting))
        try:
            return await launch(spec)
        finally:
            starting.remove(spec)

    starting: list[Spec] = []
    monkeypatch.setattr(SandboxProcess, "launch", counted)
    limit = 2 * (os.cpu_count() or 1)

    async def story(machine: Machine) -> None:
        for number in range(2 * limit + 1):
            await machine.run(f"p{number}", shell("true"))
        for number in range(2 * limit + 1):
            await machine.ended(f"p{number}")

    play(tmp_path, story)
    assert max(at_once) == limit
