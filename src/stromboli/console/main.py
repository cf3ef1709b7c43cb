"""The command `stromboli`: finds the sub-command, and reports every error as one line.

It starts fast: the module of a sub-command is imported when the command is called, never to print the list of commands,
so `stromboli --help` loads no numeric library and no scheduler. That is why the summaries are in this table and not
only in the commands.

An error in the user's input is one line on standard error and exit status 2; a bug is one line, too, with status 1. A
traceback does not help users, so it is shown only with STROMBOLI_DEBUG=1 in the environment.
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
LONGEST_MESSAGE: Final = 1000
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it after Ctrl-C


class _Command(NamedTuple):
    target: str  # "module:attribute"
    summary: str


_COMMANDS: Final = {
    "simulate": _Command(
        "stromboli.simulation.command:simulate",
        "Run a scenario through the scheduler in virtual time.",
    ),
    "up": _Command(
        "stromboli.console.up.command:up",
        "Run a whole cluster in one process.",
    ),
    "hollow-nodes": _Command(
        "stromboli.kube.commands.hollow_nodes:hollow_nodes",
        "Register nodes without machines that pretend to run pods.",
    ),
    "scheduler": _Command(
        "stromboli.kube.commands.processes:scheduler",
        "Schedule the pods of a cluster.",
    ),
    "controllers": _Command(
        "stromboli.kube.commands.processes:controllers",
        "Reconcile Jobs, queues and groups of pods.",
    ),
    "descheduler": _Command(
        "stromboli.kube.commands.descheduler:descheduler",
        "Move pods to other nodes, by a policy.",
    ),
    "defrag": _Command(
        "stromboli.kube.commands.descheduler:defrag",
        "Show what the descheduler would move, or let it do so now.",
    ),
    "run": _Command(
        "stromboli.kube.commands.processes:run",
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
  stromboli up --demo
"""


class _LazyGroup(click.Group):
    """A group that has the names and summaries of its commands, and imports a command only to run it."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, _, attribute = _COMMANDS[cmd_name].target.partition(":")
        command = getattr(import_module(module), attribute)
        if not isinstance(command, click.Command):
            raise TypeError(f"{_COMMANDS[cmd_name].target} is not a click command")
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
    """Batch scheduling for Kubernetes: gangs that start together, fair shares, reservations, and a clear
    reason for every job that waits.
    """


def main() -> None:
    """The entry point of the installed command."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit status. Raises nothing but SystemExit."""
    try:
        # The name alone shows the help. Whether click calls that an error depends on its version.
        result = cli.main(list(arguments) or ["--help"], prog_name="stromboli", standalone_mode=False)
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return OUR_FAULT
    except Exception as error:
        return _report(error)
    # The status of `ctx.exit(status)` is returned as the result; commands return None.
    return result if isinstance(result, int) else 0


def _report(error: Exception) -> int:
    if os.environ.get("STROMBOLI_DEBUG") == "1":
        traceback.print_exception(error)
    message, status = _explained(error)
    line = " ".join(message.split())
    if len(line) > LONGEST_MESSAGE:
        line = line[: LONGEST_MESSAGE - 3] + "..."
    print(f"stromboli: error: {line}", file=sys.stderr)
    return status


def _explained(error: Exception) -> tuple[str, int]:
    """The message for the user, and the exit status."""
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

    from stromboli.api.errors import ApiError  # imported here, because only errors need it

    if isinstance(error, ApiError):
        return str(error), WRONG_INPUT
    return (
        f"this is a bug in stromboli ({type(error).__name__}: {error}); "
        "please report it with the output of STROMBOLI_DEBUG=1",
        OUR_FAULT,
    )


def _discard_stdout() -> None:
    # The reader (`| head`) has exited. Python flushes once more at exit, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
