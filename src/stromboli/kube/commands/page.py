"""The options of a command that serves the page, and the part of its process that does."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from stromboli.kube.client import Client
    from stromboli.kube.page_server import PageComponent, PageOptions, WhatIf
    from stromboli.kube.runtime import Component, ProcessContext, ProcessMetrics


def page_options(function: Callable[..., None]) -> Callable[..., None]:
    options = [
        click.option("--web-host", default="127.0.0.1", show_default=True, help="Address of the page. It has no TLS."),
        click.option(
            "--web-port", default=0, type=click.IntRange(0, 65535), help="Port of the page; by default any free port."
        ),
        click.option(
            "--web-name",
            "web_names",
            multiple=True,
            metavar="NAME",
            help="A name under which a proxy serves the page; may be repeated.",
        ),
        click.option("--web-write", is_flag=True, help="Let the page suspend, resume and cancel Jobs."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


def page_of_process(
    context: ProcessContext, config: Path | None, token_file: Path | None, host: str, port: int, may_write: bool,
    names: tuple[str, ...] = (), what_if: WhatIf | None = None,
) -> Component:  # fmt: skip
    """The page of `stromboli run`. Its address is printed once it is served."""
    from stromboli.kube.page_server import PageOptions

    options = PageOptions(token=_token(token_file), host=host, port=port, may_write=may_write, names=names)
    shown = options.token if token_file is None else "…"

    def announce(url: str) -> None:
        click.echo(f"The page: {url}#token={shown}")

    return page_component(
        context.client, options, config, context.options.scheduler_name, announce, what_if, context.metrics
    )


def page_component(
    client: Client, options: PageOptions, config: Path | None, scheduler_name: str, announce: Callable[[str], None],
    what_if: WhatIf | None, metrics: ProcessMetrics,
) -> PageComponent:  # fmt: skip
    from stromboli.kube.page_server import PageComponent
    from stromboli.kube.runtime import ConfigurationFile
    from stromboli.scheduling.cycle import Scheduler
    from stromboli.scheduling.registry import Registry

    registry = Registry()
    configuration = ConfigurationFile(
        config,
        lambda text, where: Scheduler(registry.load(text, where=where), registry),
        built_in=lambda: Scheduler(registry.default(), registry),
    )
    return PageComponent(
        client, options, title=client.config.server, scheduler_name=scheduler_name, configuration=configuration,
        announce=announce, what_if=what_if, metrics=metrics,
    )  # fmt: skip


def _token(path: Path | None) -> str:
    if path is None:
        return secrets.token_urlsafe(32)
    from stromboli.listeners import read_token

    return read_token(path)
