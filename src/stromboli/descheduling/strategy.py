"""The base classes of plugins that make plans.

    Deschedule   which pods are in a wrong place?    deschedule
    Balance      how should pods be distributed?     balance

A plugin makes plans through the `Run` it is given. It evicts nothing itself.
"""

from __future__ import annotations

from typing import ClassVar

from .plugin import Guard, Plugin
from .run import Run


class DeschedulePlugin(Plugin):
    def deschedule(self, run: Run) -> None:
        raise NotImplementedError


class BalancePlugin(Plugin):
    makes_room: ClassVar[bool] = False  # for a job that is named; a run for one asks only plugins that do

    def balance(self, run: Run) -> None:
        raise NotImplementedError

    def guard(self, run: Run) -> Guard | None:
        """What other plugins must not do, because this one would undo it."""
        return None
