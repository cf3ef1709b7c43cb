"""A check of the ledger against a rebuild from the tasks. For tests, and for diagnosing a suspected error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .holdings import Holding
from .ledger import Ledger
from .model import Job, JobKey, Node, Queue, QueueName, Status, Task
from .node_table import COLUMNS
from .resources import Vector


def validate_ledger(ledger: Ledger, tasks: Iterable[Task], jobs: Sequence[Job], queues: Sequence[Queue]) -> None:
    """Raise AssertionError unless columns and counters equal those rebuilt from the tasks."""
    rebuilt_queues = {
        queue.name: Queue(queue.name, ledger.axis.zeros(), ledger.axis.zeros(), ledger.axis.zeros()) for queue in queues
    }
    rebuilt_jobs = {
        job.key: Job(job.key, job.name, job.namespace, rebuilt_queues[job.queue.name], ledger.axis.zeros())
        for job in jobs
    }
    rebuilt = _without_tasks(ledger, rebuilt_queues)
    for task in tasks:
        rebuilt.enter(_copy_task(task, rebuilt, rebuilt_jobs))
        if task.node is not None:
            assert task.node.tasks.get(task.key) is task, f"{task} is not among the tasks of its node"
    _compare_nodes(ledger, rebuilt)
    for job in jobs:
        _compare_jobs(job, rebuilt_jobs[job.key])
    for queue in queues:
        _compare_queues(queue, rebuilt_queues[queue.name], ledger.axis.zeros())


def _without_tasks(ledger: Ledger, queues: dict[QueueName, Queue]) -> Ledger:
    """With the same nodes, holdings and locks."""
    rebuilt = Ledger(ledger.axis)
    rebuilt.table.lay_out(
        [Node(n.name, n.object, -1, n.labels, n.ready, n.schedulable, n.allocatable) for n in ledger.table.nodes]
    )
    for name, held in ledger.holdings.items():
        node = rebuilt.table.by_name[held.node.name]
        payer = None if held.queue is None else queues[held.queue.name]
        rebuilt.set_holding(name, Holding(node, held.remainder, payer, held.namespace, held.returning))
    for name, locked in ledger.locked.items():
        assert locked.lock is not None, f"node {name} is listed as locked"
        lock = locked.lock
        if lock.owner.name in queues:
            rebuilt.lock(rebuilt.table.by_name[name], queues[lock.owner.name], lock.opens_to)
    return rebuilt


def _compare_nodes(ledger: Ledger, rebuilt: Ledger) -> None:
    for node in ledger.table.nodes:
        listed = set(node.tasks)
        expected_tasks = set(rebuilt.table.by_name[node.name].tasks)
        assert listed == expected_tasks, f"node {node.name} lists the wrong tasks: {sorted(listed ^ expected_tasks)}"
    assert ledger.releasing.keys() == rebuilt.releasing.keys(), "releasing is wrong"
    assert ledger.in_transit == rebuilt.in_transit, "in_transit is wrong"
    for column in ("allocatable", *COLUMNS):
        kept, expected = ledger.table.column(column), rebuilt.table.column(column)
        assert (kept == expected).all(), f"column {column} is wrong at {np.argwhere(kept != expected)}"
    assert (ledger.table.idle == ledger.table.allocatable - ledger.table.used).all()


def _compare_jobs(job: Job, rebuilt: Job) -> None:
    assert job.counts == rebuilt.counts, f"{job}: counts {job.counts} should be {rebuilt.counts}"
    assert (job.allocated == rebuilt.allocated).all(), f"{job}: allocated is wrong"
    assert job.pending_best_effort == rebuilt.pending_best_effort, f"{job}: pending BestEffort is wrong"
    assert job.gated == rebuilt.gated, f"{job}: gated is wrong"
    for role, counts in job.role_counts.items():
        assert counts == rebuilt.role_counts.get(role, [0] * len(Status)), f"{job}: role {role} is wrong"


def _compare_queues(queue: Queue, rebuilt: Queue, nothing: Vector) -> None:
    assert (queue.allocated == rebuilt.allocated).all(), f"{queue}: allocated is wrong"
    assert (queue.wanted == rebuilt.wanted).all(), f"{queue}: wanted is wrong"
    assert (queue.unused == rebuilt.unused).all(), f"{queue}: unused is wrong"
    assert queue.leaving_in.keys() == rebuilt.leaving_in.keys(), f"{queue}: leaving_in is wrong"
    for namespace, amount in queue.leaving_in.items():
        assert (amount == rebuilt.leaving_in[namespace]).all(), f"{queue}: leaving in {namespace} is wrong"
    for namespace, amount in queue.by_namespace.items():
        expected = rebuilt.by_namespace.get(namespace, nothing)
        assert (amount == expected).all(), f"{queue}: namespace {namespace} is wrong"


def _copy_task(task: Task, rebuilt: Ledger, jobs: dict[JobKey, Job]) -> Task:
    node = None if task.node is None else rebuilt.table.by_name[task.node.name]
    return Task(
        key=task.key, name=task.name, namespace=task.namespace, uid=task.uid, pod=task.pod, shape=task.shape,
        job=None if task.job is None else jobs[task.job.key], priority=task.priority, role=task.role,
        index=task.index, created=task.created, preemptable=task.preemptable, may_preempt=task.may_preempt,
        gated=task.gated, backfill=task.backfill, nominated=task.nominated, status=task.status, node=node,
    )  # fmt: skip
