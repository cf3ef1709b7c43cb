"""The command `stromboli`: finds the sub-command, and reports every error as one line.

It starts fast: the module of a sub-command is imported when the command is called, never to print the list of commands,
so `stromboli --help` loads no numeric library and no scheduler. That is why the summaries are in this table and not
only in the commands.

An error in the user's input is one line on standard error and exit status 2; a bug is one line, too, with status 1. A
traceback does not help users, so it is shown only with STROMBOLI_DEBUG=1 in the environment.
"""

from __future__ import annotations

import errno
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from stromboli import __version__
from stromboli.errors import UserError
from stromboli.printable import printable

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

KUBECTL_PLUGIN: Final = "kubectl-stromboli"
"""The name under which kubectl finds the command, as `kubectl stromboli`."""
_COMPLETE: Final = "_STROMBOLI_COMPLETE"
WRONG_INPUT: Final = 2
OUR_FAULT: Final = 1
LONGEST_MESSAGE: Final = 1000
_NO_SPACE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it after Ctrl-C


class _Command(NamedTuple):
    target: str  # "module:attribute"
    summary: str


_WHAT_IF: Final = "stromboli.console.whatif.page_answers"
_LOOK: Final = "stromboli.console.commands.look"
_ACT: Final = "stromboli.console.commands.act"

_COMMANDS: Final = {
    "status": _Command(f"{_LOOK}:status", "Show the cluster: queues, jobs and nodes."),
    "queues": _Command(f"{_LOOK}:queues", "List queues: what each has, deserves, borrows and lends."),
    "jobs": _Command(f"{_LOOK}:jobs", "List jobs, and why they wait."),
    "nodes": _Command(f"{_LOOK}:nodes", "List nodes by use."),
    "reservations": _Command(f"{_LOOK}:reservations", "List Reservations."),
    "why": _Command("stromboli.console.commands.why:why", "Explain why a job waits, and what would start it."),
    "plan": _Command("stromboli.console.commands.plan:plan", "Show what would happen if a job were submitted."),
    "submit": _Command("stromboli.console.commands.submit:submit", "Submit jobs."),
    "cancel": _Command(f"{_ACT}:cancel", "Delete a job and its pods."),
    "logs": _Command("stromboli.console.commands.logs:logs", "Show what the pods of a job write."),
    "suspend": _Command(f"{_ACT}:suspend", "Stop a Job and keep it for later."),
    "resume": _Command(f"{_ACT}:resume", "Continue a suspended Job."),
    "top": _Command("stromboli.console.commands.top:top", "Watch the busiest jobs and the longest waits."),
    "diag": _Command("stromboli.console.commands.diag:diag", "Show how the scheduler itself is doing."),
    "replay": _Command("stromboli.console.commands.replay:replay", "Decide a recording again, and compare."),
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
    "completion": _Command(
        "stromboli.console.commands.completion:completion",
        "Print the completion script of a shell.",
    ),
}

_EXAMPLES: Final = """\b
Examples:
  stromboli status
  stromboli why lab/training
  stromboli plan -f job.yaml
  stromboli simulate examples/demo.yaml
  stromboli simulate cluster.yaml jobs.yaml --config scheduler.yaml --until 10m
  stromboli up --demo

\b
Exit status:
  0    done
  1    a bug, or the reader of the output is gone
  2    wrong input: an option, a file, a name that does not exist
  3    the cluster does not answer, or refuses
  4    a recording could not be reproduced
  5    a job that was waited for has failed
  130  interrupted
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

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            from stromboli.nearest_name import nearest_name  # imported here, because only mistakes need it

            if near := nearest_name(name, _COMMANDS):
                raise click.UsageError(f"No such command '{name}'; did you mean {near}?", ctx)
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Names from the table, so that completing a name imports no command either."""
        from click.shell_completion import CompletionItem

        if incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        return [
            CompletionItem(name, help=command.summary)
            for name, command in _COMMANDS.items()
            if name.startswith(incomplete)
        ]

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
    name = Path(sys.argv[0]).name
    sys.exit(run(sys.argv[1:], name="kubectl stromboli" if name == KUBECTL_PLUGIN else "stromboli"))


def run(arguments: Sequence[str], *, name: str = "stromboli") -> int:
    """Run one command line and return its exit status. Raises nothing but SystemExit. `name`: what the user typed."""
    try:
        # The name alone shows the help. Whether click calls that an error depends on its version.
        result = cli.main(
            list(arguments) or ["--help"],
            prog_name=name, complete_var=_COMPLETE, standalone_mode=False, obj=_new_what_if,
        )  # fmt: skip
        sys.stdout.flush()
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except BrokenPipeError:
        _discard_stdout()
        return OUR_FAULT
    except Exception as error:
        return INTERRUPTED if _is_interrupt(error) else _report(error)
    # The status of `ctx.exit(status)` is returned as the result; commands return None.
    return result if isinstance(result, int) else 0


def _new_what_if() -> object:
    """For commands below, which cannot import it: trials need the world of the simulation."""
    made: object = import_module(_WHAT_IF).PageAnswers()
    return made


def _is_interrupt(error: BaseException | None) -> bool:
    """Ctrl-C while a class is created, during an import, arrives wrapped in a RuntimeError."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__
    return error is not None


def _report(error: Exception) -> int:
    if os.environ.get("STROMBOLI_DEBUG") == "1":
        traceback.print_exception(error)
    message, status = _explained(error)
    line = printable(" ".join(message.split()))
    if len(line) > LONGEST_MESSAGE:
        line = line[: LONGEST_MESSAGE - 3] + "..."
    print(f"stromboli: error: {line}", file=sys.stderr)
    return status


def _explained(error: Exception) -> tuple[str, int]:
    """The message for the user, and the exit status."""
    if isinstance(error, UserError):
        return str(error), error.exit_status
    if isinstance(error, click.UsageError):
        path = error.ctx.command_path if error.ctx else "stromboli"
        message = error.format_message().rstrip(".")
        return f"{message}{'' if message.endswith('?') else '.'} Try: {path} --help", WRONG_INPUT
    if isinstance(error, click.ClickException):
        return error.format_message(), WRONG_INPUT
    if isinstance(error, OSError):
        reason = error.strerror or str(error) or type(error).__name__
        if error.errno in _NO_SPACE and not error.filename:  # files that we write are named; this is standard output
            return f"the output cannot be written: {reason}", WRONG_INPUT
        return (f"{error.filename}: {reason}" if error.filename else reason), WRONG_INPUT

    from stromboli.api.errors import ApiError  # imported here, because only errors need them
    from stromboli.containment import plugin_failure

    if isinstance(error, ApiError):
        return str(error), WRONG_INPUT
    if (failure := plugin_failure(error)) is not None:
        return f"{failure}; please report it to its author with the output of STROMBOLI_DEBUG=1", OUR_FAULT
    return (
        f"this is a bug in stromboli ({type(error).__name__}: {error}); "
        "please report it with the output of STROMBOLI_DEBUG=1",
        OUR_FAULT,
    )


def _discard_stdout() -> None:
    # The reader (`| head`) has exited. Python flushes once more at exit, which would fail again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
