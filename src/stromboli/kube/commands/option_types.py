"""Options that several processes have, and types of their values."""

from __future__ import annotations

import click

from stromboli.api import ApiError
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.api.validation.topology import parse_topology_keys


class Seconds(click.ParamType[float]):
    name = "duration"

    def __init__(self, *, zero: bool = False) -> None:
        """`zero`: whether 0 is a valid value."""
        self._zero = zero

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            seconds = float(parse_duration(str(value)))
        except QuantityError as error:
            self.fail(f"{error}.", param, ctx)
        if seconds < 0 or (seconds == 0 and not self._zero):
            self.fail("must be longer than 0s.", param, ctx)
        return seconds


class LabelKeys(click.ParamType[tuple[str, ...]]):
    name = "labels"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        try:
            return parse_topology_keys(str(value), "labels")
        except ApiError as error:
            self.fail(f"{error.message}.", param, ctx)


topology_keys_option = click.option(
    "--topology-keys",
    type=LabelKeys(),
    default="",
    metavar="LABELS",
    help="Make HyperNodes of these labels of nodes, from the widest to the narrowest, separated by commas.",
)
