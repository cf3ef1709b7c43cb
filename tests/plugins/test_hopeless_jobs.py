"""Jobs that were admitted and cannot start, even on empty nodes: they are promised nothing, and cost others nothing."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import cluster, group, node, pod, pods, queue, session
from properties.random_clusters import World, cases
from starvation.scenes import Document
from starvation.scenes import node as machine
from stromboli.api import KObject, Node, Pod, Taint
from stromboli.cluster import Applied, Cluster, Deleted, Job, JobKey
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle, PatchGroup
from stromboli.scheduling.gang import EmptyNodes, empty_nodes
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session
from stromboli.scheduling.sharing import AdmissionPromises
from together.situations import Situation, assert_restarts_change_nothing, job

ADMITTING = """
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: gang}, {name: overcommit}, {name: predicates}, {name: proportion}, {name: nodeorder}]
"""


NOT_READY = "node.kubernetes.io/not-ready"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def scheduler() -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    return Scheduler(registry.load(ADMITTING), registry)


def opened(known: Cluster) -> Session:
    return session(known, tiers=[["gang", "overcommit", "predicates", "proportion"]], actions=["enqueue", "allocate"])


def promised(known: Cluster) -> int:
    """CPUs, in thousandths."""
    return int(opened(known).state(AdmissionPromises).promised_everywhere()[0])


def phase(known: Cluster, name: str) -> str:
    return known.jobs[JobKey(f"default/{name}")].phase


# -- what is promised -------------------------------------------------------------------------------------------------


# Two nodes of 4 CPUs, and 2 were promised to each of these jobs. They count as long as their pods could start on empty
# nodes, or nobody knows better.
@pytest.mark.parametrize(
    ("member", "at_least", "count", "counted"),
    [
        ({"cpu": 2}, 1, 0, True),  # its pods are still to be created
        ({"cpu": 2}, 1, 1, True),
        ({"cpu": 4}, 1, 1, True),  # on an empty node
        ({"cpu": 5}, 1, 1, False),
        ({"cpu": 1, "gpu": 1}, 1, 1, False),
        ({"cpu": 2, "node_selector": {"zone": "a"}}, 1, 1, True),
        ({"cpu": 2, "node_selector": {"zone": "c"}}, 1, 1, False),
        ({"cpu": 3, "node_selector": {"zone": "a"}}, 2, 2, False),  # a has room for 4 / 3 = 1 of them
        ({"cpu": 2, "node_selector": {"zone": "a"}}, 2, 2, True),  # … and for 4 / 2 = 2 of these
        ({"cpu": 3}, 2, 2, True),
        ({"cpu": 3}, 3, 3, False),  # both nodes have room for one
        ({"cpu": 3}, 2, 3, True),  # two are enough
    ],
)
def test_a_promise_counts_if_the_pods_could_start_on_empty_nodes(
    member: dict[str, object], at_least: int, count: int, counted: bool
) -> None:
    known = cluster(
        node("n1", cpu=4, labels={"zone": "a"}),
        node("n2", cpu=4, labels={"zone": "b"}),
        group("runs", phase="Running"),
        pod("runs", group="runs", cpu=3, node="n1"),
        group("g", min_member=at_least, min_resources={"cpu": 2}),
        pods("g", count, group="g", **member),
    )
    assert promised(known) == (2_000 if counted else 0)


# The only node is closed to the pod. A taint stays, unless Kubernetes has set it; a node that is cordoned or not ready
# comes back.
@pytest.mark.parametrize(
    ("closed", "counted"),
    [
        (node("n1", cpu=4, taints=[Taint(key="team", effect="NoSchedule")]), False),
        (node("n1", cpu=4, taints=[Taint(key="team", effect="PreferNoSchedule")]), True),
        (node("n1", cpu=4, cordoned=True), True),
        (node("n1", cpu=4, ready=False), True),
        (node("n1", cpu=4, cordoned=True, taints=[Taint(key=UNSCHEDULABLE, effect="NoSchedule")]), True),
        (node("n1", cpu=4, ready=False, taints=[Taint(key=NOT_READY, effect="NoExecute")]), True),
        (node("n1", cpu=4, taints=[Taint(key=key, effect="NoSchedule") for key in ("team", NOT_READY)]), True),
        (node("n1", cpu=1, taints=[Taint(key=NOT_READY, effect="NoExecute")]), False),
    ],
    ids=[
        "tainted",
        "discouraged",
        "cordoned",
        "not ready",
        "cordoned and tainted",
        "not ready and tainted",
        "several taints",
        "too small",
    ],
)
def test_only_lasting_reasons_count(closed: Node, counted: bool) -> None:
    known = cluster(closed, group("g", min_resources={"cpu": 2}), pod("g", group="g", cpu=2))
    assert promised(known) == (2_000 if counted else 0)


# A gang of 3 with roles: one master is needed, and two more of any kind. The master fits nowhere; or the workers, and
# then two more masters would do; or the workers, and two of them are needed.
@pytest.mark.parametrize(
    ("master", "worker", "roles", "counted"),
    [
        (5, 1, {"master": 1}, False),
        (1, 5, {"master": 1}, True),
        (1, 5, {"master": 1, "worker": 2}, False),
        (1, 1, {"master": 1, "worker": 2}, True),
    ],
)
def test_roles_count_by_their_minimums(master: int, worker: int, roles: dict[str, int], counted: bool) -> None:
    known = cluster(
        node("n1", cpu=4),
        group("g", min_member=3, roles=roles, min_resources={"cpu": 3}),
        pods("m", 3, group="g", role="master", cpu=master),
        pods("w", 3, group="g", role="worker", cpu=worker),
    )
    assert promised(known) == (3_000 if counted else 0)


# The pods are there before the job is admitted: it is admitted for 4 of 4 CPUs, and is promised nothing.
def test_a_gang_that_runs_may_grow_when_one_of_its_pods_ends() -> None:
    """Two pods run, and the node has room for two. One more is no whole gang that lacks room for three."""
    known = cluster(
        node("n1", cpu=2),
        group("g", min_member=2, phase="Running"),
        pods("runs", 2, group="g", cpu=1, node="n1"),
        pod("waits", group="g", cpu=1),
    )
    assert not opened(known).state(EmptyNodes).is_hopeless(known.jobs[JobKey("default/g")])


def test_a_job_with_pods_is_promised_nothing_from_the_start() -> None:
    known = cluster(
        node("n1", cpu=4),
        group("a", phase="Pending", min_resources={"cpu": 4}),
        pod("a", group="a", cpu=4, node_selector={"zone": "c"}),
        group("b", phase="Pending", min_resources={"cpu": 4}),
        pod("b", group="b", cpu=4),
        group("c", phase="Pending", min_resources={"cpu": 1}),
    )
    scheduler().run(known, 0.0)
    assert [phase(known, name) for name in "abc"] == ["Inqueue", "Running", "Pending"]


# -- what follows -----------------------------------------------------------------------------------------------------


# 8 CPUs. `far` was admitted for 8, and no node matches its pods, so `near` is admitted for 8 as well. With a node that
# matches there are 16 CPUs, which were all promised: `later` waits for 1.
def test_a_promise_counts_again_when_a_node_is_added() -> None:
    known = cluster(
        node("n1", cpu=8),
        group("far", min_resources={"cpu": 8}),
        pod("far", group="far", cpu=8, node_selector={"zone": "c"}),
        group("near", phase="Pending", min_resources={"cpu": 8}),
    )
    deciding = scheduler()
    deciding.run(known, 0.0)
    assert phase(known, "near") == "Inqueue"
    assert promised(known) == 8_000
    known.apply(Applied(node("n2", cpu=8, labels={"zone": "c"}, ready=False)))
    assert promised(known) == 16_000
    known.apply(Applied(group("later", phase="Pending", min_resources={"cpu": 1})))
    deciding.run(known, 1.0)
    assert phase(known, "later") == "Pending"
    known.apply(Deleted(known.nodes["n2"].object))
    assert promised(known) == 8_000


# Two nodes of 4 CPUs. The pods of `hop` match no node; or one of 5 CPUs is larger than a node; or only two of the three
# with 2.5 CPUs fit. Ten jobs of one CPU come later.
# 0s: hop is admitted, and gets pods. 5s: 10 jobs of 1 CPU are outside. Nothing is used and nothing is promised, so 8 of
# them are admitted, and 2 when those have finished.
HOPELESS = {
    "no such node": job("hop", 8, 1, selector={"no": "such"}),
    "larger than a node": job("hop", 1, 5),
    "more than fit": job("hop", 3, 2.5),
}


def beside(hopeless: Document) -> Situation:
    small = [job(f"a{number}", 1, 1, at=5, run=10) for number in range(10)]
    return Situation([machine("n1", 4), machine("n2", 4), hopeless, *small], config=None, until=40)


@pytest.mark.parametrize("which", HOPELESS)
def test_other_jobs_start_as_if_the_hopeless_one_were_not_there(which: str) -> None:
    report = beside(HOPELESS[which]).run()
    started = sorted(facts["started"] for name, facts in report["jobs"].items() if name != "default/hop")
    assert started[7] <= 6
    assert started[9] <= 18
    assert report["jobs"]["default/hop"]["started"] is None


def test_restarts_change_nothing() -> None:
    assert_restarts_change_nothing(beside(HOPELESS["no such node"]), until=20)


# 8 CPUs, of which 9.6 may be promised: `hop` cannot start, `runs` has 6, and `waits` needs 4. It is not admitted, and
# waits for `runs`.
def test_who_is_not_admitted_reads_a_true_reason() -> None:
    known = cluster(
        node("n1", cpu=8),
        group("hop", min_resources={"cpu": 8}),
        pod("hop", group="hop", cpu=8, node_selector={"no": "such"}),
        group("runs", phase="Running", min_resources={"cpu": 6}),
        pod("runs", group="runs", cpu=6, node="n1"),
        group("waits", phase="Pending", min_resources={"cpu": 4}),
    )
    cycle = scheduler().run(known, 0.0)
    (said,) = [d.conditions[0].message for d in cycle.decisions if isinstance(d, PatchGroup) and "waits" in d.job]
    assert said == (
        "Waiting to be admitted, insufficient cpu: 4 requested, and of 9.6 that may be promised (what there is for "
        "queues, times the overcommit factor 1.2), 3.6 is left. The job is admitted when other jobs finish."
    )


# -- what it costs ----------------------------------------------------------------------------------------------------


# Fifty jobs of two shapes: each shape is looked at once, and again only when a node has changed.
def test_nodes_are_looked_at_once_for_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[str] = []
    look = empty_nodes.EmptyNodes._look

    def counted(self: EmptyNodes, task: object) -> object:
        looks.append(task.name)  # type: ignore[attr-defined]
        return look(self, task)  # type: ignore[arg-type]

    monkeypatch.setattr(empty_nodes.EmptyNodes, "_look", counted)
    objects: list[KObject] = []
    for number in range(50):
        objects.append(group(f"g{number}", min_resources={"cpu": 1}))
        objects.append(pod(f"p{number}", group=f"g{number}", cpu=9 + number % 2))
    known = cluster(node("n1", cpu=8), objects, group("w", phase="Pending", min_resources={"cpu": 99}))
    deciding = scheduler()
    for now in range(3):
        deciding.run(known, float(now))
        known.apply(Applied(pod(f"more-{now}", cpu=1)))
    assert len(looks) == 2
    known.apply(Applied(node("n2", cpu=8)))
    deciding.run(known, 3.0)
    assert len(looks) == 4


# -- random clusters --------------------------------------------------------------------------------------------------


def empty_cluster_starts(objects: list[KObject], wanted: Job) -> bool:
    """Whether the job starts if it has all nodes to itself, by the scheduler itself."""
    machines = [replace(o, spec=replace(o.spec, unschedulable=False)) for o in objects if isinstance(o, Node)]
    machines = [replace(o, status=replace(o.status, conditions=[])) for o in machines]
    assert wanted.object is not None
    alone = replace(
        wanted.object, spec=replace(wanted.object.spec, queue="default", min_resources=None, priority_class_name="")
    )
    members = [task.pod for task in wanted.tasks.values()]
    known = cluster(machines, queue("default"), alone, members)
    scheduler().run(known, 0.0)
    return known.jobs[wanted.key].ready_count >= max(1, wanted.min_available)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_a_hopeless_job_does_not_start_on_empty_nodes(data: st.DataObject) -> None:
    objects = data.draw(cases(running=False, whims=False))
    for position, obj in enumerate(objects):
        if isinstance(obj, Pod):
            objects[position] = replace(obj, spec=replace(obj.spec, scheduling_gates=[]))
    known = cluster(objects)
    current = opened(known)
    for one in current.jobs:
        starts = empty_cluster_starts(objects, one)
        if current.state(EmptyNodes).is_hopeless(one):
            assert not starts
        elif len({task.shape.id for task in one.tasks.values()}) == 1 and not one.roles_matter:
            assert starts  # equal pods are counted exactly


class Changing:
    """A world with jobs outside and inside, in which nodes change their labels, taints and sizes."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        machines = [node(f"n{number}", cpu=4, created=0) for number in range(3)]
        self.world = World([*machines, queue("default", created=0)])
        for number in range(12):
            self._add(number)

    def _add(self, number: int) -> None:
        random = self.random
        name, count, cpu = f"j{number:02d}", random.randint(1, 3), random.choice([1, 2, 4, 5])
        self.world.put(
            group(
                name, min_member=count, min_resources={"cpu": count * cpu}, phase=random.choice(["Pending", "Inqueue"]),
                created=number,
            )
        )  # fmt: skip
        selector = random.choice([None, None, {"zone": "a"}, {"zone": "b"}])
        for member in range(count if random.random() < 0.7 else 0):
            self.world.put(
                pod(f"{name}-{member}", group=name, cpu=cpu, node_selector=selector, created=number)
            )  # fmt: skip

    def change(self) -> None:
        random = self.random
        if random.random() < 0.5:
            return
        taints = random.choice([[], [], [Taint(key="t", effect="NoSchedule")]])
        self.world.put(
            node(
                f"n{random.randint(0, 4)}", cpu=random.choice([2, 4, 8]), labels={"zone": random.choice("abc")},
                taints=taints, ready=random.random() < 0.8, created=0,
            )
        )  # fmt: skip


def story(seed: int, *, forgets: bool) -> list[Cycle]:
    changing, deciding, cycles = Changing(seed), scheduler(), []
    for _ in range(10):
        deciding = scheduler() if forgets else deciding
        changing.world.now += 1.0
        cycles.append(deciding.run(changing.world.cluster, changing.world.now))
        changing.world.carry_out(cycles[-1].decisions)
        changing.change()
    return cycles


def test_a_scheduler_that_remembers_rooms_decides_like_a_new_one() -> None:
    admitted = 0
    for seed in range(15):
        remembering, forgetting = story(seed, forgets=False), story(seed, forgets=True)
        for number, (one, other) in enumerate(zip(remembering, forgetting, strict=True)):
            assert (one.decisions, one.waiting) == (other.decisions, other.waiting), f"seed {seed}, cycle {number}"
            admitted += sum(isinstance(d, PatchGroup) and d.phase == "Inqueue" for d in one.decisions)
    assert admitted > 20  # or the worlds are too dull
