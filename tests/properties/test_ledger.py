"""The ledger's one property, under fire: columns kept step by step equal columns rebuilt from the tasks.

A machine plays scheduler and world at once. Between sessions it applies every kind of event in any order, news that
crosses our own decisions included. Inside a session it drives statements through every operation and every end: taken
back whole or in part, merged, committed, or simply left lying, which the next snapshot has to clear away. After each
step everything is recounted.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from builders import GPU, established, group, node, pod, queue, quota, session
from stromboli.api import Pod, key
from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Applied, BindFailed, Cluster, Deleted, EvictFailed, Holding, Node, Status, Task
from stromboli.scheduling.operations.lending import count_on_lent
from stromboli.scheduling.operations.set_aside import give_up, set_aside
from stromboli.scheduling.reservations.reservation_operations import CONSUME, consume
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import EVICT, Statement

NODES = ("n1", "n2", "n3")
QUEUES = ("default", "q1", "q2")
GROUPS = ("ns1/a", "ns1/b", "ns2/c")
NUMBERS = range(4)

node_names = st.sampled_from(NODES)
queue_names = st.sampled_from(QUEUES)
group_names = st.sampled_from(GROUPS)
amounts = st.sampled_from([None, 1, 2, 3])
resource_names = st.sampled_from([GPU, "example.com/fpga", "example.com/nic", "example.com/a", "example.com/b",
                                  "example.com/c"])  # fmt: skip
picks = st.integers(0, 1000)  # which of those that come into question, counted round


ROOM_TAKEN = (Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING)
COLUMNS: dict[str, tuple[Status, ...]] = {
    "used": (*ROOM_TAKEN, Status.RELEASING, Status.UNKNOWN),
    "releasing": (Status.RELEASING,),
    "pipelined": (Status.PIPELINED,),
    "conditional": (Status.CONDITIONAL,),
    "reserved": (Status.RESERVED,),
}
"""The columns a task's request is in, once more, by column; backfilled, held and idle are told below."""


def check_columns(cluster: Cluster) -> None:
    """The books of every node, counted anew and without the ledger's own table."""
    table = cluster.ledger.table
    for place in table.nodes:
        sums = {name: cluster.axis.zeros() for name in (*COLUMNS, "backfilled", "held")}
        for task in cluster.tasks.values():
            if task.node is place:
                for name, statuses in COLUMNS.items():
                    if task.status in statuses:
                        sums[name] += task.request
                if task.backfill and task.status in ROOM_TAKEN:
                    sums["backfilled"] += task.request
        for holding in cluster.ledger.holdings.values():
            if holding.node is place:
                sums["held"] += holding.remainder
                sums["used"] += holding.remainder
        for name, amount in sums.items():
            assert (table.column(name)[place.row] == amount).all(), f"{name} of {place.name}"
        assert (table.idle[place.row] == table.allocatable[place.row] - sums["used"]).all(), f"idle of {place.name}"


def _is_visible(task: Task) -> bool:
    """Sessions see tasks of groups that exist, in queues that exist."""
    return task.job is not None and task.job.object is not None and task.job.queue.object is not None


class LedgerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.cluster = Cluster()
        self.pods: dict[str, Pod] = {}
        self.session: Session | None = None
        self.statements: list[Statement] = []
        self.born = 0
        self.is_leader: dict[str, dict[str, int]] = {}  # what each reservation has left for good

    # -- what happens outside sessions ------------------------------------------------------------------------

    @initialize()
    def start(self) -> None:
        """Something of everything, so that short stories have something to tell."""
        for name in ("n1", "n2"):
            self.cluster.apply(Applied(node(name, cpu=4, memory="4Gi")))
        self.cluster.apply(Applied(queue("default")))
        self.cluster.apply(Applied(queue("q1")))
        self.cluster.apply(Applied(group("ns1/a", min_member=2)))
        self.cluster.apply(Applied(group("ns2/c", queue="q1", roles={"worker": 1})))
        for number in (0, 1):
            self._put(pod(f"ns1/a-{number}", group="a", cpu=1))
            self._put(pod(f"ns2/c-{number}", group="c", cpu=2, role="worker", node="n1", backfill=number == 0))
        self._put(pod("ns1/a-2", group="a"))
        self.reservation_comes("r1", 0, 2, "default")
        self.session_opens()

    def outside(self) -> bool:
        return self.session is None

    @precondition(outside)
    @rule(name=node_names, cpu=st.integers(0, 4), other=resource_names, ready=st.booleans())
    def node_comes_or_changes(self, name: str, cpu: int, other: str, ready: bool) -> None:
        self.cluster.apply(Applied(node(name, cpu=cpu, memory="4Gi", resources={other: 2}, ready=ready)))

    @precondition(outside)
    @rule(name=node_names)
    def node_goes(self, name: str) -> None:
        for reservation, holding in self.cluster.ledger.holdings.items():
            if holding.node.name == name:
                del self.is_leader[reservation]
        self.cluster.apply(Deleted(node(name)))

    @precondition(outside)
    @rule(name=queue_names, weight=st.integers(1, 3), capability=st.sampled_from([None, {"cpu": 2}]))
    def queue_comes_or_changes(self, name: str, weight: int, capability: dict[str, int] | None) -> None:
        self.cluster.apply(Applied(queue(name, weight=weight, capability=capability)))

    @precondition(outside)
    @rule(name=queue_names)
    def queue_goes(self, name: str) -> None:
        self.cluster.apply(Deleted(queue(name)))

    @precondition(outside)
    @rule(name=group_names, of=queue_names, minimum=st.integers(0, 3), resources=resource_names)
    def group_comes_or_changes(self, name: str, of: str, minimum: int, resources: str) -> None:
        roles = {"worker": minimum}
        self.cluster.apply(
            Applied(group(name, queue=of, min_member=minimum, roles=roles, min_resources={"cpu": 1, resources: 1}))
        )

    @precondition(outside)
    @rule(name=group_names)
    def group_goes(self, name: str) -> None:
        self.cluster.apply(Deleted(group(name)))

    @precondition(outside)
    @rule(weight=st.integers(1, 3), gone=st.booleans())
    def quota_comes_or_goes(self, weight: int, gone: bool) -> None:
        found = quota("ns1/weight", weight=weight)
        self.cluster.apply(Deleted(found) if gone else Applied(found))

    @precondition(outside)
    @rule(
        of=group_names,
        number=st.sampled_from(NUMBERS),
        cpu=amounts,
        other=resource_names,
        role=st.sampled_from(["", "worker"]),
        where=st.sampled_from(["", "", *NODES]),
        gated=st.booleans(),
        backfill=st.booleans(),
        nominated=st.sampled_from(["", *NODES]),
    )
    def pod_comes(
        self, of: str, number: int, cpu: int | None, other: str, role: str, where: str, gated: bool, backfill: bool,
        nominated: str,
    ) -> None:  # fmt: skip
        space, _, name = of.partition("/")
        self.born += 1
        made = pod(
            f"{space}/{name}-{number}", group=name, cpu=cpu, resources={other: 1} if cpu == 3 else None, role=role,
            node=where, gated=gated, backfill=backfill,
        )  # fmt: skip
        made = replace(
            made,
            metadata=replace(made.metadata, uid=f"pod-{self.born}"),
            status=replace(made.status, nominated_node_name=nominated),
        )
        self._put(made)

    def _put(self, made: Pod) -> None:
        established(made)
        self.pods[key(made)] = made
        self.cluster.apply(Applied(made))

    def _some_pod(self, pick: int) -> Pod | None:
        return self.pods[sorted(self.pods)[pick % len(self.pods)]] if self.pods else None

    @precondition(outside)
    @rule(pick=picks)
    def pod_goes(self, pick: int) -> None:
        found = self._some_pod(pick)
        if found is not None:
            del self.pods[key(found)]
            self.cluster.apply(Deleted(found))

    @precondition(outside)
    @rule(pick=picks, phase=st.sampled_from(["Running", "Succeeded", "Failed", "Unknown", "Pending"]))
    def pod_changes_phase(self, pick: int, phase: str) -> None:
        found = self._some_pod(pick)
        if found is not None:
            self._put(replace(found, status=replace(found.status, phase=phase)))

    @precondition(outside)
    @rule(pick=picks)
    def pod_is_told_to_leave(self, pick: int) -> None:
        found = self._some_pod(pick)
        if found is not None:
            self._put(replace(found, metadata=replace(found.metadata, deletion_timestamp=format_timestamp(0.0))))

    @precondition(outside)
    @rule(pick=picks, where=node_names)
    def pod_turns_up_on_a_node(self, pick: int, where: str) -> None:
        """Our bind, as the API server sees it; or somebody else's."""
        found = self._some_pod(pick)
        if found is not None and not found.spec.node_name:
            task = self.cluster.tasks.get(key(found))  # type: ignore[call-overload]
            if task is not None and task.true_node is not None:
                where = task.true_node.name
            self._put(replace(found, spec=replace(found.spec, node_name=where)))

    @precondition(outside)
    @rule(pick=picks, gated=st.booleans(), role=st.sampled_from(["", "worker"]), of=group_names, cpu=amounts)
    def pod_changes_in_itself(self, pick: int, gated: bool, role: str, of: str, cpu: int | None) -> None:
        found = self._some_pod(pick)
        if found is not None:
            changed = pod(key(found), group=of.partition("/")[2], gated=gated, role=role, cpu=cpu)
            metadata = replace(found.metadata, annotations=changed.metadata.annotations)
            spec = replace(changed.spec, node_name=found.spec.node_name)
            self._put(replace(found, metadata=metadata, spec=spec))

    @precondition(outside)
    @rule(pick=picks, bind=st.booleans())
    def what_we_wanted_fails(self, pick: int, bind: bool) -> None:
        status = Status.BINDING if bind else Status.RELEASING
        waiting = sorted(task.key for task in self.cluster.tasks.values() if task.true_status is status)
        if waiting:
            task_key = waiting[pick % len(waiting)]
            self.cluster.apply(BindFailed(task_key) if bind else EvictFailed(task_key))

    @precondition(outside)
    @rule(name=st.sampled_from(["r1", "r2"]), at=picks, cpu=st.integers(1, 3), payer=st.sampled_from(["", "default"]))
    def reservation_comes(self, name: str, at: int, cpu: int, payer: str) -> None:
        rows = self.cluster.snapshot().nodes.nodes
        paying = next((q for q in self.cluster.queues.values() if q.name == payer), None)
        if rows:
            amount = self.cluster.axis.vector({"cpu": cpu * 1000, "pods": 1})
            holding = Holding(rows[at % len(rows)], amount, paying, "ns1" if paying else "")
            self.cluster.ledger.set_holding(name, holding)
            self.is_leader[name] = self.cluster.axis.amounts(amount)

    @precondition(outside)
    @rule(name=st.sampled_from(["r1", "r2"]))
    def reservation_goes(self, name: str) -> None:
        self.cluster.ledger.set_holding(name, None)
        self.is_leader.pop(name, None)

    # -- what sessions do ---------------------------------------------------------------------------------------

    @precondition(outside)
    @rule()
    def session_opens(self) -> None:
        self.session = session(self.cluster)
        self.statements = [self.session.statement(), self.session.statement()]

    def inside(self) -> bool:
        return self.session is not None and len(self.session.nodes) > 0

    def _task(self, pick: int, statement: Statement, statuses: set[Status]) -> Task | None:
        """A task in one of these statuses that no other statement has touched: statements do not interleave."""
        others = {op.task.key for other in self.statements if other is not statement for op in other.operations}
        fitting = sorted(
            task.key
            for task in self.cluster.tasks.values()
            if task.status in statuses and _is_visible(task) and task.key not in others
        )
        return self.cluster.tasks[fitting[pick % len(fitting)]] if fitting else None

    def _node(self, pick: int) -> Node:
        assert self.session is not None
        return self.session.nodes.nodes[pick % len(self.session.nodes)]

    @precondition(inside)
    @rule(which=st.integers(0, 1), task=picks, at=picks, reserved_too=st.booleans())
    def allocate(self, which: int, task: int, at: int, reserved_too: bool) -> None:
        waiting = {Status.PENDING, Status.RESERVED, Status.CONDITIONAL} if reserved_too else {Status.PENDING}
        found = self._task(task, self.statements[which], waiting)
        if found is not None:
            assert self.statements[which].allocate(found, self._node(at))

    @precondition(inside)
    @rule(which=st.integers(0, 1), task=picks, at=picks)
    def pipeline(self, which: int, task: int, at: int) -> None:
        found = self._task(task, self.statements[which], {Status.PENDING})
        if found is not None:
            assert self.statements[which].pipeline(found, self._node(at))

    @precondition(inside)
    @rule(which=st.integers(0, 1), task=picks, at=st.lists(picks, min_size=2, max_size=4), now=st.booleans())
    def place_a_gang(self, which: int, task: int, at: list[int], now: bool) -> None:
        """All pending tasks of one job and one shape, in one stroke."""
        statement = self.statements[which]
        first = self._task(task, statement, {Status.PENDING})
        if first is None:
            return
        assert first.job is not None
        others = {op.task.key for other in self.statements if other is not statement for op in other.operations}
        alike = [
            t
            for t in first.job.tasks.values()
            if t.status is Status.PENDING and t.shape is first.shape and not t.gated and t.key not in others
        ]
        count = min(len(alike), len(at))
        if count:
            place = statement.allocate_many if now else statement.pipeline_many
            assert place(alike[:count], [self._node(pick) for pick in at[:count]]) == count

    @precondition(inside)
    @rule(which=st.integers(0, 1), task=picks)
    def evict(self, which: int, task: int) -> None:
        found = self._task(task, self.statements[which], {Status.BOUND, Status.RUNNING})
        if found is not None and found.node is not None:
            self.statements[which].evict(found, reason="Preempted", message="for somebody")

    @precondition(inside)
    @rule(which=st.integers(0, 1), pick=picks)
    def spare(self, which: int, pick: int) -> None:
        evicted = [op.task for op in self.statements[which].operations if op.kind is EVICT]
        if evicted:
            self.statements[which].spare(evicted[pick % len(evicted)])

    @precondition(inside)
    @rule(which=st.integers(0, 1), task=picks, at=picks, lent=st.booleans())
    def condition_or_reserve(self, which: int, task: int, at: int, lent: bool) -> None:
        statement = self.statements[which]
        found = self._task(task, statement, {Status.PENDING})
        if found is not None:
            (count_on_lent if lent else set_aside)(statement, found, self._node(at))

    @precondition(inside)
    @rule(which=st.integers(0, 1), task=picks)
    def release(self, which: int, task: int) -> None:
        found = self._task(task, self.statements[which], {Status.RESERVED})
        if found is not None:
            give_up(self.statements[which], found)

    @precondition(inside)
    @rule(which=st.integers(0, 1), task=picks, name=st.sampled_from(["r1", "r2"]), cpu=st.integers(0, 1000))
    def consume(self, which: int, task: int, name: str, cpu: int) -> None:
        assert self.session is not None
        statement = self.statements[which]
        holding = self.session.ledger.holdings.get(name)
        found = self._task(task, statement, {Status.PENDING})
        if holding is not None and found is not None:
            consume(statement, found, name, self.cluster.axis.vector({"cpu": cpu}))
            assert statement.allocate(found, holding.node)

    @precondition(inside)
    @rule(which=st.integers(0, 1), share=st.floats(0, 1))
    def discard(self, which: int, share: float) -> None:
        statement = self.statements[which]
        statement.discard(down_to=int(len(statement) * share))

    @precondition(inside)
    @rule()
    def merge(self) -> None:
        self.statements[0].merge(self.statements[1])
        assert not len(self.statements[1])

    @precondition(inside)
    @rule(which=st.integers(0, 1))
    def commit(self, which: int) -> None:
        for operation in self.statements[which].operations:
            if operation.kind is CONSUME and operation.amount is not None:
                left = self.is_leader[operation.subject]
                for resource, amount in self.cluster.axis.amounts(operation.amount).items():
                    left[resource] = left.get(resource, 0) - amount
        self.statements[which].commit()

    @precondition(lambda self: self.session is not None)
    @rule(snapshot_follows=st.booleans())
    def session_ends(self, snapshot_follows: bool) -> None:
        """With whatever statements are still open: what was not committed never happened. Events may come before the
        snapshot that clears it away."""
        self.session = None
        self.statements = []
        if snapshot_follows:
            self.snapshot()

    @precondition(outside)
    @rule()
    def snapshot(self) -> None:
        self.cluster.snapshot()
        assert not self.cluster.ledger.tentative
        for task in self.cluster.tasks.values():
            assert (task.status, task.node) == (task.true_status, task.true_node)
        for name, left in self.is_leader.items():
            remainder = self.cluster.axis.amounts(self.cluster.ledger.holdings[name].remainder)
            assert remainder == {resource: amount for resource, amount in left.items() if amount}

    @invariant()
    def the_books_are_right(self) -> None:
        self.cluster.validate()
        check_columns(self.cluster)
        promised = {task.key for task in self.cluster.tasks.values() if task.nominated}
        assert set(self.cluster.ledger.nominated) == promised


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(max_examples=150, stateful_step_count=50)
