"""A check of the ledger against a rebuild from the tasks. For tests, and for diagnosing a suspected error."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from .holdings import Holding
from .ledger import Ledger
from .model import Job, JobKey, Node, Queue, Status, Task
from .node_table import COLUMNS


def validate_ledger(ledger: Ledger, tasks: Iterable[Task], jobs: Sequence[Job], queues: Sequence[Queue]) -> None:
    """Raise AssertionError unless columns and counters equal those rebuilt from the tasks."""
    rebuilt = Ledger(ledger.axis)
    rebuilt.table.lay_out(
        [Node(n.name, n.object, -1, n.labels, n.ready, n.schedulable, n.allocatable) for n in ledger.table.nodes]
    )
    rebuilt_queues = {
        queue.name: Queue(queue.name, ledger.axis.zeros(), ledger.axis.zeros(), ledger.axis.zeros()) for queue in queues
    }
    rebuilt_jobs = {
        job.key: Job(job.key, job.name, job.namespace, rebuilt_queues[job.queue.name], ledger.axis.zeros())
        for job in jobs
    }
    for name, held in ledger.holdings.items():
        node = rebuilt.table.by_name[held.node.name]
        payer = None if held.queue is None else rebuilt_queues[held.queue.name]
        rebuilt.set_holding(name, Holding(node, held.remainder, payer, held.namespace, held.returning))
    for name, locked in ledger.locked.items():
        assert locked.lock is not None, f"node {name} is listed as locked"
        lock = locked.lock
        if lock.owner.name in rebuilt_queues:
            rebuilt.lock(rebuilt.table.by_name[name], rebuilt_queues[lock.owner.name], lock.opens_to)
    for task in tasks:
        copy = _copy_task(task, rebuilt, rebuilt_jobs)
        rebuilt.enter(copy)
        if task.node is not None:
            assert task.node.tasks.get(task.key) is task, f"{task} is not among the tasks of its node"
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
    for job in jobs:
        other_job = rebuilt_jobs[job.key]
        assert job.counts == other_job.counts, f"{job}: counts {job.counts} should be {other_job.counts}"
        assert (job.allocated == other_job.allocated).all(), f"{job}: allocated is wrong"
        assert job.pending_best_effort == other_job.pending_best_effort, f"{job}: pending BestEffort is wrong"
        assert job.gated == other_job.gated, f"{job}: gated is wrong"
        for role, counts in job.role_counts.items():
            assert counts == other_job.role_counts.get(role, [0] * len(Status)), f"{job}: role {role} is wrong"
    for queue in queues:
        other_queue = rebuilt_queues[queue.name]
        assert (queue.allocated == other_queue.allocated).all(), f"{queue}: allocated is wrong"
        assert (queue.wanted == other_queue.wanted).all(), f"{queue}: wanted is wrong"
        assert (queue.unused == other_queue.unused).all(), f"{queue}: unused is wrong"
        assert queue.leaving_in.keys() == other_queue.leaving_in.keys(), f"{queue}: leaving_in is wrong"
        for namespace, amount in queue.leaving_in.items():
            assert (amount == other_queue.leaving_in[namespace]).all(), f"{queue}: leaving in {namespace} is wrong"
        for namespace, amount in queue.by_namespace.items():
            expected_amount = other_queue.by_namespace.get(namespace, ledger.axis.zeros())
            assert (amount == expected_amount).all(), f"{queue}: namespace {namespace} is wrong"


def _copy_task(task: Task, rebuilt: Ledger, jobs: dict[JobKey, Job]) -> Task:
    node = None if task.node is None else rebuilt.table.by_name[task.node.name]
    return Task(
        key=task.key, name=task.name, namespace=task.namespace, uid=task.uid, pod=task.pod, shape=task.shape,
        job=None if task.job is None else jobs[task.job.key], priority=task.priority, role=task.role,
        index=task.index, created=task.created, preemptable=task.preemptable, may_preempt=task.may_preempt,
        gated=task.gated, backfill=task.backfill, nominated=task.nominated, status=task.status, node=node,
    )  # fmt: skip
