"""The command `stromboli simulate`.

Everything is read and checked before anything is printed: what a pipe receives is a whole answer or nothing.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.errors import UserError

from .virtual_time import Moment, moment

if TYPE_CHECKING:
    from stromboli.scheduling.configuration.file import Configuration
    from stromboli.scheduling.registry import Registry
    from stromboli.simulation.scenario.file import Scenario

    from .engine import Engine

_EXAMPLES = """\b
Examples:
  stromboli simulate examples/demo.yaml
  stromboli simulate nodes.yaml jobs.yaml --config scheduler.yaml --until 10m
  stromboli simulate jobs.yaml --output json | jq '.pods | map_values(.phase)'
  generate-jobs | stromboli simulate nodes.yaml - --output events

\b
In a scenario, annotations say when things happen:
  sim.stromboli.io/at, until        when the object is created and deleted
  sim.stromboli.io/run, exit-code   how long a pod runs, and how it ends
  sim.stromboli.io/grace            how long a pod takes to go once it is evicted
"""


class _Duration(click.ParamType[Moment]):
    name = "duration"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Moment:
        try:
            length = moment(parse_duration(str(value)))
        except QuantityError as error:
            self.fail(f"{error}.", param, ctx)
        if self._positive and length <= 0:
            self.fail("must be longer than 0s.", param, ctx)
        return length


@click.command(epilog=_EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--config", metavar="FILE", help="The scheduler's configuration; a built-in one if not given.")
@click.option("--descheduler-config", metavar="FILE", help="A descheduler's policy (not supported yet).")
@click.option("--until", type=_Duration(), help="Go on to this time, such as 90s or 1h30m.")
@click.option(
    "--period",
    type=_Duration(positive=True),
    default="1s",
    show_default=True,
    help="Time between two cycles.",
)
@click.option(
    "--output",
    type=click.Choice(["table", "json", "events"]),
    default="table",
    show_default=True,
    help="A summary for people, the whole report, or the events as they happen, one a line.",
)
def simulate(
    files: tuple[str, ...],
    config: str | None,
    descheduler_config: str | None,
    until: Moment | None,
    period: Moment,
    output: str,
) -> None:
    """Run a scenario through the scheduler in virtual time.

    A scenario is Kubernetes YAML (files, or - for standard input) that also says when. The very scheduler and
    controllers of the product run on it; hours pass in moments, and equal input gives equal output.
    """
    if descheduler_config is not None:
        raise UserError("--descheduler-config: the descheduler is not supported yet")
    if len([path for path in files if path == "-"]) > 1:
        raise UserError("-: standard input can be read only once")
    from stromboli.scheduling.registry import Registry

    registry = Registry()
    configuration = _configured(registry, config)
    scenario = _checked(files)
    for warning in configuration.warnings:
        click.echo(f"stromboli: warning: {warning}", err=True)
    engine = _engine(scenario, registry, configuration, until, period, streamed=output == "events")
    engine.run()
    if output == "json":
        from stromboli.simulation.report.document import build_report, encode_report

        _write(encode_report(build_report(engine)))
    elif output == "table":
        from stromboli.simulation.report.document import build_report
        from stromboli.simulation.report.table import print_table

        print_table(build_report(engine), engine.journal.jobs)


def _configured(registry: Registry, path: str | None) -> Configuration:
    if path is None:
        return registry.default()
    try:
        text = Path(path).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise UserError(f"{path}: is not text in UTF-8") from None
    return registry.load(text, where=path)


def _checked(files: tuple[str, ...]) -> Scenario:
    from stromboli.simulation.scenario.file import read_scenario
    from stromboli.simulation.scenario.validation import check_scenario

    scenario = read_scenario(files)
    check_scenario(scenario)
    return scenario


def _engine(
    scenario: Scenario,
    registry: Registry,
    configuration: Configuration,
    until: Moment | None,
    period: Moment,
    *,
    streamed: bool,
) -> Engine:
    from stromboli.scheduling.cycle import Scheduler
    from stromboli.simulation.report.document import encode_event
    from stromboli.simulation.report.journal import Event, Journal

    from .engine import Engine

    def stream(event: Event) -> None:
        _write(encode_event(event))

    return Engine(
        scenario,
        Journal(stream if streamed else None),
        make_scheduler=lambda: Scheduler(configuration, registry),
        period=period,
        until=until,
    )


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
