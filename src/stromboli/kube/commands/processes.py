"""The commands `stromboli scheduler`, `stromboli controllers` and `stromboli run`."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from stromboli.api import names
from stromboli.api.validation.limits import MAX_JOB_REPLICAS

from .option_types import Seconds, topology_keys_option
from .page import page_of_process, page_options

if TYPE_CHECKING:
    from stromboli.kube.runtime import Component, ProcessContext, ProcessOptions
    from stromboli.kube.scheduler.cycle_runner import RecordError
    from stromboli.kube.scheduler.recorder import ErrorRecordings


def common_options(port: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Options that every process has."""
    options = [
        click.option(
            "--kubeconfig",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Kubeconfig file; by default the service account of the pod, $KUBECONFIG, or ~/.kube/config.",
        ),
        click.option("--context", help="Context of the kubeconfig; by default its current context."),
        click.option(
            "--scheduler-name",
            default=names.DEFAULT_SCHEDULER,
            show_default=True,
            help="Schedule the pods with this spec.schedulerName.",
        ),
        click.option(
            "--leader-elect/--no-leader-elect",
            default=True,
            show_default=True,
            help="Elect a leader among replicas. Without election only one replica may run.",
        ),
        click.option(
            "--lease-namespace",
            default="stromboli-system",
            show_default=True,
            help="Namespace of the leases. All processes that share a scheduler name must use the same.",
        ),
        click.option(
            "--lease-duration",
            type=Seconds(),
            default="15s",
            show_default=True,
            help="A standby takes over when the leader has not renewed the lease for this long.",
        ),
        click.option("--probe-host", default="127.0.0.1", show_default=True, help="Address for probes and metrics."),
        click.option(
            "--probe-port",
            type=click.IntRange(0, 65535),
            default=port,
            show_default=True,
            help="Port for /healthz, /readyz and /metrics; 0 means any free port.",
        ),
        click.option(
            "--token-file",
            type=click.Path(dir_okay=False, path_type=Path),
            help="A file with the token for /metrics and, with a descheduler, for `stromboli defrag`.",
        ),
        click.option(
            "--metrics-without-token",
            is_flag=True,
            help="Serve /metrics to everybody who can connect: where a network policy says who that is.",
        ),
        click.option(
            "--qps",
            type=click.FloatRange(0, min_open=True),
            default=2000.0,
            show_default=True,
            help="Writes per second, for each kind of write.",
        ),
        click.option("--burst", type=click.IntRange(1), default=2000, show_default=True, help="Writes at once."),
        click.option(
            "--log-level",
            type=click.Choice(["debug", "info", "warning", "error"]),
            default="info",
            show_default=True,
            help="Lowest level that is logged.",
        ),
        click.option(
            "--log-format",
            type=click.Choice(["text", "json"]),
            default="text",
            show_default=True,
            help="Log lines as text or as JSON objects.",
        ),
    ]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


config_option = click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Scheduler configuration file, reloaded when it changes; by default a built-in configuration.",
)


def _scheduling_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options of a process that runs the scheduler."""
    period = click.option(
        "--period", type=Seconds(), default="1s", show_default=True, help="Longest time between two cycles."
    )
    record = click.option(
        "--record",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Append the inputs and decisions of every cycle to this file, for `stromboli replay`.",
    )
    return period(record(containment_options(function)))


def containment_options(function: Callable[..., None]) -> Callable[..., None]:
    """What the scheduler does about cycles that take too long or have errors; `stromboli up` has these, too."""
    budget = click.option(
        "--cycle-budget",
        type=Seconds(zero=True),
        default="10s",
        show_default=True,
        help="Cut a cycle that takes longer, between two jobs; the next one begins with the jobs that had no turn. "
        "0 means no limit.",
    )
    errors = click.option(
        "--error-recordings",
        metavar="FOLDER",
        type=click.Path(file_okay=False, path_type=Path),
        help="Folder for recordings of cycles in which an error was contained; by default a new one in the "
        "folder for temporary files.",
    )
    return budget(errors(function))


def _controller_options(function: Callable[..., None]) -> Callable[..., None]:
    """Options of a process that runs the controllers."""
    relock = click.option(
        "--relock-period",
        type=Seconds(),
        default="5s",
        show_default=True,
        help="Time between two rounds in which better nodes are looked for, for queues that lock nodes.",
    )
    replicas = click.option(
        "--max-job-replicas",
        type=click.IntRange(1),
        default=MAX_JOB_REPLICAS,
        show_default=True,
        help="Reject Jobs with more pods than this.",
    )
    retention = click.option(
        "--reservation-retention",
        type=Seconds(zero=True),
        default="24h",
        show_default=True,
        help="Time after which Reservations that have ended are deleted; 0 means never.",
    )
    return topology_keys_option(retention(relock(replicas(function))))


@click.command(
    epilog="""\b
Examples:
  stromboli scheduler --kubeconfig ~/.kube/config --no-leader-elect
  stromboli scheduler --config scheduler.yaml --scheduler-name stromboli
  stromboli scheduler --record decisions.jsonl
  curl 'http://127.0.0.1:8080/readyz?verbose'
"""
)
@config_option
@_scheduling_options
@common_options(8080)
def scheduler(
    config: Path | None,
    period: float,
    cycle_budget: float,
    record: Path | None,
    error_recordings: Path | None,
    **common: Any,
) -> None:
    """Schedule the pods of a cluster.

    Runs until SIGTERM or SIGINT, and then finishes the binds in flight. Needs the resource definitions of
    deploy/crds, and `stromboli controllers` beside it for Jobs, queue states and pods without a group.
    """

    def components(context: ProcessContext) -> list[Component]:
        return [scheduler_component(context, config, period, record, cycle_budget, error_recordings)]

    _run_process("stromboli-scheduler", common, components)


@click.command(
    epilog="""\b
Examples:
  stromboli controllers --kubeconfig ~/.kube/config --no-leader-elect
  curl 'http://127.0.0.1:8081/readyz?verbose'
"""
)
@config_option
@_controller_options
@common_options(8081)
def controllers(
    config: Path | None,
    max_job_replicas: int,
    relock_period: float,
    reservation_retention: float,
    topology_keys: tuple[str, ...],
    **common: Any,
) -> None:
    """Reconcile Jobs, queues and groups of pods, and lock nodes for queues.

    Runs until SIGTERM or SIGINT. Needs the resource definitions of deploy/crds. Give it the same --config as the
    scheduler: it says whether nodes are locked for queues, and how many.
    """

    def components(context: ProcessContext) -> list[Component]:
        return [
            controllers_component(
                context, config, max_job_replicas, relock_period, reservation_retention, topology_keys
            )
        ]

    _run_process("stromboli-controllers", common, components)


@click.command(
    epilog="""\b
Examples:
  stromboli run --kubeconfig ~/.kube/config --no-leader-elect
  stromboli run --config scheduler.yaml --probe-port 8090
  stromboli run --web --web-port 8090
  curl 'http://127.0.0.1:8080/readyz?verbose'
"""
)
@config_option
@click.option(
    "--descheduler-config",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The descheduler's policy; without it no descheduler runs.",
)
@_scheduling_options
@_controller_options
@click.option("--web", is_flag=True, help="Serve a page that shows the cluster, live.")
@page_options
@click.option(
    "--web-token-file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="The token that a browser must send; by default one is made up and printed with the address of the page.",
)
@common_options(8080)
def run(
    config: Path | None,
    descheduler_config: Path | None,
    period: float,
    cycle_budget: float,
    record: Path | None,
    error_recordings: Path | None,
    max_job_replicas: int,
    relock_period: float,
    reservation_retention: float,
    topology_keys: tuple[str, ...],
    web: bool,
    web_host: str,
    web_port: int,
    web_names: tuple[str, ...],
    web_write: bool,
    web_token_file: Path | None,
    **common: Any,
) -> None:
    """Run the scheduler and the controllers in one process, and the descheduler if it has a policy.

    Runs until SIGTERM or SIGINT. Needs the resource definitions: kubectl apply -k deploy/crds. To try it
    without machines, run `stromboli hollow-nodes` as well.
    """
    # The command line gives its commands somebody who tries things on copies of a cluster.
    new_what_if = click.get_current_context().obj
    what_if = new_what_if() if web and new_what_if is not None else None

    def components(context: ProcessContext) -> list[Component]:
        components = [
            controllers_component(
                context, config, max_job_replicas, relock_period, reservation_retention, topology_keys
            ),
            scheduler_component(context, config, period, record, cycle_budget, error_recordings),
        ]
        if descheduler_config is not None:
            from .descheduler import descheduler_component

            components.append(descheduler_component(context, config, descheduler_config))
        if web:
            components.append(
                page_of_process(context, config, web_token_file, web_host, web_port, web_write, web_names, what_if)
            )
        return components

    _run_process("stromboli", common, components)


def _run_process(name: str, common: dict[str, Any], components: Callable[[ProcessContext], list[Component]]) -> None:
    gc.disable()  # almost nothing that an import creates is garbage
    try:
        from stromboli.kube.runtime import run_process
    finally:
        gc.enable()
    run_process(name, process_options(common), components)


def process_options(common: dict[str, Any]) -> ProcessOptions:
    from stromboli.kube.runtime import ProcessOptions

    return ProcessOptions(**common)


def scheduler_component(
    context: ProcessContext,
    config: Path | None,
    period: float,
    record: Path | None = None,
    cycle_budget: float = 10.0,
    error_recordings: Path | None = None,
) -> Component:
    import asyncio

    from stromboli.kube.runtime import ConfigurationFile
    from stromboli.kube.scheduler import SchedulerComponent, SchedulerMetrics
    from stromboli.scheduling.cycle import Scheduler
    from stromboli.scheduling.registry import Registry
    from stromboli.scheduling.warm_up import load_kernels, warm_up

    recorder = None
    if record is not None:
        from stromboli.kube.scheduler.recorder import Recorder

        recorder = Recorder(record, context.options.scheduler_name)
    registry = Registry()
    configuration = ConfigurationFile(
        config,
        lambda text, where: Scheduler(registry.load(text, where=where), registry),
        built_in=lambda: Scheduler(registry.default(), registry),
    )
    return SchedulerComponent(
        context.client,
        configuration=configuration,
        leadership=context.leadership("scheduler"),
        scheduler_name=context.options.scheduler_name,
        process_ref=context.lease_ref("scheduler"),
        period=period,
        request_timeout=context.request_timeout,
        bucket=context.bucket,
        metrics=SchedulerMetrics(context.metrics, clock=context.wall_clock, stopwatch=asyncio.get_running_loop().time),
        recorder=recorder,
        record_error=_error_recorder(error_recordings, context.options.scheduler_name),
        cycle_budget=cycle_budget or None,
        warm_up=lambda: warm_up(configuration.current),
        load_kernels=lambda: load_kernels(configuration.current),
        clock=context.wall_clock,
        processor_time=context.processor_time,
    )


def _error_recorder(folder: Path | None, scheduler_name: str) -> RecordError:
    """Imports what it needs when the first error happens."""
    recordings: list[ErrorRecordings] = []

    def record(*arguments: Any) -> str:
        if not recordings:
            from stromboli.kube.scheduler.recorder import ErrorRecordings

            recordings.append(ErrorRecordings(folder, scheduler_name))
        return recordings[0].write(*arguments)

    return record


def controllers_component(
    context: ProcessContext,
    config: Path | None,
    max_job_replicas: int,
    relock_period: float,
    reservation_retention: float = 86_400.0,
    topology_keys: Sequence[str] = (),
) -> Component:
    from stromboli.kube.controllers import ControllerMetrics, ControllersComponent
    from stromboli.kube.runtime import ConfigurationFile
    from stromboli.scheduling.queue_locks import LockRules, lock_rules
    from stromboli.scheduling.registry import Registry

    registry = Registry()

    def load(text: str, where: str) -> LockRules | None:
        return lock_rules(registry.load(text, where=where))

    def built_in() -> LockRules | None:
        return lock_rules(registry.default())

    return ControllersComponent(
        context.client,
        leadership=context.leadership("controllers"),
        scheduler_name=context.options.scheduler_name,
        bucket=context.bucket,
        metrics=ControllerMetrics(context.metrics),
        max_job_replicas=max_job_replicas,
        lock_rules=ConfigurationFile(config, load, built_in=built_in),
        relock_period=relock_period,
        reservation_retention=reservation_retention,
        topology_keys=topology_keys,
        request_timeout=context.request_timeout,
        clock=context.wall_clock,
        processor_time=context.processor_time,
    )
