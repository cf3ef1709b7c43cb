"""Shares over a tree of queues: the examples of the textbook, the same trees filled by hand, and taking back.

`fill` is an independent reckoning: plain Python over nested tuples, everything anew for every task, walking down the
tree by comparing brothers instead of sorting queues by keys.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cmp_to_key
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from builders import cluster, group, node, plugin, pod, pods, queue, session
from node_queries import task_of
from oracles.stories import Story
from stromboli.api import Queue, names
from stromboli.cluster import Cluster, Holding, JobKey, QueueName, Status, fits
from stromboli.console.main import run
from stromboli.scheduling.plugins.drf import DominantShare
from stromboli.scheduling.session import Session

TREE = [["gang"], [plugin("drf", hierarchy=True), "predicates", "nodeorder"]]


def placed(name: str, path: str | None, weights: str | None = None, **facts: Any) -> Queue:
    """A queue with a place in the tree."""
    made = queue(name, **facts)
    if path is not None:
        made.metadata.annotations[names.HIERARCHY] = path
    if weights is not None:
        made.metadata.annotations[names.HIERARCHY_WEIGHTS] = weights
    return made


def amounts(story: Story, *jobs: str) -> dict[str, dict[str, int]]:
    """What jobs have, by name: CPUs, and memory in its own unit."""
    found = {}
    for name in jobs:
        held = story.known.axis.amounts(story.job(name).allocated)
        found[name] = {key: held[key] // (1000 if key == "cpu" else 1) for key in ("cpu", "memory") if key in held}
    return found


# -- by hand --------------------------------------------------------------------------------------------------------


@dataclass
class ByHand:
    """A node of the tree: `task` makes it a job of `count` tasks, `children` a branch."""

    name: str
    weight: Fraction = Fraction(1)
    children: list[ByHand] = field(default_factory=list)
    task: tuple[int, ...] = ()
    count: int = 0
    given: int = 0
    tried_in_vain: bool = False

    def jobs(self) -> list[ByHand]:
        return [self] if self.task else [job for child in self.children for job in child.jobs()]

    def paths(self) -> list[list[ByHand]]:
        """From here down to each queue in which somebody waits."""
        below = [child for child in self.children if child.waits]
        if self.children[0].task:
            return [[]] if below else []
        return [[child, *rest] for child in below for rest in child.paths()]

    @property
    def waits(self) -> bool:
        return any(job.given < job.count and not job.tried_in_vain for job in self.jobs())

    def look(self, total: tuple[int, ...], left: list[int]) -> tuple[bool, list[Fraction], Fraction]:
        """(saturated, amounts as parts of the cluster, share)."""
        if self.task:
            parts = [Fraction(size * self.given, all_) for size, all_ in zip(self.task, total, strict=True)]
            needs = [column for column, size in enumerate(self.task) if size]
            return self.given == self.count or any(left[column] == 0 for column in needs), parts, max(parts)
        views = [child.look(total, left) for child in self.children]
        poorest = min((share for saturated, _, share in views if share and not saturated), default=Fraction(0))
        parts = [Fraction(0)] * len(total)
        for saturated, own, share in views:
            factor = poorest / share if share and not saturated else 1
            parts = [sum_ + part * factor for sum_, part in zip(parts, own, strict=True)]
        return all(saturated for saturated, _, _ in views), parts, max(parts)


def fill(root: ByHand, total: tuple[int, ...]) -> dict[str, int]:
    """Give one task after the other to whom the tree says, until nothing fits; the tasks of each job."""
    left = list(total)

    def sooner(one: list[ByHand], other: list[ByHand]) -> int:
        """Walk down two paths; who has less at the first step where they differ goes first, else who is named first."""
        for a, b in zip(one, other, strict=False):
            (a_full, _, a_share), (b_full, _, b_share) = a.look(total, left), b.look(total, left)
            if (a_full, a_share / a.weight) != (b_full, b_share / b.weight):
                return -1 if (a_full, a_share / a.weight) < (b_full, b_share / b.weight) else 1
        return -1 if one[-1].name < other[-1].name else 1

    while root.waits:
        path = min(root.paths(), key=cmp_to_key(sooner))
        waiting = [job for job in path[-1].jobs() if job.waits]
        job = min(waiting, key=lambda job: (job.look(total, left)[2], job.name))
        if all(size <= free for size, free in zip(job.task, left, strict=True)):
            job.given += 1
            left = [free - size for size, free in zip(job.task, left, strict=True)]
        else:
            job.tried_in_vain = True
    return {job.name: job.given for job in root.jobs()}


def job_by_hand(name: str, cpu: int, memory: int, count: int) -> ByHand:
    return ByHand(name, task=(cpu, memory), count=count)


def queue_by_hand(*jobs: ByHand, weight: int = 1) -> ByHand:
    return ByHand(jobs[0].name, Fraction(weight), children=list(jobs))


# -- the examples of the textbook -----------------------------------------------------------------------------------

SCIENCE = [
    placed("sci", "root/sci", "100/50"),
    placed("dev", "root/eng/dev", "100/50/50"),
    placed("prod", "root/eng/prod", "100/50/50"),
]


# Ten CPUs and ten of memory. sci uses both, eng/dev CPUs alone, eng/prod memory alone. Each half of the cluster is one
# department's: five of both for sci, and eng's half is all CPUs for dev and all memory for prod.
def test_two_departments_and_complementary_teams() -> None:
    story = Story(
        node("n1", cpu=10, memory=10),
        SCIENCE,
        [group(name, queue=name) for name in ("sci", "dev", "prod")],
        pods("sci", 10, group="sci", cpu=1, memory=1),
        pods("dev", 10, group="dev", cpu=1),
        pods("prod", 10, group="prod", memory=1),
        actions="allocate",
        tiers=TREE,
    ).run()
    assert amounts(story, "sci", "dev", "prod") == {
        "sci": {"cpu": 5, "memory": 5},
        "dev": {"cpu": 5},
        "prod": {"memory": 5},
    }
    root = ByHand(
        "root",
        children=[
            queue_by_hand(job_by_hand("sci", 1, 1, 10)),
            ByHand(
                "eng",
                children=[queue_by_hand(job_by_hand("dev", 1, 0, 10)), queue_by_hand(job_by_hand("prod", 0, 1, 10))],
            ),
        ],
    )
    assert fill(root, (10, 10)) == {"sci": 5, "dev": 5, "prod": 5}


# Thirty of both, four branches of equal weight. Three jobs want CPUs: ten each. q3 has one of them and one that wants
# memory, as q4 has: once the CPUs are gone its first job is saturated and holds the second down no more. 15 each.
def test_a_branch_with_a_saturated_team_goes_on_with_the_other() -> None:
    places = {"pg1": "q1", "pg2": "q2", "pg31": "q3/q31", "pg32": "q3/q32", "pg4": "q4"}
    wants: dict[str, Any] = {name: {"memory" if name in ("pg32", "pg4") else "cpu": 1} for name in places}
    story = Story(
        node("n1", cpu=30, memory=30),
        [placed(f"queue-{n}", f"root/{p}", "/".join(["100"] + ["25"] * len(p.split("/")))) for n, p in places.items()],
        [group(name, queue=f"queue-{name}") for name in places],
        *[pods(name, 30, group=name, **wants[name]) for name in places],
        actions="allocate",
        tiers=TREE,
    ).run()
    due = {"pg1": 10, "pg2": 10, "pg31": 10, "pg32": 15, "pg4": 15}
    assert {name: sum(held.values()) for name, held in amounts(story, *places).items()} == due
    jobs = {
        name: queue_by_hand(job_by_hand(name, want.get("cpu", 0), want.get("memory", 0), 30))
        for name, want in wants.items()
    }
    q3 = ByHand("q3", children=[jobs["pg31"], jobs["pg32"]])
    assert fill(ByHand("root", children=[jobs["pg1"], jobs["pg2"], q3, jobs["pg4"]]), (30, 30)) == due


# -- any tree -------------------------------------------------------------------------------------------------------

sizes = st.sampled_from([(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (1, 3)])
some_jobs = st.lists(st.tuples(sizes, st.integers(1, 30)), min_size=1, max_size=3)
weights = st.integers(1, 4)
queues = st.tuples(weights, some_jobs)
departments = st.lists(st.tuples(weights, st.lists(queues, min_size=1, max_size=3)), min_size=2, max_size=4)
Specs = list[tuple[int, list[tuple[int, list[tuple[tuple[int, int], int]]]]]]


def planted(specs: Specs) -> tuple[list[Any], ByHand]:
    """Departments of (weight, queues of (weight, jobs of (task, count))): the objects, and the same by hand."""
    objects: list[Any] = []
    root = ByHand("root")
    for d, (department_weight, teams) in enumerate(specs):
        department = ByHand(f"d{d}", Fraction(department_weight))
        root.children.append(department)
        for q, (weight, jobs) in enumerate(teams):
            name = f"d{d}-q{q}"
            objects.append(placed(name, f"root/d{d}/{name}", f"1/{department_weight}/{weight}", created=0))
            team = ByHand(name, Fraction(weight))
            department.children.append(team)
            for j, ((cpu, memory), count) in enumerate(jobs):
                key = f"{name}-j{j}"
                objects += [group(key, queue=name, created=0), *pods(key, count, group=key, cpu=cpu, memory=memory)]
                team.children.append(job_by_hand(key, cpu, memory, count))
    return objects, root


def take_turns(current: Session, known: Cluster) -> None:
    """Place one pod at a time, of the job that comes first, until nothing fits; a job that fails is out."""
    statement = current.statement()
    candidates = [job for job in current.jobs if job.counts[Status.PENDING]]
    while candidates:
        job = min(candidates, key=lambda job: (current.queue_key(job.queue), current.job_key(job)))
        waiting = current.pending_tasks(job)
        if waiting and fits(waiting[0].request, current.nodes.idle[0]):
            statement.allocate(waiting[0], known.nodes["n1"])
        else:
            candidates.remove(job)


@settings(max_examples=60)
@given(specs=departments)
def test_any_tree_is_filled_as_by_hand(specs: Specs) -> None:
    objects, root = planted(specs)
    due = fill(root, (24, 30))
    known = cluster(node("n1", cpu=24, memory=30, pods=1000), objects)
    take_turns(session(known, tiers=TREE), known)
    assert {name: known.jobs[JobKey(f"default/{name}")].ready_count for name in due} == due


# The action asks for a queue's key when it puts it back, and must hear of others whose keys fell meanwhile.
@settings(max_examples=60)
@given(specs=departments)
def test_allocate_fills_any_tree_as_by_hand(specs: Specs) -> None:
    objects, root = planted(specs)
    due = fill(root, (24, 30))
    story = Story(node("n1", cpu=24, memory=30, pods=1000), objects, actions="allocate", tiers=TREE).run()
    assert {name: story.job(name).ready_count for name in due} == due


# -- live, and without a trace --------------------------------------------------------------------------------------


# Of 10 CPUs: a has 1 of weight 2, b/b1 has 2 and b/b2 nothing yet, so b counts 2.
def test_keys_follow_what_happens_and_undo_leaves_no_trace() -> None:
    known = cluster(
        node("n1", cpu=10),
        placed("a", "root/a", "1/2"),
        placed("b1", "root/b/b1", "1/1/1"),
        placed("b2", "root/b/b2", "1/1/1"),
        [group(name, queue=name) for name in ("a", "b1", "b2")],
        pod("a-0", group="a", cpu=1, node="n1"),
        pods("b1", 2, group="b1", cpu=1, node="n1"),
        *[pod(f"w-{name}", group=name, cpu=1) for name in ("a", "b1", "b2")],
    )
    current = session(known, tiers=TREE)
    assert steps(current, "a") == [(False, Fraction(1, 20))]
    assert steps(current, "b1") == [(False, Fraction(2, 10)), (False, Fraction(2, 10))]
    assert steps(current, "b2") == [(False, Fraction(2, 10)), (False, 0)]
    before = {name: current.queue_key(queue) for name, queue in current.queues.items()}
    statement = current.statement()
    statement.allocate(task_of(known, "w-a"), known.nodes["n1"])
    assert steps(current, "a") == [(True, Fraction(1, 10))]  # it has all it wants now
    statement.allocate(task_of(known, "w-b2"), known.nodes["n1"])
    # So has b2, and counts with its one; b1 wants more and is the poorest that does: 2 + 1.
    assert steps(current, "b2") == [(False, Fraction(3, 10)), (True, Fraction(1, 10))]
    statement.evict(task_of(known, "b1-0"), reason="Reclaimed", message="")
    assert steps(current, "b1") == [(False, Fraction(2, 10)), (False, Fraction(1, 10))]
    statement.discard()
    assert {name: current.queue_key(queue) for name, queue in current.queues.items()} == before


# b1 and b2 are both hungry and have 4 and 1 of 10: b counts twice the poorest, 2, and stands before a with its 3.
def test_a_branch_counts_as_far_as_the_poorest_has_come() -> None:
    known = cluster(
        node("n1", cpu=10),
        placed("a", "root/a", "1/1"),
        placed("b1", "root/b/b1", "1/1/1"),
        placed("b2", "root/b/b2", "1/1/1"),
        [group(name, queue=name) for name in ("a", "b1", "b2")],
        pods("a", 3, group="a", cpu=1, node="n1"),
        pods("b1", 4, group="b1", cpu=1, node="n1"),
        pods("b2", 1, group="b2", cpu=1, node="n1"),
        *[pod(f"w-{name}", group=name, cpu=1) for name in ("a", "b1", "b2")],
    )
    current = session(known, tiers=TREE)
    assert steps(current, "b1") == [(False, Fraction(2, 10)), (False, Fraction(4, 10))]
    in_order = sorted(current.queues.values(), key=current.queue_key)
    assert [queue.name for queue in in_order if queue.jobs] == ["b2", "b1", "a"]


# Two hungry jobs of one queue, on 10 CPUs and 10 GB: one has 1 CPU, the other 4. The queue counts 1 + 1 of the CPUs.
# The first gets a pod of 4 GB: now both have 4/10, so both count with all they have, and that is 5 CPUs and 4 GB.
def test_a_job_of_unlike_pods_changes_its_profile() -> None:
    known = cluster(
        node("n1", cpu=10, memory=10),
        placed("q1", "root/q1"),
        [group(name, queue="q1") for name in ("mixed", "even")],
        pod("m", group="mixed", cpu=1, node="n1"),
        pods("e", 4, group="even", cpu=1, node="n1"),
        pod("w-m", group="mixed", memory=4),
        pod("w-m2", group="mixed", cpu=1, memory=1),
        pod("w-e", group="even", cpu=1),
    )
    current = session(known, tiers=TREE)
    assert steps(current, "q1") == [(False, Fraction(2, 10))]
    current.statement().allocate(task_of(known, "w-m"), known.nodes["n1"])
    assert steps(current, "q1") == [(False, Fraction(5, 10))]


# A cordoned node has 10 CPUs that nobody can get, whoever leaves it. When the other one is full, all who want CPUs are
# saturated, even if they have nothing; who wants memory goes on.
def test_a_resource_that_has_run_out_saturates() -> None:
    known = cluster(
        node("n1", cpu=1, memory=4),
        node("n2", cpu=10, memory=4, cordoned=True),
        [placed(name, f"root/{name}") for name in "abc"],
        [group(name, queue=name) for name in "abc"],
        pods("a", 2, group="a", cpu=1),
        pod("b", group="b", cpu=1),
        pod("c", group="c", memory=1),
        pod("c-2", group="c", memory=1, node="n2"),
    )
    current = session(known, tiers=TREE)
    assert [steps(current, name)[0][0] for name in "abc"] == [False, False, False]
    statement = current.statement()
    statement.allocate(task_of(known, "a-0"), known.nodes["n1"])
    assert [steps(current, name)[0][0] for name in "abc"] == [True, True, False]
    statement.evict(task_of(known, "c-2"), reason="Reclaimed", message="")
    assert [steps(current, name)[0][0] for name in "abc"] == [True, True, False]


def test_who_cannot_be_given_anything_is_saturated_and_who_lost_something_is_not() -> None:
    known = cluster(
        node("n1", cpu=10),
        placed("closed", "root/closed", state="Closed"),
        placed("gated", "root/gated"),
        placed("content", "root/content"),
        [group(name, queue=name, min_member=0) for name in ("closed", "gated", "content")],
        pod("a", group="closed", cpu=1),
        pod("b", group="gated", cpu=1, gated=True),
        pods("c", 2, group="content", cpu=1, node="n1"),
    )
    current = session(known, tiers=TREE)
    assert [steps(current, name)[0][0] for name in ("closed", "gated", "content")] == [True, True, True]
    current.statement().evict(task_of(known, "c-0"), reason="Reclaimed", message="")
    assert steps(current, "content") == [(False, Fraction(1, 10))]


# A Reservation of q1 keeps 3 of 10 CPUs, and a job of q1 has 1.
def test_what_a_reservation_keeps_counts_in_its_queue() -> None:
    known = cluster(
        node("n1", cpu=10),
        placed("q1", "root/q1"),
        group("pg1", queue="q1"),
        pod("r", group="pg1", cpu=1, node="n1"),
        pod("w", group="pg1", cpu=1),
    )
    current = session(known, tiers=TREE)
    assert steps(current, "q1") == [(False, Fraction(1, 10))]
    owner = known.queues[QueueName("q1")]
    kept = Holding(known.nodes["n1"], current.axis.vector({"cpu": 3000}), owner, "default")
    current.ledger.set_holding("keep", kept)
    assert steps(current, "q1") == [(False, Fraction(4, 10))]


# Eight CPUs and sixteen jobs that were not let in yet, each of one CPU: by weights 3 : 1 six and two of them enter.
def test_jobs_are_let_in_by_the_tree() -> None:
    story = Story(
        node("n1", cpu=8),
        placed("a", "root/a", "1/3"),
        placed("b", "root/b", "1/1"),
        [group(f"{q}{n}", queue=q, min_resources={"cpu": 1}, phase="Pending") for q in "ab" for n in range(8)],
        actions="enqueue",
        tiers=[["gang"], [plugin("drf", hierarchy=True), plugin("overcommit", {"overcommit-factor": 1.0})]],
    ).run()
    inside = [story.phase(f"{q}{n}") == "Inqueue" and q for q in "ab" for n in range(8)]
    assert (inside.count("a"), inside.count("b")) == (6, 2)


# -- places in the tree ---------------------------------------------------------------------------------------------


def steps(current: Session, name: str) -> list[tuple[bool, Fraction]]:
    """The key of a queue, with shares as parts of the cluster."""
    one = DominantShare(current.total).one
    key = current.queue_key(current.queues[QueueName(name)])[0]
    return [(saturated, Fraction(value) / one) for saturated, value in key]


def levels(*made: Queue) -> dict[str, list[Fraction]]:
    """Of queues that have one of ten CPUs each: share / weight at every step of their paths."""
    known = cluster(
        node("n1", cpu=10),
        made,
        [group(q.metadata.name, queue=q.metadata.name) for q in made],
        [pod(q.metadata.name, group=q.metadata.name, cpu=1, node="n1") for q in made],
    )
    current = session(known, tiers=TREE)
    return {q.metadata.name: [10 * value for _, value in steps(current, q.metadata.name)] for q in made}


@pytest.mark.parametrize(
    ("path", "weights", "expected"),
    [
        (None, None, [1]),  # a child of root, of weight 1
        (None, "1/4", [1]),
        ("root", "7", [1]),
        ("", "", [1]),
        ("elsewhere/a", "1/4", [1]),
        ("root//a", "1/4/4", [1]),
        ("root/a", "1/4", [Fraction(1, 4)]),
        ("root/a", None, [1]),
        ("root/a/b", "1/4", [Fraction(1, 4), 1]),  # too few: the rest is 1
        ("root/a", "1/4/9", [Fraction(1, 4)]),
        ("root/a", "1/0", [1]),
        ("root/a", "1/-3", [1]),
        ("root/a", "1/0.5", [1]),
        ("root/a", "1/many", [1]),
        ("root/a", "1/2.5", [Fraction(2, 5)]),
        ("root/a", "none", [1]),
    ],
)
def test_every_annotation_has_a_place(path: str | None, weights: str | None, expected: list[Fraction]) -> None:
    assert levels(placed("q1", path, weights)) == {"q1": expected}


def test_queues_of_one_path_share_its_branch() -> None:
    # Together they have 2 of weight 4; each is a child of weight 1 below.
    same = levels(placed("q1", "root/a", "1/4"), placed("q2", "root/a", "1/4"))
    assert same == {"q1": [Fraction(1, 2), 1], "q2": [Fraction(1, 2), 1]}


def test_a_queue_above_another_is_a_child_of_its_own_branch() -> None:
    above = levels(placed("q1", "root/a", "1/4"), placed("q2", "root/a/b", "1/4/2"))
    assert above == {"q1": [Fraction(1, 2), 1], "q2": [Fraction(1, 2), Fraction(1, 2)]}


def test_the_oldest_queue_says_what_a_branch_weighs() -> None:
    made = levels(placed("q1", "root/a/x", "1/5/1", created=9), placed("q2", "root/a/y", "1/2/1", created=8))
    assert made == {"q1": [1, 1], "q2": [1, 1]}


# -- taking back ----------------------------------------------------------------------------------------------------

RECLAIM = [["gang"], [plugin("drf", hierarchy=True), "predicates"]]


def may_take(current: Session, known: Cluster, evictor: str, candidate: str, *, whole: bool = False) -> bool:
    return current.may_evict("reclaimable", task_of(known, evictor), task_of(known, candidate), whole=whole)


# dev has all ten CPUs, then sci comes with equal weight. It takes while it has no more after the move: 5 and 5. The
# sixth would make it 6 and 4.
def test_a_department_takes_back_its_share_and_then_all_is_quiet() -> None:
    story = Story(
        node("n1", cpu=10),
        placed("sci", "root/sci", "100/50"),
        placed("dev", "root/eng/dev", "100/50/50"),
        group("dev", queue="dev", min_member=0),
        pods("dev", 10, group="dev", cpu=1, node="n1"),
        group("sci", queue="sci"),
        pods("sci", 10, group="sci", cpu=1),
        actions="reclaim, allocate",
        tiers=RECLAIM,
    )
    assert story.live(3, successors=True) == 5
    assert amounts(story, "sci", "dev") == {"sci": {"cpu": 5}, "dev": {"cpu": 5}}
    assert story.live(5, successors=True) == 0


# Of 12 CPUs, sci of weight 3 has 4 and eng of weight 1 has 8. After the move 5/3 < 7/1; the other way 9/1 > 3/3.
# Inside eng, test has 2 and dev 6: 3 < 5, whatever the departments have.
def test_weights_and_the_place_where_paths_part() -> None:
    known = cluster(
        node("n1", cpu=12),
        placed("sci", "root/sci", "1/3"),
        placed("dev", "root/eng/dev", "1/1/1"),
        placed("test", "root/eng/test", "1/1/1"),
        [group(name, queue=name, min_member=0) for name in ("sci", "dev", "test")],
        pods("sci", 4, group="sci", cpu=1, node="n1"),
        pods("dev", 6, group="dev", cpu=1, node="n1"),
        pods("test", 2, group="test", cpu=1, node="n1"),
        *[pod(f"w-{name}", group=name, cpu=1) for name in ("sci", "dev", "test")],
    )
    current = session(known, tiers=RECLAIM)
    keys = {name: current.queue_key(queue) for name, queue in current.queues.items()}
    assert may_take(current, known, "w-sci", "dev-0")
    assert may_take(current, known, "w-sci", "test-0")
    assert not may_take(current, known, "w-dev", "sci-0")
    assert not may_take(current, known, "w-test", "sci-0")
    assert may_take(current, known, "w-test", "dev-0")
    assert not may_take(current, known, "w-dev", "test-0")
    assert not may_take(current, known, "w-dev", "dev-0")  # queues have no say among their own
    assert {name: current.queue_key(queue) for name, queue in current.queues.items()} == keys


# sci of weight 3 has more than dev, and less for its weight: 7/3 < 4/1 after the move.
def test_a_heavy_branch_may_take_from_one_that_has_less() -> None:
    known = cluster(
        node("n1", cpu=12),
        placed("sci", "root/sci", "1/3"),
        placed("dev", "root/dev", "1/1"),
        [group(name, queue=name, min_member=0) for name in ("sci", "dev")],
        pods("sci", 6, group="sci", cpu=1, node="n1"),
        pods("dev", 5, group="dev", cpu=1, node="n1"),
        pod("w", group="sci", cpu=1),
    )
    assert may_take(session(known, tiers=RECLAIM), known, "w", "dev-0")


# y has two hungry jobs, with 6 and 1 of 10 CPUs, and x has 3. x wants one more, and a pod of y has two. While CPUs are
# left y counts 1 + 1 in the tree: it would be served before x, so x takes nothing from it. If none were left, all of y
# would be saturated, and count with the 5 it still has against the 4 of x. After the move the pod leaves one behind.
# With pods of one CPU nothing is left: 4 < 6.
@pytest.mark.parametrize(("size", "allowed"), [(2, False), (1, True)])
def test_what_is_left_is_looked_at_after_the_move(size: int, allowed: bool) -> None:
    known = cluster(
        node("n1", cpu=10),
        placed("x", "root/x"),
        placed("y", "root/y"),
        [group(name, queue=name[0], min_member=0) for name in ("x", "y-rich", "y-poor")],
        pods("x", 3, group="x", cpu=1, node="n1"),
        pods("y-rich", 6 // size, group="y-rich", cpu=size, node="n1"),
        pod("y-poor", group="y-poor", cpu=1, node="n1"),
        *[pods(f"w-{name}", 2, group=name, cpu=1) for name in ("x", "y-rich", "y-poor")],
    )
    assert may_take(session(known, tiers=RECLAIM), known, "w-x-0", "y-rich-0") is allowed


# sci's one pod is all it wants, and there is a CPU left elsewhere: after the move sci is saturated and dev is not.
# Nevertheless sci has less.
def test_the_last_pod_of_a_claimant_counts_like_the_first() -> None:
    known = cluster(
        node("n1", cpu=4),
        node("n2", cpu=1),
        placed("sci", "root/sci"),
        placed("dev", "root/dev"),
        group("dev", queue="dev", min_member=0),
        pods("dev", 2, group="dev", cpu=2, node="n1"),
        group("sci", queue="sci"),
        pod("w", group="sci", cpu="1500m"),
    )
    assert may_take(session(known, tiers=RECLAIM), known, "w", "dev-0")


# x has a job with 5 of 12 CPUs and a new one that wants its first; y has 4. In the tree x would count 1 + 1 after the
# move, and y 3; and if y then wanted its pod back, it would count 4 and x 5 again, as its new job has nothing. In plain
# sums x has 6 and takes nothing. (Two CPUs are left on other nodes, say: nobody is saturated.)
def test_a_first_pod_is_no_reason_to_take_turns_for_ever() -> None:
    known = cluster(
        node("n1", cpu=12),
        placed("x", "root/x"),
        placed("y", "root/y"),
        [group(name, queue=name[0], min_member=0) for name in ("x-old", "x-new", "y")],
        pods("x-old", 5, group="x-old", cpu=1, node="n1"),
        pods("y", 4, group="y", cpu=1, node="n1"),
        *[pods(f"w-{name}", 2, group=name, cpu=1) for name in ("x-old", "x-new", "y")],
    )
    current = session(known, tiers=RECLAIM)
    assert not may_take(current, known, "w-x-new-0", "y-0")
    statement = current.statement()
    statement.allocate(task_of(known, "w-x-new-0"), known.nodes["n1"])
    assert steps(current, "x") == [(False, Fraction(2, 12))]


# A gang of four goes as a whole: then its queue has nothing, and nobody has less than that; with two it still has 4.
@pytest.mark.parametrize(("gangs", "allowed"), [(1, False), (2, True)])
def test_a_gang_that_goes_as_a_whole_is_judged_as_a_whole(gangs: int, allowed: bool) -> None:
    known = cluster(
        node("n1", cpu=8),
        placed("a", "root/a"),
        placed("b", "root/b"),
        [group(f"g{n}", queue="a", min_member=4) for n in range(gangs)],
        *[pods(f"g{n}", 4, group=f"g{n}", cpu=1, node="n1") for n in range(gangs)],
        group("b", queue="b"),
        pod("w", group="b", cpu=1),
    )
    current = session(known, tiers=RECLAIM)
    statement = current.statement()
    for number in range(4):  # one after the other: the last is judged like the first
        assert may_take(current, known, "w", f"g0-{number}", whole=True) is allowed
        if allowed:
            statement.evict(task_of(known, f"g0-{number}"), reason="Reclaimed", message="")


running = st.lists(st.tuples(sizes, st.integers(0, 4), st.integers(0, 3)), min_size=1, max_size=3)
busy_teams = st.lists(st.tuples(weights, running), min_size=1, max_size=2)
busy = st.lists(st.tuples(weights, busy_teams), min_size=2, max_size=3)


# What runs fills the node exactly, in one resource at least; everything that is evicted comes back and waits.
@settings(max_examples=40)
@given(specs=busy)
def test_taking_back_comes_to_an_end(specs: Any) -> None:
    objects: list[Any] = []
    used = [0, 0]
    for d, (department_weight, teams) in enumerate(specs):
        for q, (weight, jobs) in enumerate(teams):
            name = f"d{d}-q{q}"
            objects.append(placed(name, f"root/d{d}/{name}", f"1/{department_weight}/{weight}"))
            for j, ((cpu, memory), runs, waits) in enumerate(jobs):
                key = f"{name}-j{j}"
                objects.append(group(key, queue=name, min_member=int(runs == 0)))
                objects += pods(f"{key}-r", runs, group=key, cpu=cpu, memory=memory, node="n1")
                objects += pods(f"{key}-w", waits, group=key, cpu=cpu, memory=memory)
                used = [used[0] + cpu * runs, used[1] + memory * runs]
    story = Story(
        node("n1", cpu=max(used[0], 1), memory=max(used[1], 1), pods=1000),
        objects,
        actions="reclaim, allocate",
        tiers=RECLAIM,
    )
    story.live(12, successors=True)
    assert story.live(3, successors=True) == 0, "queues go on evicting each other"


# -- as a user runs it ----------------------------------------------------------------------------------------------

SCENARIOS = Path(__file__).parents[1] / "simulation" / "scenarios"


@pytest.mark.parametrize(
    ("scenario", "due"),
    [
        ("departments", {"sci": {"cpu": "5", "memory": "5"}, "dev": {"cpu": "5"}, "prod": {"memory": "5"}}),
        (
            "branches",
            {
                "q1": {"cpu": "10"},
                "q2": {"cpu": "10"},
                "q31": {"cpu": "10"},
                "q32": {"memory": "15"},
                "q4": {"memory": "15"},
            },
        ),
    ],
)
def test_a_simulation_divides_by_the_tree(
    scenario: str, due: dict[str, Any], capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    config = str(SCENARIOS / "hierarchy-config.yaml")
    command = ["simulate", str(SCENARIOS / f"{scenario}.yaml"), "--config", config, "--until", "5s", "--output", "json"]
    assert run(command) == 0
    report = json.loads(capfdbinary.readouterr().out)
    assert {name: report["queues"][name]["allocated"] for name in due} == due
