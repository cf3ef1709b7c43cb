"""`stromboli replay`: a recording of the scheduler, decided again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stromboli.console.output import Answer, Table, output_option, show
from stromboli.errors import NotReproduced, UserError
from stromboli.files import read_lines

if TYPE_CHECKING:
    from stromboli.containment import ContainedError
    from stromboli.insight.recording import Step
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
    found = [_summary(one) for one in Replay(registry).run(_steps(file))]
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


@dataclass(frozen=True, slots=True)
class _Summary:
    """What is shown of a cycle. Its decisions and bytes are not kept: a recording may have millions of cycles."""

    number: int
    line: int
    now: float
    events: int
    decisions: dict[str, int]
    waiting: frozenset[str]
    contained: Sequence[ContainedError]
    is_same: bool


def _summary(one: ReplayedCycle) -> _Summary:
    kinds = Counter(type(decision).__name__ for decision in one.cycle.decisions)
    return _Summary(
        one.number, one.line, one.now, one.events, dict(sorted(kinds.items())), one.waiting,
        tuple(one.cycle.contained), one.is_same,
    )  # fmt: skip


def _steps(file: Path) -> Iterator[Step]:
    from stromboli.insight.recording import LONGEST_LINE, LONGEST_START, read_steps

    return read_steps(read_lines(file, first=LONGEST_START, longest=LONGEST_LINE), str(file))


def _answer(found: list[_Summary], different: list[_Summary], *, with_cycles: bool) -> Answer:
    from stromboli.api.timestamps import format_timestamp

    decisions: Counter[str] = Counter()
    for one in found:
        decisions.update(one.decisions)
    listed = ", ".join(f"{number} {name}" for name, number in sorted(decisions.items())) or "none"
    head = [
        f"Cycles: {len(found)}, {len(found) - len(different)} decided the same",
        f"Decisions: {listed}",
    ]
    errors = [(one, error) for one in found for error in one.contained]
    for one, error in errors:
        head.append(f"Cycle {one.number}: {error.error} on {error.subject} ({error.where}): {error.text}")
    if found:
        head.insert(0, f"Recorded: {format_timestamp(found[0].now)} to {format_timestamp(found[-1].now)}")
    table = Table((">cycle", "time", ">events", "decisions", ">waiting jobs", "same"))
    rows = []
    for one in found:
        rows.append(
            {
                "cycle": one.number,
                "time": format_timestamp(one.now),
                "events": one.events,
                "decisions": one.decisions,
                "waiting": sorted(one.waiting),
                "same": one.is_same,
            }
        )
        if one.decisions or not one.is_same:
            words = ", ".join(f"{number} {name}" for name, number in one.decisions.items())
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


def _explain(file: Path, registry: Any, found: list[_Summary], job: str, number: int | None, output: str) -> None:
    from stromboli.console.explanation_view import explanation_view
    from stromboli.insight.replay import Replay

    if number is None:
        number = max((one.number for one in found if job in one.waiting), default=None)
        if number is None:
            raise UserError(f"{job} did not wait in any recorded cycle. Try: stromboli replay {file} --cycles")
    if number > len(found):
        raise UserError(f"The recording has {len(found)} cycles, not {number}.")
    explanation = Replay(registry).explain(_steps(file), number, job)
    if explanation is None:
        raise UserError(f"There was no job {job} in cycle {number}. Try: stromboli replay {file} --cycles")
    answer = explanation_view(explanation, None, found[number - 1].now)
    answer.head.insert(0, f"Cycle {number}:")
    show(answer, output)
