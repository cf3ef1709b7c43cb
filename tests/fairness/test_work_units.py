"""What queues hold, in units of work, follows what a session tries, undoes and commits."""

from __future__ import annotations

from builders import cluster, group, node, pods, queue, session
from stromboli.cluster import QueueName, Task
from stromboli.scheduling.sharing.packing import Amounts, Unit
from stromboli.scheduling.sharing.work_units import WorkUnits


def cpus(units: dict[Unit, int]) -> dict[tuple[int, tuple[tuple[int, int], ...]], int]:
    """By CPUs of the core, and of the pods beside it with their number."""

    def of(amounts: Amounts) -> int:
        return amounts[0] // 1000

    return {(of(unit.core), tuple((of(one), n) for one, n in unit.extras)): count for unit, count in units.items()}


# A gang of two with a third pod of 1 CPU each, and two pods of 3 CPUs of which one would be enough: these are units of
# their own, as those of a gang that has lost its minimum.
def test_a_plan_of_evictions_step_by_step() -> None:
    known = cluster(
        node("n1", cpu=20),
        queue("q"),
        group("gang", queue="q", min_member=2),
        pods("gang", 3, group="gang", cpu=1, node="n1"),
        group("single", queue="q", min_member=1),
        pods("single", 2, group="single", cpu=3, node="n1"),
    )
    current = session(known)
    own, units, statement = current.queues[QueueName("q")], WorkUnits(current), current.statement()

    def evict(name: str) -> None:
        statement.evict(task(name), reason="Reclaimed", message="")

    def task(name: str) -> Task:
        return next(task for task in known.tasks.values() if task.name == name)

    whole, singles = {(2, ((1, 1),)): 1}, {(3, ()): 2}
    assert cpus(units.now(own)) == cpus(units.before(own)) == {**whole, **singles}
    assert (units.losers(), units.evicted_amount(own)) == ([], [])
    for name, rest, lost in (
        ("gang-2", {(2, ()): 1, **singles}, 1),
        ("gang-1", {(1, ()): 1, **singles}, 2),
        ("single-0", {(1, ()): 1, (3, ()): 1}, 5),
    ):
        evict(name)
        assert cpus(units.now(own)) == rest
        assert cpus(units.before(own)) == {**whole, **singles}
        assert units.losers() == [own]
        assert units.evicted_amount(own)[0] == lost * 1000
    statement.spare(task("gang-1"))
    assert cpus(units.now(own)) == {(2, ()): 1, (3, ()): 1}
    statement.discard()
    assert cpus(units.now(own)) == cpus(units.before(own)) == {**whole, **singles}
    assert (units.losers(), units.evicted_amount(own)) == ([], [])
    # What is committed is gone, and no plan has to answer for it.
    evict("gang-2")
    statement.commit()
    evict("single-0")
    assert cpus(units.before(own)) == {(2, ()): 1, **singles}
    assert cpus(units.now(own)) == {(2, ()): 1, (3, ()): 1}
    assert units.evicted_amount(own)[0] == 3000
