"""How commands print: for terminals, for pipes, again and again; and how they fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from console.situations import SITUATIONS
from stromboli.console import main as console
from stromboli.console import output
from stromboli.console.main import run
from stromboli.console.output import Answer, Table
from stromboli.console.short_amounts import age, listed, some, used_of
from stromboli.errors import UserError
from stromboli.scheduling.explanation.next_steps import next_step
from stromboli.scheduling.explanation.reasons import CODES

ANSWER = Answer(
    {"name": "a"}, [Table(("name", ">number", "+more"), [["a", "1", "x"], ["long", "20", "-"]])], ["Head"], ["Hint"]
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stromboli.console.output.is_terminal", lambda: True)
    monkeypatch.delenv("NO_COLOR", raising=False)


def shown(answer: Answer, how: str, capsys: pytest.CaptureFixture[str]) -> str:
    output.show(answer, how)
    return capsys.readouterr().out


def test_a_pipe_gets_the_answer_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(ANSWER, "table", capsys) == "Head\n\nNAME  NUMBER\na          1\nlong      20\n"
    assert shown(ANSWER, "wide", capsys) == "Head\n\nNAME  NUMBER  MORE\na          1  x\nlong      20  -\n"
    assert json.loads(shown(ANSWER, "json", capsys)) == {"name": "a"}
    assert shown(ANSWER, "yaml", capsys) == "name: a\n"


def test_a_terminal_gets_colours_and_hints(terminal: None, capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(ANSWER, "table", capsys)
    assert "\x1b[" in text
    assert "Hint" in text


def test_waiting_is_no_step_for_a_job_that_can_never_start() -> None:
    assert next_step("InsufficientNode", "Waiting to be admitted") == (
        "Request less, wait until pods finish, or add nodes."
    )
    assert next_step("InsufficientNode", "The gang can never start: 68 cpu requested, and the cluster has 48.") == (
        "Request less, or add nodes that are large enough."
    )


def test_no_color_is_respected(
    terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(ANSWER, "table", capsys)
    assert "\x1b" not in text
    assert "Hint" in text


def test_control_characters_never_reach_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal would obey them: `ESC ]0;` sets its title, U+202E turns the line around."""
    table = Table(("name",))
    table.add("a\x1b]0;t\x07\u202eb")
    text = shown(Answer(1, [table], ["\x9b31m", output.styled("bo\x1bld", bold=True)]), "table", capsys)
    assert text.splitlines() == ["\\x9b31m", "bo\\x1bld", "", "NAME", r"a\x1b]0;t\x07\u202eb"]


@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_data_has_no_control_characters_and_stays_the_same(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    """A terminal obeys U+009B as it does the escape character, and U+202E turns text around. Other letters stay."""
    data = {"message": "a\x9b31mb\x7f\u202ec\u2028d\x1b[1m", "name": "ü"}
    said = shown(Answer(data, []), kind, capsys)
    assert [sign for sign in said if sign != "\n" and not sign.isprintable()] == []
    assert (json.loads if kind == "json" else yaml.safe_load)(said) == data
    assert "ü" in shown(Answer({"name": "ü"}, []), kind, capsys)


def test_errors_have_no_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["jobs", "--scenario", "\x1b[31mx"]) == 2
    assert capsys.readouterr().err == "stromboli: error: \\x1b[31mx: No such file or directory\n"


def test_a_table_that_is_too_wide_becomes_entries(
    terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Lines that a terminal breaks in the middle cannot be read."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "30")
    table = Table(("job", "queue", ">age", "reason"))
    table.add("default/training", "science", "5s", "InsufficientNode")
    table.add("default/other", "", "5s", "")
    assert shown(Answer(1, [table]), "table", capsys).splitlines() == [
        "default/training", "  queue science, age 5s,", "  reason InsufficientNode", "default/other", "  age 5s",
    ]  # fmt: skip
    table.rows.pop(0)
    assert shown(Answer(1, [table]), "table", capsys).splitlines() == ["JOB            AGE", "default/other   5s"]
    monkeypatch.setenv("COLUMNS", "80")
    assert shown(Answer(1, [table]), "table", capsys).startswith("JOB ")


def test_a_second_more_is_not_a_change(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ages = iter([1, 3, 5])

    def ask() -> Answer:
        try:
            table = Table(("job", ">age"))
            table.add("a", f"{next(ages)}s")
        except StopIteration:
            raise Stop from None
        return Answer({"now": 1}, [table])

    monkeypatch.setattr("stromboli.console.output.time.sleep", lambda seconds: None)
    with pytest.raises(Stop):
        output.repeat(ask, "table", 1.0, live=True)
    assert capsys.readouterr().out == "JOB  AGE\na     1s\n"


def test_an_interrupt_inside_an_import_is_no_bug(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C while a class is made comes as a RuntimeError of that class."""

    def interrupted(*arguments: object, **options: object) -> None:
        raise RuntimeError("Error calling __set_name__ on 'Field' instance") from KeyboardInterrupt()

    monkeypatch.setattr(console.cli, "main", interrupted)
    assert run(["jobs"]) == 130
    assert capsys.readouterr().err == ""


class Stop(Exception):
    """The user presses Ctrl-C."""


def test_watching_prints_changes_only(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter([Answer(1, head=["one"]), Answer(1, head=["one"]), Answer(2, head=["two"])])
    naps: list[float] = []

    def sleep(seconds: float) -> None:
        naps.append(seconds)
        if len(naps) == 3:
            raise Stop

    monkeypatch.setattr("stromboli.console.output.time.sleep", sleep)
    with pytest.raises(Stop):
        output.repeat(lambda: next(answers), "table", 0.5, live=True)
    assert naps == [0.5] * 3
    assert capsys.readouterr().out == "one\ntwo\n"


def test_a_terminal_is_redrawn(
    terminal: None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(seconds: float) -> None:
        raise Stop

    monkeypatch.setattr("stromboli.console.output.time.sleep", stop)
    with pytest.raises(Stop):
        output.repeat(lambda: Answer(1, head=["one"]), "table", 2.0, live=True)
    assert capsys.readouterr().out.startswith("\x1b[H")


def test_a_scenario_cannot_be_watched() -> None:
    with pytest.raises(UserError, match="--watch needs a cluster"):
        output.repeat(lambda: ANSWER, "table", 2.0, live=False)


@pytest.mark.parametrize(
    ("arguments", "status", "problem"),
    [
        (["status", "--at", "5s"], 2, "--at needs --scenario"),
        (["status", "--scenario", "x.yaml", "--context", "c"], 2, "--scenario looks at no cluster"),
        (["status", "--scenario", "missing.yaml"], 2, "missing.yaml: No such file or directory"),
        (["status", "--scenario", "x.yaml", "--at", "soon"], 2, "must be a duration"),
        (["status", "--kubeconfig", "nowhere"], 2, "nowhere"),
        (["why"], 2, "Missing argument"),
        (["plan"], 2, "Missing option '-f'"),
        (["submit", "-f", "missing.yaml"], 2, "missing.yaml: No such file or directory"),
        (["up", "--kubeconfig-out", "nowhere/file"], 2, "--kubeconfig-out: there is no folder nowhere"),
        (["up", "--descheduler-port", "1"], 2, "add --descheduler-config POLICY"),
        (["submit", "-f", "/dev/null"], 2, "/dev/null: has no objects"),
        (["submit", "-f", "-", "-f", "-"], 2, "standard input can be read only once"),
        (["replay", "missing.jsonl"], 2, "missing.jsonl"),
        (["jobs", "-o", "xml"], 2, "'xml' is not one of"),
        (["completion", "tcsh"], 2, "'tcsh' is not one of"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], status: int, problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == status
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    assert said.err.startswith("stromboli: error: ")
    assert problem in said.err


def test_a_cluster_that_does_not_answer_is_status_3(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"token": "t"}}],
    }))  # fmt: skip
    assert run(["status", "--kubeconfig", str(config)]) == 3
    said = capsys.readouterr().err
    assert said.startswith("stromboli: error: The API server at http://127.0.0.1:1 does not answer: ")
    assert said.endswith("Check that it runs, and --kubeconfig and --context.\n")


def test_a_manifest_of_a_scenario_cannot_be_submitted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "restart.yaml"
    file.write_text("{apiVersion: sim.stromboli.io/v1, kind: Restart, at: 5s, component: all}\n")
    assert run(["submit", "-f", str(file)]) == 2
    assert "belongs to scenarios and cannot be submitted" in capsys.readouterr().err


def test_a_manifest_is_checked_without_a_cluster(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "pod.yaml"
    file.write_text(json.dumps(SITUATIONS["GangShort"].documents[-1]))
    assert run(["submit", "--dry-run", "-f", str(file)]) == 0
    assert capsys.readouterr().out == "Pod default/big-2 is valid (dry run, nothing was created)\n"


@pytest.mark.parametrize("command", [["submit", "--dry-run"], ["plan", "--scenario", "nodes.yaml"]])
def test_what_a_manifest_cannot_mean_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("nodes.yaml").write_text("{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4}}}")
    Path("pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {schedulerName: volcano, containers: [{name: main, "
        "resources: {requests: {cpu: 400m, memory: 400m}}}]}}"
    )
    assert run([*command, "-f", "pod.yaml"]) == 0
    assert capsys.readouterr().err == (
        "stromboli: warning: Pod default/p: Less than a whole byte: spec.containers[0].resources.requests.memory is "
        "400m. The unit m means thousandths; did you mean Mi?\n"
    )


def test_the_name_of_the_kubectl_plugin(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.argv", ["/usr/bin/kubectl-stromboli", "jobs", "--help"])
    with pytest.raises(SystemExit) as ended:
        console.main()
    assert ended.value.code == 0
    assert capsys.readouterr().out.startswith("Usage: kubectl stromboli jobs")


def test_completion(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for shell in ("bash", "zsh", "fish"):
        assert run(["completion", shell]) == 0
        assert "_STROMBOLI_COMPLETE" in capsys.readouterr().out
    monkeypatch.setattr(console, "import_module", lambda name: pytest.fail(f"{name} was imported"))
    with console.cli.make_context("stromboli", [], resilient_parsing=True) as context:
        names = [item.value for item in console.cli.shell_complete(context, "re")]
        options = [item.value for item in console.cli.shell_complete(context, "--v")]
    assert names == ["reservations", "resume", "replay"]
    assert options == ["--version"]


@pytest.mark.parametrize("name", sorted(console._COMMANDS))
def test_every_command_has_help_with_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([name, "--help"]) == 0
    shown = capsys.readouterr().out
    assert "Examples:" in shown or "Commands:" in shown  # a group of commands, each with its own help
    assert f"stromboli {name}" in shown


def test_every_reason_has_a_next_step() -> None:
    assert all(next_step(code).endswith(".") for code in CODES)
    assert next_step("PredicateOfMyOwn") == ""


def test_amounts_and_times() -> None:
    assert listed({"cpu": 1500, "memory": 3 << 30, "nvidia.com/gpu": 0}) == "1.5 cpu, 3Gi memory"
    assert used_of({"cpu": 500}, {"cpu": 2000, "memory": 1 << 30}) == "0.5 of 2 cpu, 0 of 1Gi memory"
    assert [age(seconds) for seconds in (-1, 5.9, 65, 3700, 90_000, 180_000)] == [
        "0s", "5s", "1m5s", "1h1m", "1d1h", "2d2h",
    ]  # fmt: skip
    assert (some(["a", "b"]), some(list("abcde"))) == ("a, b", "a, b, c and 2 more")
