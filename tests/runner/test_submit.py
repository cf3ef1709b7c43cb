"""`stromboli submit -- PROGRAM` and `stromboli logs`, on a cluster in one process, as somebody types them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from embedded.test_up import Api, Machines, Plan, in_cluster
from stromboli.console.main import run
from stromboli.console.program_job import name_for


def manifest(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(["submit", "--dry-run", "--name", "j", *arguments]) == 0
    written = yaml.safe_load(capsys.readouterr().out)
    assert isinstance(written, dict)
    return written


def test_a_gang_starts_together_and_ends_when_one_fails(capsys: pytest.CaptureFixture[str]) -> None:
    job = manifest(capsys, "--pods", "4", "--cpus", "2", "--memory", "4Gi", "--gpus", "1", "--queue", "research",
                   "--time", "2h", "--env", "A=b=c", "--image", "x", "--", "python", "train.py", "$(A)")  # fmt: skip
    spec = job["spec"]
    assert isinstance(spec, dict)
    assert (job["apiVersion"], spec["minAvailable"], spec["queue"]) == ("batch.volcano.sh/v1alpha1", 4, "research")
    assert spec["policies"] == [{"event": "PodFailed", "action": "TerminateJob"}]
    template = spec["tasks"][0]["template"]
    assert template["metadata"]["annotations"] == {"scheduling.stromboli.io/estimate": "2h"}
    assert template["spec"]["activeDeadlineSeconds"] == 7200
    (container,) = template["spec"]["containers"]
    assert container["command"] == ["python", "train.py", "$$(A)"]  # not a variable of Kubernetes
    assert container["env"] == [{"name": "A", "value": "b=c"}]
    assert "workingDir" not in container  # of an image, nobody knows its folders
    assert container["resources"] == {
        "requests": {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"},
        "limits": {"memory": "4Gi", "nvidia.com/gpu": "1"},
    }


def test_an_array_has_as_many_programs_as_indexes(capsys: pytest.CaptureFixture[str]) -> None:
    job = manifest(capsys, "--array", "10-50:20", "--", "true")  # 10, 30, 50
    assert isinstance(job["spec"], dict)
    assert (job["spec"]["minAvailable"], job["spec"]["tasks"][0]["replicas"]) == (1, 3)
    limited = manifest(capsys, "--array", "1-100%10", "--queue", "q", "--", "true")["spec"]
    assert isinstance(limited, dict)
    assert (limited["completions"], limited["parallelism"]) == (100, 10)
    assert limited["template"]["metadata"]["annotations"] == {"scheduling.volcano.sh/queue-name": "q"}


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "there is nothing to submit"),
        (["--pods", "2", "-f", "x.yaml"], "--pods is for a program after --"),
        (["-f", "x.yaml", "--", "true"], "not both"),
        (["--array", "9-1", "--", "true"], "--array: 9-1 is not like 0-9"),
        (["--array", "0-9", "--pods", "2", "--", "true"], "--array and --pods exclude each other"),
        (["--cpus", "0", "--", "true"], "--cpus must be more than 0"),
        (["--memory", "lots", "--", "true"], "--memory: must be a quantity"),
        (["--time", "soon", "--", "true"], "--time: "),
        (["--env", "A", "--", "true"], "--env: A is not like NAME=VALUE"),
        (["--name", "Not_A_Name", "--dry-run", "--", "true"], "metadata.name"),
    ],
)
def test_what_cannot_be_submitted(capsys: pytest.CaptureFixture[str], arguments: list[str], problem: str) -> None:
    assert run(["submit", *arguments]) == 2
    said = capsys.readouterr().err
    assert problem in said
    assert said.count("\n") == 1


def test_names_come_from_the_script() -> None:
    assert name_for(["python", "-u", "my_dir/Train_v2.py", "--x"], "abcde") == "train-v2-abcde"
    assert name_for(["/usr/bin/sleep", "5"], "abcde") == "sleep-abcde"
    assert name_for(["./42"], "abcde") == "job-42-abcde"


def test_programs_run_where_they_were_submitted_and_say_how_they_ended(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "step.sh").write_text('echo "step $STROMBOLI_ARRAY_INDEX in $(basename $PWD)"\n')
    (tmp_path / "here" / "fail.sh").write_text("echo failing; exit 3\n")
    machines = [Machines(["node-0"], {"cpu": "8", "memory": "8Gi", "pods": "110"})]
    plan = Plan(folder=tmp_path / "data", persistent=False, machines=machines, runs_processes=True, period=0.2)

    def stromboli(*arguments: str) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-m", "stromboli"]
        options = ["--kubeconfig", str(plan.folder / "kubeconfig")]
        return subprocess.run(
            [*program, arguments[0], *options, *arguments[1:]],
            cwd=tmp_path / "here", capture_output=True, text=True, check=False, timeout=120,
        )  # fmt: skip

    def script(api: Api) -> None:
        done = stromboli("submit", "--name", "steps", "--array", "2-6:2", "--logs", "--", "sh", "step.sh")
        assert done.returncode == 0, done.stderr
        lines = {line.split(" | ")[1] for line in done.stdout.splitlines() if " | " in line}
        assert lines == {f"step {index} in here" for index in (2, 4, 6)}
        assert "default/steps: Completed, 3 succeeded" in done.stderr
        failed = stromboli("submit", "--name", "fails", "--wait", "--", "sh", "fail.sh")
        assert (failed.returncode, "Failed" in failed.stderr) == (5, True)
        shown = stromboli("logs", "fails")
        assert (shown.returncode, shown.stdout) == (0, "failing\n")
        assert "there is no job default/nothing" in stromboli("logs", "nothing").stderr.lower()
        limited = stromboli("submit", "--name", "few", "--array", "0-3%2", "--wait", "--", "sh", "step.sh")
        assert limited.returncode == 0, limited.stderr
        assert stromboli("logs", "few", "--tail", "1").stdout.count("step ") == 4

    in_cluster(plan, script)
