"""The command `stromboli simulate`.

All input is read and validated before anything is printed, so that a pipe gets a complete result or nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stromboli.api import ApiError
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.api.validation.topology import parse_topology_keys
from stromboli.errors import UserError
from stromboli.files import read_text, write_output

from .virtual_time import START, Microseconds, microseconds, to_seconds, wall_clock

if TYPE_CHECKING:
    from stromboli.descheduling import Policy
    from stromboli.scheduling.configuration.configuration_file import Configuration
    from stromboli.scheduling.registry import Registry

    from .engine import Engine
    from .scenario import Scenario
    from .world import World

_EXAMPLES = """\b
Examples:
  stromboli simulate examples/demo.yaml
  stromboli simulate nodes.yaml jobs.yaml --config scheduler.yaml --until 10m
  stromboli simulate jobs.yaml --report report.html
  stromboli simulate jobs.yaml --output json | jq '.pods | map_values(.phase)'
  generate-jobs | stromboli simulate nodes.yaml - --output events

\b
Annotations of a scenario's objects say when things happen:
  sim.stromboli.io/at, until        when the object is created and deleted
  sim.stromboli.io/run, exit-code   how long a pod runs, and how it ends
  sim.stromboli.io/grace            how long an evicted or deleted pod takes to terminate
"""


class _Duration(click.ParamType[Microseconds]):
    name = "duration"

    def __init__(self, *, positive: bool = False) -> None:
        self._positive = positive

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Microseconds:
        try:
            duration = microseconds(parse_duration(str(value)))
        except QuantityError as error:
            self.fail(f"{error}.", param, ctx)
        if self._positive and duration <= 0:
            self.fail("must be longer than 0s.", param, ctx)
        return duration


@click.command(epilog=_EXAMPLES)
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("--config", metavar="FILE", help="The scheduler's configuration. Default: built in.")
@click.option("--descheduler-config", metavar="FILE", help="The descheduler's policy. Default: no descheduler runs.")
@click.option("--keep-nodes", is_flag=True, help="The descheduler marks nodes that no autoscaler may remove.")
@click.option(
    "--until", type=_Duration(), help="Run until this time: 90s, 10m, 1h30m, or a number of seconds such as 120."
)
@click.option(
    "--period",
    type=_Duration(positive=True),
    default="1s",
    show_default=True,
    help="The time between two scheduling cycles.",
)
@click.option("--every-cycle", is_flag=True, hidden=True, help="Run cycles whose outcome is known, too.")
@click.option(
    "--relock-period",
    type=_Duration(positive=True),
    default="5s",
    show_default=True,
    help="The time between two rounds in which better nodes are looked for, for queues that lock nodes.",
)
@click.option("--record", metavar="FILE", help="Write the inputs and decisions of every cycle, for `stromboli replay`.")
@click.option(
    "--reservation-retention",
    type=_Duration(),
    default="24h",
    show_default=True,
    help="The time after which Reservations that have ended are deleted; 0 means never.",
)
@click.option(
    "--topology-keys",
    metavar="LABELS",
    default="",
    help="Make HyperNodes of these labels of nodes, from the widest to the narrowest, separated by commas.",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(["table", "json", "events"]),
    default="table",
    show_default=True,
    help="Tables for people, the whole report, or one line per event.",
)
@click.option(
    "--report",
    "page",
    metavar="FILE",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    help="Also write the report as a page with pictures: one HTML file that any browser opens.",
)
def simulate(
    files: tuple[str, ...],
    config: str | None,
    descheduler_config: str | None,
    keep_nodes: bool,
    until: Microseconds | None,
    period: Microseconds,
    relock_period: Microseconds,
    reservation_retention: Microseconds,
    topology_keys: str,
    every_cycle: bool,
    record: str | None,
    output: str,
    page: Path | None,
) -> None:
    """Run a scenario through the scheduler in virtual time.

    A scenario is Kubernetes YAML (files, or - for standard input) with times. The scheduler and the controllers run on
    it in virtual time: it takes as long as its scheduling cycles need. Equal input gives equal output.
    """
    if len([path for path in files if path == "-"]) > 1:
        raise UserError("-: standard input can be read only once")
    from stromboli.scheduling.registry import Registry

    from .progress_line import ProgressLine, ReadDocuments, simulated
    from .report import build_report

    registry = Registry()
    configuration = _load_configuration(registry, config)
    policy = _load_policy(descheduler_config)
    shows_progress = output != "events" or not sys.stdout.isatty()
    with ProgressLine(sys.stderr, enabled=shows_progress) as progress:
        documents = ReadDocuments()
        progress.show(documents.text)
        scenario = _load_scenario(files, documents.count)
    for warning in (*configuration.warnings, *_policy_warnings(policy, configuration)):
        click.echo(f"stromboli: warning: {warning}", err=True)
    with ProgressLine(sys.stderr, enabled=shows_progress) as progress:
        progress.show(lambda: "preparing")
        engine = _new_engine(
            scenario, registry, configuration, policy, until, period, relock_period,
            every_cycle=every_cycle, stream_events=output == "events",
            reservation_retention=to_seconds(reservation_retention), keep_nodes=keep_nodes,
            topology_keys=_labels(topology_keys),
        )  # fmt: skip
        if record is not None:
            from .cycle_recorder import record_decisions

            record_decisions(engine, configuration, Path(record))
        progress.show(lambda: simulated(engine))
        engine.run()
        progress.show(lambda: "writing the report")
        report = {} if output == "events" and page is None else build_report(engine, configuration.topology_keys)
        if page is not None:
            _write_page(engine, report, files, page, configuration.topology_keys)
    if output == "json":
        from .report import encode_report

        _write(encode_report(report))
    elif output == "table":
        from .report.text_tables import print_table

        codes = {str(group): why.code for group, why in engine.cycle.reasons.items()}
        print_table(report, engine.journal.groups.groups, codes)


def _write_page(
    engine: Engine, report: dict[str, Any], files: tuple[str, ...], path: Path, topology_keys: tuple[str, ...]
) -> None:
    from .report.page_report import page_report

    title = ", ".join("standard input" if name == "-" else Path(name).name for name in files)
    write_output(path, page_report(engine, report, title, topology_keys))


def _labels(text: str) -> tuple[str, ...]:
    try:
        return parse_topology_keys(text, "--topology-keys")
    except ApiError as error:
        raise UserError(str(error)) from None


def _load_configuration(registry: Registry, path: str | None) -> Configuration:
    if path is None:
        return registry.default()
    return registry.load(read_text(path), where=path)


def _load_policy(path: str | None) -> Policy | None:
    if path is None:
        return None
    from stromboli.descheduling import Registry as Plugins

    return Plugins().load(read_text(path), where=path)


def _policy_warnings(policy: Policy | None, configuration: Configuration) -> list[str]:
    if policy is None:
        return []
    from stromboli.descheduling import warnings_about

    return [*policy.warnings, *warnings_about(policy, configuration)]


def _load_scenario(files: tuple[str, ...], on_document: Callable[[str], None]) -> Scenario:
    from .scenario import check_scenario, read_scenario

    scenario = read_scenario(files, on_document)
    check_scenario(scenario)
    return scenario


def _new_engine(
    scenario: Scenario,
    registry: Registry,
    configuration: Configuration,
    policy: Policy | None,
    until: Microseconds | None,
    period: Microseconds,
    relock_period: Microseconds,
    *,
    every_cycle: bool,
    stream_events: bool,
    reservation_retention: float,
    keep_nodes: bool,
    topology_keys: Sequence[str],
) -> Engine:
    from stromboli.controllers import QueueLocks
    from stromboli.descheduling import Descheduler
    from stromboli.descheduling import Registry as Plugins
    from stromboli.descheduling.planning import use_annotation
    from stromboli.scheduling.cycle import Scheduler
    from stromboli.scheduling.queue_locks import lock_rules

    from .engine import Engine
    from .journal import Event, Journal
    from .report import encode_event

    def stream(event: Event) -> None:
        _write(encode_event(event))

    rules = lock_rules(configuration)

    def new_locks() -> QueueLocks:
        return QueueLocks(
            lambda: rules, period=to_seconds(relock_period), origin=wall_clock(START), step=to_seconds(period),
            follows_pods=True,
        )  # fmt: skip

    def new_descheduler(world: World) -> Descheduler:
        assert policy is not None
        return Descheduler(
            lambda: policy, Plugins(), lambda: Scheduler(configuration, registry), real_use=use_annotation,
            everything=world.store.everything, keep_nodes=keep_nodes,
        )  # fmt: skip

    return Engine(
        scenario,
        Journal(stream if stream_events else None),
        new_scheduler=lambda: Scheduler(configuration, registry),
        period=period,
        until=until,
        every_cycle=every_cycle,
        new_locks=new_locks,
        reservation_retention=reservation_retention,
        topology_keys=topology_keys,
        new_descheduler=None if policy is None else new_descheduler,
        measures_nodes=bool(configuration.plugins("usage")),
    )


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
