"""The commands that run on a real cluster: `stromboli scheduler`, `stromboli controllers` and `stromboli run`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stromboli.api import names
from stromboli.api.quantity import QuantityError, parse_duration

if TYPE_CHECKING:
    from stromboli.kube.runtime.process import Options, Part, Surroundings


class _Seconds(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(parse_duration(str(value)))
        except QuantityError as error:
            self.fail(f"{error}.", param, ctx)
        if seconds <= 0:
            self.fail("must be longer than 0s.", param, ctx)
        return seconds


def _common(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options that every process has."""
    options = [
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False, path_type=Path),
            help="How to reach the cluster; unless given, a pod's service account, $KUBECONFIG, or ~/.kube/config.",
        ),
        click.option("--context", help="Which context of the kubeconfig; its current one if not given."),
        click.option(
            "--scheduler-name",
            default=names.DEFAULT_SCHEDULER,
            show_default=True,
            help="Which pods are ours: those with this spec.schedulerName.",
        ),
        click.option(
            "--leader-elect/--no-leader-elect",
            default=True,
            show_default=True,
            help="Whether replicas agree on one that acts. Without, there must never be two.",
        ),
        click.option(
            "--lease-namespace",
            default="",
            help="Where the lease is kept; the namespace of the pod, or of the context, if not given.",
        ),
        click.option(
            "--lease-duration",
            type=_Seconds(),
            default="15s",
            show_default=True,
            help="After this long without a sign of life a standby takes over.",
        ),
        click.option("--probe-host", default="127.0.0.1", show_default=True, help="Where probes are answered."),
        click.option(
            "--probe-port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="/healthz, /readyz and /metrics; 0 takes any free port.",
        ),
        click.option(
            "--qps",
            type=click.FloatRange(0, min_open=True),
            default=2000.0,
            show_default=True,
            help="Writes a second, for each kind of write.",
        ),
        click.option("--burst", type=click.IntRange(1), default=2000, show_default=True, help="Writes at once."),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="How much is logged.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Lines for people, or JSON objects for programs.",
        ),
    ]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _scheduling(function: Callable[..., None]) -> Callable[..., None]:
    """The options of a process that schedules."""
    config = click.option(
        "--config",
        type=click.Path(dir_okay=False, path_type=Path),
        help="The scheduler's configuration; read again when it changes. A built-in one if not given.",
    )
    period = click.option(
        "--period", type=_Seconds(), default="1s", show_default=True, help="Longest time between two cycles."
    )
    return config(period(function))


@click.command(
    epilog="""\b
Examples:
  stromboli scheduler --kubeconfig ~/.kube/config --no-leader-elect
  stromboli scheduler --config scheduler.yaml --scheduler-name stromboli
  curl 'http://127.0.0.1:8080/readyz?verbose'
"""
)
@_scheduling
@_common(8080)
def scheduler(config: Path | None, period: float, **common: Any) -> None:
    """Schedule the pods of a cluster.

    Runs until SIGTERM or SIGINT, and then finishes the binds that are under way. Needs the resource definitions of
    deploy/crds, and `stromboli controllers` beside it for Jobs, queue states and pods without a group.
    """
    from stromboli.kube.runtime.process import run_process

    def parts(around: Surroundings) -> list[Part]:
        return [_scheduler_part(around, config, period)]

    run_process("stromboli-scheduler", _options(common), parts)


@click.command(
    epilog="""\b
Examples:
  stromboli controllers --kubeconfig ~/.kube/config --no-leader-elect
  curl 'http://127.0.0.1:8081/readyz?verbose'
"""
)
@_common(8081)
def controllers(**common: Any) -> None:
    """Keep Jobs, queues and groups of pods true.

    Runs until SIGTERM or SIGINT. Needs the resource definitions of deploy/crds.
    """
    from stromboli.kube.runtime.process import run_process

    run_process("stromboli-controllers", _options(common), lambda around: [_controllers_part(around)])


@click.command(
    epilog="""\b
Examples:
  stromboli run --kubeconfig ~/.kube/config --no-leader-elect
  stromboli run --config scheduler.yaml --probe-port 8090
  curl 'http://127.0.0.1:8080/readyz?verbose'
"""
)
@_scheduling
@_common(8080)
def run(config: Path | None, period: float, **common: Any) -> None:
    """Run the scheduler and the controllers in one process.

    Runs until SIGTERM or SIGINT. Needs the resource definitions: kubectl apply -k deploy/crds. For a cluster to try it
    on, without machines, start `stromboli hollow-nodes` beside it.
    """
    from stromboli.kube.runtime.process import run_process

    def parts(around: Surroundings) -> list[Part]:
        return [_controllers_part(around), _scheduler_part(around, config, period)]

    run_process("stromboli", _options(common), parts)


def _options(common: dict[str, Any]) -> Options:
    from stromboli.kube.runtime.process import Options

    return Options(**common)


def _scheduler_part(around: Surroundings, config: Path | None, period: float) -> Part:
    from stromboli.kube.runtime.config_reload import ConfigurationFile
    from stromboli.kube.runtime.metrics import SchedulerMetrics
    from stromboli.kube.scheduler.process import SchedulerProcess
    from stromboli.scheduling.cycle import Scheduler
    from stromboli.scheduling.registry import Registry
    from stromboli.scheduling.warm_up import warm_up

    registry = Registry()
    configuration = ConfigurationFile(
        config,
        lambda text, where: Scheduler(registry.load(text, where=where), registry),
        built_in=lambda: Scheduler(registry.default(), registry),
    )
    warm_up(configuration.current)
    return SchedulerProcess(
        around.client,
        configuration=configuration,
        leadership=around.leadership,
        scheduler_name=around.options.scheduler_name,
        itself=around.itself,
        period=period,
        # What a lease outlives its fence by; see running.py.
        patience=around.options.lease_duration / 3,
        bucket=around.bucket,
        metrics=SchedulerMetrics(around.metrics),
    )


def _controllers_part(around: Surroundings) -> Part:
    from stromboli.kube.controllers.process import ControllersProcess
    from stromboli.kube.runtime.metrics import ControllerMetrics

    return ControllersProcess(
        around.client,
        leadership=around.leadership,
        scheduler_name=around.options.scheduler_name,
        bucket=around.bucket,
        metrics=ControllerMetrics(around.metrics),
    )
