"""Statements and the books of nodes, by cases whose answers are known beforehand (ST1 to ST5, N1 to N4)."""

from __future__ import annotations

import pytest

from builders import cluster, group, node, pod, pods, session
from stromboli.cluster import Applied, Cluster, Deleted, Status, Task, TaskKey
from stromboli.scheduling.callbacks import Objection
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.decisions import Bind, Evict
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import PIPELINE

# -- statements ---------------------------------------------------------------------------------------------------


class Watcher(Plugin):
    """Writes down what is placed and given up, and objects to pods of one name."""

    name = "watcher"

    def __init__(self, objects_to: str = "") -> None:
        super().__init__(Arguments())
        self.objects_to = objects_to
        self.seen: list[str] = []

    def open(self, session: Session) -> None:
        session.add_handlers(allocate=self._placed, deallocate=self._gone)

    def _placed(self, task: Task) -> None:
        self.seen.append(f"+{task.name}")
        if task.name == self.objects_to:
            raise Objection(task.key)

    def _gone(self, task: Task) -> None:
        self.seen.append(f"-{task.name}")


def three_and_one() -> Cluster:
    """r runs on n1; a, b and c wait."""
    return cluster(
        node("n1", cpu=4),
        node("n2", cpu=4),
        group("pg", min_member=0),
        pod("r", group="pg", cpu=2, node="n1"),
        [pod(name, group="pg", cpu=1) for name in "abc"],
    )


def task(known: Cluster, name: str) -> Task:
    return known.tasks[TaskKey(f"default/{name}")]


def books(known: Cluster) -> list[object]:
    """Everything the ledger keeps, to compare."""
    table = known.ledger.table
    columns = [getattr(table, column).tolist() for column in ("idle", "used", "releasing", "pipelined")]
    jobs = [(job.key, list(job.counts), job.allocated.tolist()) for job in known.jobs.values()]
    queues = [(queue.name, queue.allocated.tolist(), queue.wanted.tolist()) for queue in known.queues.values()]
    return [columns, jobs, queues, sorted((key, t.status, t.node and t.node.name) for key, t in known.tasks.items())]


# ST1. Operations stand in the order target, first source, second source; the sources are empty; merging nothing
# changes nothing.
def test_st1_merging_keeps_the_order_and_empties_the_sources() -> None:
    known = three_and_one()
    current = session(known)
    target, first, second, empty = (current.statement() for _ in range(4))
    for statement, name in ((second, "c"), (target, "a"), (first, "b")):
        assert statement.allocate(task(known, name), known.nodes["n2"])
    for source in (first, second, empty):
        target.merge(source)
    assert [operation.task.name for operation in target.operations] == ["a", "b", "c"]
    assert len(first) == len(second) == len(empty) == 0
    target.discard()
    assert {task(known, name).status for name in "abc"} == {Status.PENDING}


# ST2. A handler objects: the task waits as before, all amounts are what they were, the operation is not in the
# statement, and whoever was told of the placement is told that it is off.
@pytest.mark.parametrize("verb", ["allocate", "pipeline"])
def test_st2_an_objection_leaves_no_trace(verb: str) -> None:
    known = three_and_one()
    first, second, third = Watcher(), Watcher(objects_to="b"), Watcher()
    current = session(known, tiers=[[first, second, third]])
    before = books(known)
    statement = current.statement()
    assert not getattr(statement, verb)(task(known, "b"), known.nodes["n2"])
    assert len(statement) == 0
    assert books(known) == before
    assert (first.seen, second.seen, third.seen) == (["+b", "-b"], ["+b", "-b"], [])
    assert getattr(statement, verb)(task(known, "a"), known.nodes["n2"])
    assert len(statement) == 1
    known.validate()


# ST2'. Of a batch of equal tasks, those before the objection stay.
def test_st2_an_objection_in_a_batch_stops_it_there() -> None:
    known = three_and_one()
    current = session(known, tiers=[[Watcher(objects_to="b")]])
    statement = current.statement()
    tasks = [task(known, name) for name in "abc"]
    assert statement.allocate_many(tasks, [known.nodes["n2"]] * 3) == 1
    assert [t.status for t in tasks] == [Status.ALLOCATED, Status.PENDING, Status.PENDING]
    known.validate()


# ST3. Evict, promise, place; undone in reverse: everything is as before, and every word to a plugin was taken back.
def test_st3_discarding_undoes_everything_last_first() -> None:
    known = three_and_one()
    watcher = Watcher()
    current = session(known, tiers=[[watcher]])
    before = books(known)
    statement = current.statement()
    statement.evict(task(known, "r"), reason="Preempted", message="")
    assert statement.pipeline(task(known, "a"), known.nodes["n1"])
    assert statement.allocate(task(known, "b"), known.nodes["n2"])
    assert books(known) != before
    statement.discard()
    assert books(known) == before
    assert watcher.seen == ["-r", "+a", "+b", "-b", "-a", "+r"]
    assert current.cycle.decisions == []


# ST3''. Tasks alike are undone at once, up to a mark in the middle of them.
@pytest.mark.parametrize("verb", ["allocate_many", "pipeline_many"])
def test_st3_discarding_many_at_once(verb: str) -> None:
    known = three_and_one()
    statement = session(known).statement()
    before = books(known)
    tasks = [task(known, name) for name in "abc"]
    assert getattr(statement, verb)(tasks[:1], [known.nodes["n1"]]) == 1
    at_the_mark = books(known)
    assert getattr(statement, verb)(tasks[1:], [known.nodes["n1"], known.nodes["n2"]]) == 2
    statement.discard(down_to=1)
    assert books(known) == at_the_mark
    known.validate()
    statement.discard()
    assert books(known) == before
    assert not known.ledger.tentative
    known.validate()


# ST3'. Back to a mark: only what came after it is undone.
def test_st3_discarding_down_to_a_mark() -> None:
    known = three_and_one()
    current = session(known)
    statement = current.statement()
    assert statement.allocate(task(known, "a"), known.nodes["n1"])
    mark, at_the_mark = len(statement), books(known)
    assert statement.allocate(task(known, "b"), known.nodes["n2"])
    statement.discard(down_to=mark)
    assert books(known) == at_the_mark


# ST4. Whether anybody has to go: not by placing, yes by evicting, and not any more when the one is spared.
def test_st4_a_statement_knows_whether_it_evicts() -> None:
    known = three_and_one()
    statement = session(known).statement()
    assert statement.allocate(task(known, "a"), known.nodes["n1"])
    assert not statement.has_evictions
    statement.evict(task(known, "r"), reason="Preempted", message="")
    assert statement.has_evictions
    statement.spare(task(known, "r"))
    assert not statement.has_evictions
    assert task(known, "r").status is Status.RUNNING
    known.validate()


# ST5. A promise for which somebody was evicted is remembered beyond the cycle, also if both came together by a merge;
# a promise without an eviction is for this cycle only.
@pytest.mark.parametrize(("evicts", "nominated"), [(True, "n1"), (False, "")])
def test_st5_a_merge_keeps_why_a_promise_was_made(evicts: bool, nominated: str) -> None:
    known = three_and_one()
    current = session(known)
    statement, other = current.statement(), current.statement()
    if evicts:
        statement.evict(task(known, "r"), reason="Preempted", message="")
    assert other.pipeline(task(known, "a"), known.nodes["n1"])
    statement.merge(other)
    assert [operation.kind for operation in statement.operations][-1] is PIPELINE
    statement.commit()
    assert task(known, "a").nominated == nominated
    kinds = [type(decision) for decision in current.cycle.decisions]
    assert kinds == ([Evict] if evicts else [])
    known.snapshot()
    assert task(known, "a").status is Status.PENDING


# What is committed is so: binds and evictions are decided in their order and stay when the next session begins.
def test_a_committed_statement_outlives_the_session() -> None:
    known = three_and_one()
    current = session(known)
    statement = current.statement()
    statement.evict(task(known, "r"), reason="Preempted", message="")
    assert statement.allocate(task(known, "b"), known.nodes["n2"])
    statement.commit()
    assert [type(decision) for decision in current.cycle.decisions] == [Evict, Bind]
    known.snapshot()
    assert (task(known, "r").status, task(known, "b").status) == (Status.RELEASING, Status.BINDING)
    known.validate()


# -- nodes --------------------------------------------------------------------------------------------------------


def amounts(known: Cluster, column: str) -> dict[str, int]:
    """Of node n1: CPUs in thousandths, memory in GiB, pods."""
    known.snapshot()
    found = known.axis.amounts(getattr(known.ledger.table, column)[known.nodes["n1"].row])
    return {**found, "memory": found.get("memory", 0) // (1 << 30)}


# N1. 8 CPUs, 10 GiB, 20 pods; <1, 1> and <2, 2> come: 8 - 3 = 5, 10 - 3 = 7, 20 - 2 = 18.
# N4. <1, 1> leaves: 6, 8, 19; the other one, too: all is as at first.
def test_n1_n4_pods_come_and_go() -> None:
    known = cluster(
        node("n1", cpu=8, memory="10Gi", pods=20),
        pod("p1", cpu=1, memory="1Gi", node="n1"),
        pod("p2", cpu=2, memory="2Gi", node="n1"),
    )
    assert amounts(known, "idle") == {"cpu": 5000, "memory": 7, "pods": 18}
    assert amounts(known, "used") == {"cpu": 3000, "memory": 3, "pods": 2}
    known.apply(Deleted(pod("p1")))
    assert amounts(known, "idle") == {"cpu": 6000, "memory": 8, "pods": 19}
    known.apply(Deleted(pod("p2")))
    assert amounts(known, "idle") == {"cpu": 8000, "memory": 10, "pods": 20}
    known.validate()


# N2. A pod that is none of ours, <1, 2>, on a node with <2, 1>: 1 - 2 = -1 GiB are idle, and life goes on.
def test_n2_more_may_run_on_a_node_than_it_offers() -> None:
    known = cluster(node("n1", cpu=2, memory="1Gi"), pod("alien", cpu=1, memory="2Gi", node="n1"))
    assert amounts(known, "idle")["memory"] == -1
    assert amounts(known, "idle")["cpu"] == 1000
    known.validate()


# N3. 9 of 10 are used; the node shrinks to 8: 8 - 9 = -1. It grows to 10 again: 1.
def test_n3_a_node_shrinks_below_what_runs_on_it_and_grows_again() -> None:
    known = cluster(node("n1", cpu=10), pods("p", 3, cpu=3, node="n1"))
    for cpu, idle in ((10, 1000), (8, -1000), (10, 1000)):
        known.apply(Applied(node("n1", cpu=cpu, created=0)))
        assert amounts(known, "idle")["cpu"] == idle
        known.validate()
