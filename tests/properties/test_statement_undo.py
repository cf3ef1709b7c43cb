"""Do and undo is nothing: a statement that is discarded leaves the cluster, and every plugin, as they were.

Compared is all a session can see of the books, at every length the statement ever had: what a partial discard goes
back to must be exactly what was there when the statement was that long. And to do it all again is the same as before.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import plugin, session
from properties.random_clusters import cases, known
from stromboli.api import KObject
from stromboli.cluster import Cluster, Holding, Status, Task
from stromboli.cluster.node_table import COLUMNS
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.operations.lending import CONDITION, LEND, count_on_lent, lend
from stromboli.scheduling.operations.set_aside import RELEASE, RESERVE, give_up, set_aside
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.reservations.reservation_operations import CONSUME, YIELD, consume, give_way
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import ALLOCATE, EVICT, PIPELINE, Kind, Statement


class EventRecorder(Plugin):
    """Keeps shares the way a plugin would: by what it is told, and nothing else."""

    name = "recorder"

    def __init__(self, arguments: Arguments) -> None:
        self.shares: Counter[str] = Counter()

    def open(self, session: Session) -> None:
        session.add_handlers(allocate=self._more, deallocate=self._less)

    def _more(self, task: Task) -> None:
        self.shares[task.key] += 1

    def _less(self, task: Task) -> None:
        self.shares[task.key] -= 1


def books(cluster: Cluster, recorder: EventRecorder) -> dict[str, Any]:
    """Everything, by name. What is nothing is left out: a counter that came up and went back to 0 is no trace."""
    ledger = cluster.ledger
    amounts = cluster.axis.amounts
    return {
        "columns": {name: ledger.table.column(name).tolist() for name in COLUMNS},
        "on nodes": {node.name: sorted(node.tasks) for node in ledger.table.nodes},
        "tasks": {k: (t.status, t.backfill, t.node and t.node.name, t.nominated) for k, t in cluster.tasks.items()},
        "tentative": sorted(ledger.tentative),
        "nominated": sorted(ledger.nominated),
        "holdings": {name: amounts(held.remainder) for name, held in ledger.holdings.items()},
        "drawn": {name: amounts(drawn) for name, drawn in ledger.drawn.items()},
        "jobs": {
            k: (
                list(job.counts), amounts(job.allocated), job.pending_best_effort, job.gated,
                {role: list(counts) for role, counts in job.role_counts.items() if any(counts)},
                {role: count for role, count in job.role_pending_best_effort.items() if count},
            )
            for k, job in cluster.jobs.items()
        },
        "queues": {
            name: (
                amounts(queue.allocated), amounts(queue.wanted),
                {space: amounts(held) for space, held in queue.by_namespace.items() if held.any()},
            )
            for name, queue in cluster.queues.items()
        },
        "told": {k: share for k, share in recorder.shares.items() if share},
    }  # fmt: skip


WAITS = (Status.PENDING, Status.CONDITIONAL, Status.RESERVED)


def do(what: Kind, statement: Statement, cluster: Cluster, pick: int, at: int) -> None:
    """One operation on some task that is in a state for it; none if there is no such task."""
    wanted = {
        EVICT: (Status.BOUND, Status.RUNNING),
        RELEASE: (Status.RESERVED,),
        LEND: (Status.ALLOCATED,),
        ALLOCATE: WAITS,
    }.get(what, (Status.PENDING,))
    tasks = [t for _, t in sorted(cluster.tasks.items()) if t.status in wanted and (wanted is WAITS or t.job)]
    if not tasks:
        return
    task = tasks[pick % len(tasks)]
    nodes = cluster.ledger.table.nodes
    node = nodes[at % len(nodes)]
    if what is ALLOCATE:
        assert statement.allocate(task, node)
    elif what is PIPELINE:
        assert statement.pipeline(task, node)
    elif what is EVICT:
        statement.evict(task, reason="Preempted", message="for somebody")
    elif what is CONDITION:
        count_on_lent(statement, task, node)
    elif what is RESERVE:
        set_aside(statement, task, node)
    elif what is RELEASE:
        give_up(statement, task)
    elif what is LEND:
        lend(statement, task)
    elif what is YIELD:
        give_way(statement, "r", task, reason="Preempted", message="for somebody")
    else:
        consume(statement, task, "r", cluster.axis.vector({"cpu": at}))
        assert statement.allocate(task, cluster.ledger.holdings["r"].node)


KINDS = [ALLOCATE, PIPELINE, EVICT, CONDITION, LEND, RESERVE, RELEASE, CONSUME, YIELD]
steps = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 30), st.integers(0, 30)), min_size=1, max_size=15)


@settings(max_examples=100)
@given(cases(), steps, st.lists(st.floats(0, 1), max_size=3))
def test_discarding_goes_back_to_what_was(
    objects: list[KObject], story: list[tuple[Kind, int, int]], shares: list[float]
) -> None:
    cluster = known(objects)
    recorder = EventRecorder(Arguments())
    current = session(cluster, tiers=[[plugin(recorder)]])
    first = current.nodes.nodes[0]
    cluster.ledger.set_holding("r", Holding(first, cluster.axis.vector({"cpu": 1000}), current.jobs[0].queue, "ns1"))
    statement = current.statement()
    seen = {0: books(cluster, recorder)}
    for what, pick, at in story:
        do(what, statement, cluster, pick, at)
        seen[len(statement)] = books(cluster, recorder)
        cluster.validate()
    statement.repeat(statement.suspend())
    assert books(cluster, recorder) == seen[len(statement)]
    cluster.validate()
    for share in [*shares, 0.0]:
        length = max(n for n in seen if n <= len(statement) * share)
        statement.discard(down_to=length)
        assert books(cluster, recorder) == seen[length]
        cluster.validate()
    assert not recorder.shares.total()


@settings(max_examples=60)
@given(cases(), st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(0, 5))
def test_a_spared_pod_was_never_evicted(objects: list[KObject], picks: list[int], which: int) -> None:
    cluster = known(objects)
    recorder = EventRecorder(Arguments())
    current = session(cluster, tiers=[[plugin(recorder)]])
    with_all, without_one = current.statement(), current.statement()
    for pick in picks:
        do(EVICT, with_all, cluster, pick, 0)
    evicted = [operation.task for operation in with_all.operations]
    if not evicted:
        return
    lucky = evicted[which % len(evicted)]
    with_all.spare(lucky)
    spared = books(cluster, recorder)
    with_all.discard()
    for task in evicted:
        if task is not lucky:
            without_one.evict(task, reason="Preempted", message="for somebody")
    assert books(cluster, recorder) == spared
