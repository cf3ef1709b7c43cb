"""What pods that were bound took from Reservations is taken for good: the next session need not restore it."""

from __future__ import annotations

from stromboli.console.bench_case import Case
from stromboli.scheduling.cycle import Scheduler, close_session
from stromboli.scheduling.decisions import Bind
from stromboli.scheduling.registry import Registry


def test_a_bound_pod_leaves_nothing_to_restore() -> None:
    registry = Registry()
    scheduler = Scheduler(registry.default(), registry)
    cluster = Case(4, 8, 1, [1], 1, "nodeorder", None, used_reservations=2).cluster()
    session = scheduler.open(cluster.snapshot(), 0.0)
    scheduler.act(session)
    made = close_session(session).decisions
    assert sum(isinstance(one, Bind) and bool(one.reservation) for one in made) == 2
    assert session.ledger.drawn == {}
