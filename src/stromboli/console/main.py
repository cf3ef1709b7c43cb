"""The command `stromboli`: finds the sub-command, and turns whatever goes wrong into one line.

Two promises are kept here. The first is a quick start: a sub-command's module is imported when it is called,
never to print a list of commands, so `stromboli --help` loads no numeric library and no scheduler. That is
why the one-line summaries stand in this table and not only with the commands.

The second is about errors. What is wrong with the user's input is one line on standard error and exit status
2; what is wrong with us is one line, too, with status 1. A traceback tells a user nothing they could act on,
so it is shown only with STROMBOLI_DEBUG=1 in the environment.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from typing import Final, NamedTuple

import click

from stromboli import __version__
from stromboli.errors import UserError

WRONG_INPUT: Final = 2
OUR_FAULT: Final = 1
INTERRUPTED: Final = 130  # 128 + SIGINT, what a shell reports of a program that control-C ended.


class _Command(NamedTuple):
    target: str  # "module:attribute"
    summary: str


_COMMANDS: Final = {
    "simulate": _Command(
        "stromboli.simulation.command:simulate",
        "Run a scenario through the scheduler in virtual time.",
    ),
    "hollow-nodes": _Command(
        "stromboli.kube.hollow.command:hollow_nodes",
        "Register nodes that only pretend to run their pods.",
    ),
    "scheduler": _Command(
        "stromboli.kube.commands:scheduler",
        "Schedule the pods of a cluster.",
    ),
    "controllers": _Command(
        "stromboli.kube.commands:controllers",
        "Keep Jobs, queues and groups of pods true.",
    ),
    "run": _Command(
        "stromboli.kube.commands:run",
        "Run the scheduler and the controllers in one process.",
    ),
    "bench": _Command(
        "stromboli.console.bench:bench",
        "Measure the scheduler on this machine.",
    ),
}

_EXAMPLES: Final = """\b
Examples:
  stromboli simulate examples/demo.yaml
  stromboli simulate cluster.yaml jobs.yaml --config scheduler.yaml --until 10m
  stromboli simulate jobs.yaml --output json | jq .pods
"""


class _LazyGroup(click.Group):
    """A group that knows its commands' names and summaries, and imports a command to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{_COMMANDS[cmd_name].target} is no click command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.summary) for name, command in _COMMANDS.items()])


@click.group(
    cls=_LazyGroup,
    epilog=_EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """Batch scheduling for Kubernetes: gangs that start together, fair shares, reservations, and a plain
    answer to the question why a job is waiting.
    """


def main() -> None:
    """The entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Nothing but SystemExit ever leaves."""
    try:
        # Somebody who types the name alone wants to know what there is. Click calls that a mistake, or not, by version.
        result = cli.main(list(arguments) or ["--help"], prog_name="stromboli", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        _forget_stdout()
        return OUR_FAULT
    except Exception as error:
        return _report(error)
    # What `ctx.exit(status)` was given comes back as the result; commands themselves return None.
    return result if isinstance(result, int) else 0


def _report(error: Exception) -> int:
    if os.environ.get("STROMBOLI_DEBUG") == "1":
        traceback.print_exception(error)
    message, status = _explained(error)
    print(f"stromboli: error: {' '.join(message.split())}", file=sys.stderr)
    return status


def _explained(error: Exception) -> tuple[str, int]:
    """The sentence for the user, and the exit status."""
    if isinstance(error, UserError):
        return str(error), WRONG_INPUT
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "stromboli"
        return f"{error.format_message().rstrip('.')}. Try: {path} --help", WRONG_INPUT
    if isinstance(error, click.ClickException):
        return error.format_message(), WRONG_INPUT
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        return (f"{error.filename}: {reason}" if error.filename else reason), WRONG_INPUT

    from stromboli.api.errors import ApiError  # Here, because a start that goes well has no need of it.

    if isinstance(error, ApiError):
        return str(error), WRONG_INPUT
    return (
        f"this is a bug in stromboli ({type(error).__name__}: {error}); "
        "please report it with what STROMBOLI_DEBUG=1 shows",
        OUR_FAULT,
    )


def _forget_stdout() -> None:
    # The reader (`| head`) is gone. Python would complain once more when it flushes at exit, so give it
    # somewhere to flush to.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
