"""Nobody waits for what lies idle.

After a cycle, no pod may be left waiting that could simply start: its job is let in, its gang is whole with it, some
node that its spec accepts has the room, and its queue stays within its hard limits with it. What a queue deserves is no
reason to leave room unused: it is lent.

The oracle knows nothing of the scheduler but the statuses its tasks ended in; sums and rules are written out again
here. Room that was promised to somebody for whom pods are leaving counts as taken, and so does what victims of this
cycle held in their queue. First-in-first-out queues are left out: to wait behind the first in line is their purpose.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from builders import established, group, node, pod, queue
from properties.random_clusters import NAMESPACES, QUEUES, World, cases, scheduler
from stromboli.api import KObject, Node, PodGroup, Queue, names
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts
from stromboli.cluster import Job, Status, Task

AT_WORK = (Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.SUCCEEDED)
HOLDS_ROOM = (Status.ALLOCATED, Status.BINDING, Status.BOUND, Status.RUNNING, Status.RELEASING, Status.UNKNOWN)
LET_IN = ("Inqueue", "Running", "Unknown")


def needs(task: Task) -> Counter[str]:
    return Counter({name: amount for name, amount in pod_requests(task.pod.spec).items() if amount})


class Oracle:
    def __init__(self, world: World, let_in: set[str]) -> None:
        self.tasks = [task for _, task in sorted(world.cluster.tasks.items())]
        self.let_in = let_in
        objects = world.objects.values()
        self.nodes = [obj for obj in objects if isinstance(obj, Node)]
        self.queues = {obj.metadata.name: obj for obj in objects if isinstance(obj, Queue)}
        self.groups = {f"{o.metadata.namespace}/{o.metadata.name}": o for o in objects if isinstance(o, PodGroup)}

    # -- gangs ----------------------------------------------------------------------------------------------------

    def completes(self, task: Task, job: Job) -> bool:
        spec = self.groups[job.key].spec
        working = [t for t in self.tasks if t.job is job and (t.status in AT_WORK or t is task)]
        if len(working) < spec.min_member:
            return False
        if sum(spec.min_task_member.values()) > spec.min_member:
            return True
        roles = Counter(t.pod.metadata.annotations.get(names.TASK_SPEC, "") for t in working)
        return all(roles[role] >= minimum for role, minimum in spec.min_task_member.items())

    # -- nodes ----------------------------------------------------------------------------------------------------

    def left_on(self, node: Node) -> Counter[str]:
        offered = amounts(node.status.allocatable)
        taken: Counter[str] = Counter()
        leaving: Counter[str] = Counter()
        promised: Counter[str] = Counter()
        for task in self.tasks:
            if task.node is not None and task.node.name == node.metadata.name:
                request = {**needs(task), "pods": 1}
                if task.status in HOLDS_ROOM:
                    taken.update(request)
                if task.status is Status.RELEASING:
                    leaving.update(request)
                if task.status is Status.PIPELINED:
                    promised.update(request)
        left: Counter[str] = Counter()
        for resource, amount in offered.items():
            left[resource] = amount - taken[resource] - max(promised[resource] - leaving[resource], 0)
        return left

    def accepts(self, node: Node, task: Task) -> bool:
        spec = task.pod.spec
        tolerated = {(t.key, t.value, t.effect) for t in spec.tolerations}
        return (
            all(condition.status == "True" for condition in node.status.conditions)
            and not node.spec.unschedulable
            and all(node.metadata.labels.get(name) == value for name, value in spec.node_selector.items())
            and all((taint.key, taint.value, taint.effect) in tolerated for taint in node.spec.taints)
        )

    def place_for(self, task: Task) -> str | None:
        for machine in self.nodes:
            left = self.left_on(machine)
            request = {**needs(task), "pods": 1}
            if self.accepts(machine, task) and all(left[resource] >= amount for resource, amount in request.items()):
                return machine.metadata.name
        return None

    # -- queues ---------------------------------------------------------------------------------------------------

    def hard_limit(self, queue: Queue, resource: str) -> int:
        """The cluster, less what is guaranteed to others; and no more than the queue's capability."""
        total = sum(
            amounts(node.status.allocatable).get(resource, 0)
            for node in self.nodes
            if all(condition.status == "True" for condition in node.status.conditions)
        )
        others = sum(
            amounts(other.spec.guarantee.resource).get(resource, 0)
            for other in self.queues.values()
            if other is not queue
        )
        own = amounts(queue.spec.guarantee.resource).get(resource, 0)
        limit = max(total - others - own, 0) + own
        return min(limit, amounts(queue.spec.capability).get(resource, limit))

    def queue_may(self, task: Task, queue: Queue) -> bool:
        """Within the hard limits, with the victims of this cycle still in."""
        held: Counter[str] = Counter()
        for other in self.tasks:
            if (
                other.job is not None
                and other.job.queue.name == queue.metadata.name
                and (other.status in HOLDS_ROOM or other.status is Status.PIPELINED)
                and not (other.status is Status.RELEASING and other.pod.metadata.deletion_timestamp is not None)
            ):
                held.update(needs(other))
        return all(held[name] + amount <= self.hard_limit(queue, name) for name, amount in needs(task).items())

    def left_waiting(self) -> dict[str, str]:
        """Pods that could start right now, and where."""
        found: dict[str, str] = {}
        for task in self.tasks:
            job: Any = task.job
            if task.status is not Status.PENDING or task.gated or job is None or job.key not in self.let_in:
                continue
            queue = self.queues.get(job.queue.name)
            if queue is None or queue.status.state != "Open" or queue.spec.dequeue_strategy == "fifo":
                continue
            if not self.completes(task, job) or not (not needs(task) or self.queue_may(task, queue)):
                continue
            where = self.place_for(task)
            if where is not None:
                found[task.key] = where
        return found


@st.composite
def crowds(draw: st.DrawFn) -> list[KObject]:
    """A few queues that each want about all there is, in pods of unequal size, some of which no node takes: what each
    deserves is then too little for its large pods, while room lies idle."""
    lines = QUEUES[1 : draw(st.integers(2, 3)) + 1]
    made: list[KObject] = [node("n1", cpu=draw(st.integers(3, 6)))]
    made += [queue(name, weight=draw(st.integers(1, 2))) for name in lines]
    for number in range(draw(st.integers(2, 4))):
        name = f"j{number}"
        space = draw(st.sampled_from(NAMESPACES))
        where = draw(st.sampled_from([None, None, {"zone": "nowhere"}]))
        made.append(group(f"{space}/{name}", queue=draw(st.sampled_from(lines)), min_member=draw(st.integers(1, 2))))
        sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
        made += [
            pod(f"{space}/{name}-{index}", group=name, cpu=cpu, node_selector=where) for index, cpu in enumerate(sizes)
        ]
    return [established(obj, position) for position, obj in enumerate(made)]


def check(world: World, *, cycles: int) -> None:
    for _ in range(cycles):
        outside = {key for key, job in world.cluster.jobs.items() if job.phase == "Pending"}
        decisions = world.cycle(scheduler())
        let_in = {
            key
            for key, job in world.cluster.jobs.items()
            if job.phase in LET_IN and (key not in outside or job.phase == "Inqueue")
        }
        assert Oracle(world, let_in).left_waiting() == {}
        world.carry_out(decisions)


@settings(max_examples=100)
@given(cases(), st.integers(1, 2))
def test_no_pod_waits_for_what_lies_idle(objects: list[KObject], grace: int) -> None:
    check(World(objects, grace=grace), cycles=3)


@settings(max_examples=250)
@given(crowds())
def test_room_is_lent_when_every_deserved_amount_is_too_small(objects: list[KObject]) -> None:
    check(World(objects), cycles=1)
