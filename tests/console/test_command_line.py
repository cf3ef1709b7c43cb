"""The command line: a quick start, and one line for everything that goes wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable

import click
import pytest

import stromboli
from stromboli.console import main as console
from stromboli.errors import UserError
from stromboli.scheduling.configuration.arguments import ConfigurationError


def in_a_new_process(code: str) -> subprocess.CompletedProcess[str]:
    # Without a setting that would take the output buffer away: what is written at exit is part of the story.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def failing_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], None]:
    """Makes `stromboli simulate` raise what it is given."""

    def prepare(error: BaseException) -> None:
        @click.command()
        def simulate() -> None:
            raise error

        monkeypatch.delenv("STROMBOLI_DEBUG", raising=False)
        monkeypatch.setattr(console._LazyGroup, "get_command", lambda *_: simulate)

    return prepare


def test_help_names_commands_and_shows_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(["--help"]) == 0
    shown = capsys.readouterr().out
    assert "simulate" in shown
    assert "bench" in shown
    assert "  stromboli simulate examples/demo.yaml\n" in shown


def test_the_name_alone_shows_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(["--help"]) == 0
    asked_for = capsys.readouterr()
    assert console.run([]) == 0
    assert capsys.readouterr() == asked_for


def test_a_group_without_a_command_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(["bench"]) == 2
    assert capsys.readouterr() == ("", "stromboli: error: Missing command. Try: stromboli bench --help\n")


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(["--version"]) == 0
    assert capsys.readouterr().out == f"stromboli {stromboli.__version__}\n"


def test_help_loads_nothing_heavy() -> None:
    done = in_a_new_process(
        "import json, sys\n"
        "from stromboli.console.main import run\n"
        "status = run(['--help'])\n"
        "print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)\n"
    )
    status, modules = json.loads(done.stderr)
    assert status == 0
    assert "click" in modules
    heavy = {"numba", "numpy", "rich", "yaml", "msgspec", "stromboli.api", "stromboli.scheduling"}
    assert heavy.isdisjoint(modules)


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UserError("jobs.yaml: is empty"), "jobs.yaml: is empty"),
        (UserError("two\nlines"), "two lines"),
        (ConfigurationError("bad", where="scheduler.yaml", line=7), "scheduler.yaml, line 7: bad"),
        (FileNotFoundError(2, "No such file", "jobs.yaml"), "jobs.yaml: No such file"),
        (OSError("disk is gone"), "disk is gone"),
        (click.ClickException("no terminal"), "no terminal"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_status_2(
    failing_with: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    error: Exception,
    line: str,
) -> None:
    failing_with(error)
    assert console.run(["simulate"]) == 2
    assert capsys.readouterr() == ("", f"stromboli: error: {line}\n")


def test_an_object_that_is_refused_is_status_2(
    failing_with: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    from stromboli.api.decoder import decode
    from stromboli.api.errors import ApiError

    with pytest.raises(ApiError) as caught:
        decode({"apiVersion": "v1", "kind": "Pad"})
    failing_with(caught.value)
    assert console.run(["simulate"]) == 2
    assert capsys.readouterr().err == f"stromboli: error: {caught.value}\n"


def test_a_bug_of_ours_is_one_line_and_status_1(
    failing_with: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing_with(KeyError("n1"))
    assert console.run(["simulate"]) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("stromboli: error: this is a bug in stromboli (KeyError: 'n1')")
    assert shown.count("\n") == 1


def test_the_traceback_is_there_for_those_who_ask(
    failing_with: Callable[[BaseException], None],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failing_with(UserError("jobs.yaml: is empty"))
    monkeypatch.setenv("STROMBOLI_DEBUG", "1")
    assert console.run(["simulate"]) == 2
    shown = capsys.readouterr().err
    assert shown.startswith("Traceback (most recent call last)")
    assert shown.endswith("\nstromboli: error: jobs.yaml: is empty\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["unheard-of"], "'unheard-of'. Try: stromboli --help"),
        (["--frobnicate"], "--frobnicate"),
    ],
)
def test_a_wrong_command_line_says_where_help_is(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    assert console.run(arguments) == 2
    shown = capsys.readouterr().err
    assert line in shown
    assert shown.startswith("stromboli: error: ")
    assert shown.endswith(". Try: stromboli --help\n")
    assert shown.count("\n") == 1


def test_a_misspelt_command_is_told_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(["stauts"]) == 2
    line = "stromboli: error: No such command 'stauts'; did you mean status? Try: stromboli --help\n"
    assert capsys.readouterr() == ("", line)


def test_control_c_is_status_130(failing_with: Callable[[BaseException], None]) -> None:
    failing_with(KeyboardInterrupt())
    assert console.run(["simulate"]) == 130


def test_an_exit_status_of_a_command_is_passed_on(failing_with: Callable[[BaseException], None]) -> None:
    failing_with(click.exceptions.Exit(3))
    assert console.run(["simulate"]) == 3


def test_a_reader_that_goes_away_is_no_news() -> None:
    # The pipe's reading end is closed before anything is written, as `| head -0` does it. One line stays in
    # the buffer and fails in the last flush; a hundred thousand fail while they are written.
    for lines in (1, 100_000):
        done = in_a_new_process(
            "import os, sys, click\n"
            "from stromboli.console import main as console\n"
            "@click.command()\n"
            "def simulate():\n"
            f"    sys.stdout.write('line\\n' * {lines})\n"
            "console._LazyGroup.get_command = lambda *_: simulate\n"
            "reading, writing = os.pipe()\n"
            "os.close(reading)\n"
            "os.dup2(writing, 1)\n"
            "sys.argv = ['stromboli', 'simulate']\n"
            "console.main()\n"
        )
        assert done.stderr == ""
        assert done.returncode == 1


def test_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "stromboli", "--version"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"stromboli {stromboli.__version__}\n")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shell_completion(shell: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "stromboli"], capture_output=True, text=True, check=False,
        env={**os.environ, "_STROMBOLI_COMPLETE": f"{shell}_source"},
    )  # fmt: skip
    assert done.returncode == 0
    assert "_STROMBOLI_COMPLETE" in done.stdout


def test_long_messages_are_cut(
    failing_with: Callable[[BaseException], None], capsys: pytest.CaptureFixture[str]
) -> None:
    failing_with(UserError("x" * 5000))
    assert console.run(["simulate"]) == 2
    assert len(capsys.readouterr().err) < 1100


# Four nodes hold sixteen of these pods. A gang of four takes the room of four; one of seventeen cannot start.
@pytest.mark.parametrize(("gang", "evicted"), [("--preemptor=4", 4), ("--reclaim=4", 4), ("--hopeless=17", 0)])
def test_a_cycle_with_evictions_can_be_measured(gang: str, evicted: int, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--nodes=4", "--pods=0", "--running=16", "--running-jobs=2", "--repeat=1", "--output=json"]
    assert console.run(["bench", "cycle", *options, gang]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert (figures["bound"], figures["evicted"]) == (0, evicted)


def test_a_hopeless_gang_that_would_fit_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run(["bench", "cycle", "--nodes=4", "--pods=0", "--hopeless=16"]) == 2
    assert "use more than 16" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["simulate", "bench cycle", "bench cluster"])
def test_output_has_a_short_form(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert console.run([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert "-o, --output" in shown
