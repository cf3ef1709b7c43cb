"""`stromboli replay`: a recording of the scheduler, decided again."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stromboli.console.output import Answer, Table, output_option, show
from stromboli.errors import NotReproduced, UserError

if TYPE_CHECKING:
    from stromboli.insight.replay import ReplayedCycle

_EXAMPLES = """\b
Examples:
  stromboli scheduler --record decisions.jsonl
  stromboli replay decisions.jsonl
  stromboli replay decisions.jsonl --cycles
  stromboli replay decisions.jsonl --explain lab/training
  stromboli replay decisions.jsonl --explain lab/training --cycle 12
"""


@click.command(epilog=_EXAMPLES)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--cycles", is_flag=True, help="List the cycles that decided something.")
@click.option("--explain", metavar="[NAMESPACE/]JOB", help="Explain why a job waited.")
@click.option(
    "--cycle", type=click.IntRange(1), help="With --explain: in this cycle; by default the last one it waited in."
)
@output_option
def replay(file: Path, cycles: bool, explain: str | None, cycle: int | None, output: str) -> None:
    """Decide a recording again, and compare the decisions byte for byte.

    The file is written by `stromboli scheduler --record FILE`. Plugins of your own must be installed here as well.
    The exit status is 4 if a decision is different.
    """
    from stromboli.insight.replay import Replay
    from stromboli.scheduling.registry import Registry

    if cycle is not None and explain is None:
        raise UserError("--cycle needs --explain NAMESPACE/JOB.")
    registry = Registry()
    with file.open("rb") as lines:
        found = _all(Replay(registry), lines, str(file))
    if explain is not None:
        _explain(file, registry, found, explain if "/" in explain else f"default/{explain}", cycle, output)
        return
    different = [one for one in found if not one.is_same]
    show(_answer(found, different, with_cycles=cycles), output)
    if different:
        first = different[0]
        raise NotReproduced(
            f"{len(different)} of {len(found)} cycles decided differently, first cycle {first.number} (line "
            f"{first.line}); was it recorded with another version, or with plugins that are not installed here?"
        )


def _all(replay: Any, lines: Any, where: str) -> list[ReplayedCycle]:
    from stromboli.insight.recording import read_steps

    return list(replay.run(read_steps(lines, where)))


def _answer(found: list[ReplayedCycle], different: list[ReplayedCycle], *, with_cycles: bool) -> Answer:
    from stromboli.api.timestamps import format_timestamp

    decisions = Counter(type(decision).__name__ for one in found for decision in one.cycle.decisions)
    listed = ", ".join(f"{number} {name}" for name, number in sorted(decisions.items())) or "none"
    head = [
        f"Cycles: {len(found)}, {len(found) - len(different)} decided the same",
        f"Decisions: {listed}",
    ]
    errors = [(one, error) for one in found for error in one.cycle.contained]
    for one, error in errors:
        head.append(f"Cycle {one.number}: {error.error} on {error.subject} ({error.where}): {error.text}")
    if found:
        head.insert(0, f"Recorded: {format_timestamp(found[0].now)} to {format_timestamp(found[-1].now)}")
    table = Table((">cycle", "time", ">events", "decisions", ">waiting jobs", "same"))
    rows = []
    for one in found:
        kinds = Counter(type(decision).__name__ for decision in one.cycle.decisions)
        rows.append(
            {
                "cycle": one.number,
                "time": format_timestamp(one.now),
                "events": one.events,
                "decisions": dict(sorted(kinds.items())),
                "waiting": sorted(one.waiting),
                "same": one.is_same,
            }
        )
        if kinds or not one.is_same:
            words = ", ".join(f"{number} {name}" for name, number in sorted(kinds.items()))
            same = "yes" if one.is_same else "no"
            table.add(one.number, format_timestamp(one.now), one.events, words, len(one.waiting), same)
    data = {"cycles": len(found), "same": len(found) - len(different), "decisions": dict(sorted(decisions.items()))}
    if errors:
        data["errors"] = [
            {"cycle": one.number, "object": str(error.subject), "error": error.error, "traceback": error.traceback}
            for one, error in errors
        ]
    if with_cycles:
        data["list"] = rows
    return Answer(data, [table] if with_cycles and table.rows else [], head)


def _explain(
    file: Path, registry: Any, found: list[ReplayedCycle], job: str, number: int | None, output: str
) -> None:
    from stromboli.console.explanation_view import explanation_view
    from stromboli.insight.recording import read_steps
    from stromboli.insight.replay import Replay

    if number is None:
        number = max((one.number for one in found if job in one.waiting), default=None)
        if number is None:
            raise UserError(f"{job} did not wait in any recorded cycle. Try: stromboli replay {file} --cycles")
    if number > len(found):
        raise UserError(f"The recording has {len(found)} cycles, not {number}.")
    with file.open("rb") as lines:
        explanation = Replay(registry).explain(read_steps(lines, str(file)), number, job)
    if explanation is None:
        raise UserError(f"There was no job {job} in cycle {number}. Try: stromboli replay {file} --cycles")
    answer = explanation_view(explanation, None, found[number - 1].now)
    answer.head.insert(0, f"Cycle {number}:")
    show(answer, output)
