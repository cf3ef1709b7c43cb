"""Input that cannot be used: status 2, one line that says where and what, and not a byte of output."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stromboli.console.main import run

CASES_FILE = Path(__file__).parent / "invalid_scenarios.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(CASES_FILE.read_text(encoding="utf-8"))
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c}]}}"


@pytest.fixture(autouse=True)
def in_a_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STROMBOLI_DEBUG", raising=False)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line of a command that must fail."""
    assert run(["simulate", *arguments]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("stromboli: error: ")
    assert captured.err.count("\n") == 1
    return captured.err


@pytest.mark.parametrize("mistake", CASES, ids=lambda mistake: str(mistake["why"]))
@pytest.mark.parametrize("output", ["json", "events"])
def test_the_line_names_file_document_and_field(
    mistake: dict[str, Any], output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("s.yaml").write_text(mistake["text"], encoding="utf-8")
    line = refused(capsys, "s.yaml", "--output", output)
    for part in ["s.yaml", *mistake["says"]]:
        assert part in line


def test_a_good_file_before_a_bad_one_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    Path("good.yaml").write_text(POD, encoding="utf-8")
    Path("bad.yaml").write_text(POD.replace("name: p", "name: P!"), encoding="utf-8")
    assert "bad.yaml, document 1" in refused(capsys, "good.yaml", "bad.yaml", "--output", "events")


def test_the_same_file_twice(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(POD, encoding="utf-8")
    assert "s.yaml, document 1 (Pod default/p): metadata.name: " in refused(capsys, "s.yaml", "s.yaml")


def test_no_such_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert "nowhere.yaml: No such file" in refused(capsys, "nowhere.yaml")


def test_a_directory(capsys: pytest.CaptureFixture[str]) -> None:
    Path("d").mkdir()
    assert "d: Is a directory" in refused(capsys, "d")


@pytest.mark.parametrize("text", [50_000 * "[" + 50_000 * "]", 50_000 * "- " + "a", 50_000 * "{a: " + 50_000 * "}"])
def test_nested_too_deeply(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(text, encoding="utf-8")
    assert "s.yaml, document 1 (line 1): not valid YAML: it is nested more than 100 levels deep" in refused(
        capsys, "s.yaml"
    )


def test_aliases_that_expand_to_millions_of_values(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["l0: &l0 [x]", *(f"l{n}: &l{n} [*l{n - 1}, *l{n - 1}]" for n in range(1, 61))]
    Path("s.yaml").write_text("\n".join(lines), encoding="utf-8")
    assert "its aliases stand for more than 1000000 values" in refused(capsys, "s.yaml")


def test_bytes_that_are_no_text(capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_bytes(b"kind: \xff\xfe")
    assert "s.yaml: is not text in UTF-8" in refused(capsys, "s.yaml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("actions: enqueue, fly\n", "unknown action"),
        ("actions: enqueue\ntiers:\n- plugins:\n  - name: gangg\n", 'c.yaml, line 4: unknown plugin "gangg"'),
        ("actions: 7\n", "c.yaml, line 1"),
        ("actions: [", "not valid YAML"),
    ],
)
def test_a_bad_configuration(text: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(POD, encoding="utf-8")
    Path("c.yaml").write_text(text, encoding="utf-8")
    line = refused(capsys, "s.yaml", "--config", "c.yaml", "--output", "json")
    assert "c.yaml" in line
    assert said in line


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("s.yaml", "--until", "soon"),
        ("s.yaml", "--until", "-1s"),
        ("s.yaml", "--period", "0s"),
        ("s.yaml", "--output", "picture"),
        ("s.yaml", "--no-such-flag"),
        ("s.yaml", "--descheduler-config", "d.yaml"),
        ("-", "-"),
        ("s.yaml", "--config", "nowhere.yaml"),
    ],
)
def test_a_bad_command_line(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    Path("s.yaml").write_text(POD, encoding="utf-8")
    refused(capsys, *arguments)


def in_a_new_process(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from stromboli.console.main import main; main()", "simulate", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "STROMBOLI_DEBUG"}
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False, env=environment)


def test_a_mistake_on_standard_input_as_a_shell_sees_it() -> None:
    done = in_a_new_process("-", text=POD.replace("name: c", "name: c, resources: {limits: {cpu: lots}}"))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "stromboli: error: standard input, document 1 (Pod default/p): spec.containers[0].resources.limits.cpu: "
    )
    assert done.stderr.count("\n") == 1


def test_a_run_as_a_shell_sees_it() -> None:
    done = in_a_new_process("-", "--output", "json", text=POD)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith('{\n  "end": 0.0,\n')
    assert done.stdout.endswith("}\n")
