"""Where commands read the cluster from: an API server, or a scenario at some time.

A scenario needs no cluster, and gives the same answer every time. So whoever writes a policy can ask every question of
the command line about it first, and so do the tests and the examples of the documents.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from stromboli.api import names
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.errors import UserError
from stromboli.files import read_text

if TYPE_CHECKING:
    from stromboli.insight import State
    from stromboli.kube.client import Client
    from stromboli.scheduling.configuration import Configuration
    from stromboli.scheduling.cycle import Scheduler
    from stromboli.scheduling.registry import Registry

T = TypeVar("T")


class Duration(click.ParamType[float]):
    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            return parse_duration(str(value))
        except QuantityError as error:
            self.fail(f"{error}.", param, ctx)


@dataclass(slots=True)
class Source:
    """What the options say. Modules that need numbers are imported when something is read."""

    kubeconfig: Path | None = None
    context: str | None = None
    scheduler_name: str = names.DEFAULT_SCHEDULER
    config: Path | None = None
    scenario: tuple[str, ...] = ()
    at: float = 0.0
    _scheduling: tuple[Registry, Configuration] | None = field(default=None, init=False)
    _published: str | None = field(default=None, init=False)  # the configuration that the cluster has

    @property
    def is_live(self) -> bool:
        return not self.scenario

    def scheduling(self) -> tuple[Registry, Configuration]:
        """The plugins and the configuration of the scheduler."""
        if self._scheduling is None:
            from stromboli.scheduling.registry import Registry

            registry = Registry()
            if self.config is not None:
                self._scheduling = registry, registry.load(read_text(self.config), where=str(self.config))
            elif self._published is not None:
                self._scheduling = registry, registry.load(self._published, where=self.configuration)
            else:
                self._scheduling = registry, registry.default()
        return self._scheduling

    @property
    def configuration(self) -> str:
        """What the scheduler on the copy decides with, once something was read."""
        if self.config is not None:
            return str(self.config)
        if self._published is not None:
            from stromboli.kube.runtime.published_configuration import WHERE

            return WHERE
        return "the built-in configuration"

    @property
    def options(self) -> str:
        """To look at the same again, after the name of a command."""
        if self.is_live:
            return ""
        from stromboli.api.quantity import format_duration

        return "".join(f" --scenario {file}" for file in self.scenario) + f" --at {format_duration(self.at)}"

    @property
    def hints(self) -> list[str]:
        """Nobody can tell which configuration another process has read."""
        if not self.is_live or self.config is not None:
            return []
        other = "" if self._published is not None else "; if the scheduler has another one, give it with --config"
        return [f"Decided with {self.configuration}{other}"]

    def scheduler(self) -> Scheduler:
        from stromboli.scheduling.cycle import Scheduler

        registry, configuration = self.scheduling()
        return Scheduler(configuration, registry)

    @property
    def namespace(self) -> str:
        """Of names without one: that of the context, as for kubectl."""
        if not self.is_live:
            return names.DEFAULT_NAMESPACE
        from stromboli.kube.commands.cluster_state import client_config

        return client_config(self.kubeconfig, self.context).namespace

    @property
    def namespace_of_manifests(self) -> str:
        """The same. Manifests are checked before anything else, and a dry run needs no cluster at all."""
        try:
            return self.namespace
        except UserError:
            if self.kubeconfig is not None or self.context is not None:
                raise
            return names.DEFAULT_NAMESPACE

    def read_namespace(self, namespace: str) -> State:
        """For users who may not read the whole cluster: what can be told without it."""
        from stromboli.kube.commands.cluster_state import read_namespace

        return self.with_client(lambda client: read_namespace(client, namespace, self.scheduler_name))

    def read(self) -> State:
        if self.is_live:
            return self.with_client(self._read_cluster)

        from stromboli.insight import State
        from stromboli.simulation.rehearsal import scenario_at

        objects, now, refused = scenario_at(self.scenario, self.at, *self.scheduling())
        return State(objects, now, refused=refused)

    def submitted_at(self, name: str) -> str:
        """When a scenario creates a job that is not there yet, as a duration; "" if it does not."""
        if self.is_live:
            return ""
        from stromboli.api.quantity import format_duration
        from stromboli.simulation.rehearsal import creation_times

        later = [at for at in creation_times(self.scenario, name) if at > self.at]
        return format_duration(min(later)) if later else ""

    async def _read_cluster(self, client: Client) -> State:
        from stromboli.kube.commands.cluster_state import read_state
        from stromboli.kube.runtime.published_configuration import published_configuration

        published = await published_configuration(client)
        state = await read_state(client, self.scheduler_name)
        if published != self._published:
            self._published, self._scheduling = published, None
        return state

    def with_client(self, work: Callable[[Client], Awaitable[T]]) -> T:
        """Run something against the API server; failures become errors for the user."""
        from stromboli.kube.client import Client, Failure
        from stromboli.kube.commands.cluster_state import client_config, cluster_error

        config = client_config(self.kubeconfig, self.context)

        async def run() -> T:
            async with Client(config) as client:
                return await work(client)

        try:
            return asyncio.run(run())
        except Failure as failure:
            raise cluster_error(config, failure) from None


_CLUSTER_OPTIONS = (
    click.option(
        "--kubeconfig",
        metavar="FILE",
        type=click.Path(dir_okay=False, path_type=Path),
        help="Kubeconfig file; by default $KUBECONFIG or ~/.kube/config.",
    ),
    click.option("--context", metavar="NAME", help="Context of the kubeconfig; by default its current context."),
)
_STATE_OPTIONS = (
    click.option(
        "--scheduler-name", default=names.DEFAULT_SCHEDULER, show_default=True, help="The schedulerName of the pods."
    ),
    click.option(
        "--config",
        metavar="FILE",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="The configuration that the scheduler runs with; by default that of the cluster, or the built-in one.",
    ),
    click.option(
        "--scenario", metavar="FILE", multiple=True, help="Look at a simulated scenario instead of a cluster."
    ),
    click.option("--at", type=Duration(), help="With --scenario: the time to look at; by default its start."),
)


def cluster_options(function: Callable[..., None]) -> Callable[..., None]:
    """For commands that write to a cluster. The function gets a `source`."""

    @wraps(function)
    def call(kubeconfig: Path | None, context: str | None, **others: Any) -> None:
        function(source=Source(kubeconfig, context), **others)

    return _decorated(call, _CLUSTER_OPTIONS)


def state_options(function: Callable[..., None]) -> Callable[..., None]:
    """For commands that read. The function gets a `source`."""

    @wraps(function)
    def call(
        kubeconfig: Path | None, context: str | None, scheduler_name: str, config: Path | None,
        scenario: tuple[str, ...], at: float | None, **others: Any,
    ) -> None:  # fmt: skip
        if scenario and (kubeconfig or context):
            raise UserError("--scenario looks at no cluster; leave out --kubeconfig and --context.")
        if at is not None and not scenario:
            raise UserError("--at needs --scenario: a cluster can only be looked at as it is now.")
        function(source=Source(kubeconfig, context, scheduler_name, config, scenario, at or 0.0), **others)

    return _decorated(call, (*_CLUSTER_OPTIONS, *_STATE_OPTIONS))


def _decorated(call: Callable[..., None], options: tuple[Callable[..., Any], ...]) -> Callable[..., None]:
    for option in reversed(options):
        call = option(call)
    return call
