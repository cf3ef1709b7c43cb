"""A descheduler that ends between two of its writes, in a simulation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stromboli.descheduling import Write
from stromboli.descheduling.migration import EvictPod
from stromboli.simulation.descheduler_component import DeschedulerComponent
from stromboli.simulation.engine import Engine
from stromboli.simulation.virtual_time import Microseconds, later, microseconds
from stromboli.simulation.world import World


class Crash:
    """Ends the descheduler after its `after`th write, once, and a new one starts `away` seconds later; counts all
    writes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, after: int | None = None, *, away: float = 0.0,
                 meanwhile: Callable[[World, Microseconds], None] | None = None) -> None:  # fmt: skip
        self.count = 0
        self.evictions: list[int] = []  # which of the writes they are
        self.happened = False
        self._back = Microseconds(0)
        self._meanwhile = meanwhile
        self._engine: Engine | None = None
        carry_out, advance = DeschedulerComponent._carry_out, DeschedulerComponent.advance
        run_controllers = Engine._run_controllers

        def run_controllers_of(engine: Engine, at: Microseconds) -> None:
            self._engine = engine
            run_controllers(engine, at)

        def advance_if_there(component: DeschedulerComponent, at: Microseconds) -> None:
            if at >= self._back:
                advance(component, at)

        def carry_out_until_the_crash(component: DeschedulerComponent, writes: list[Write], at: Microseconds) -> None:
            left = len(writes) if after is None or self.happened else after - self.count
            done = writes[: max(0, left)]
            carry_out(component, done, at)
            self.evictions += [
                number for number, write in enumerate(done, self.count + 1) if isinstance(write, EvictPod)
            ]
            self.count += len(done)
            if writes and left <= len(writes) and after is not None and not self.happened:
                self.happened = True
                self._stop(component, at, away)

        monkeypatch.setattr(DeschedulerComponent, "_carry_out", carry_out_until_the_crash)
        monkeypatch.setattr(DeschedulerComponent, "advance", advance_if_there)
        monkeypatch.setattr(Engine, "_run_controllers", run_controllers_of)

    def _stop(self, component: DeschedulerComponent, at: Microseconds, away: float) -> None:
        if not away:
            component.restart()
            return
        assert self._engine is not None
        self._back = later(at, microseconds(away))
        self._engine._stop("descheduler", at, self._back)
        if self._meanwhile is not None:
            self._meanwhile(self._engine.world, at)
