"""What holds for any tree of queues: nobody ever has more than a family may have, and taking back comes to an end.

Amounts are small whole numbers on purpose, and pods are as large as what queues deserve: most moves then take more than
was borrowed, and leave somebody with less than is due. The books are recounted from the pods alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from builders import cluster, group, node, pod, pods, priority_class, queue, session
from builders import plugin as part
from oracles.stories import Story
from stromboli.api import KObject, Pod, PodGroup, Queue, key, names
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts
from stromboli.cluster import Cluster, Status
from stromboli.scheduling.configuration.configuration_file import PluginOption

INNER = ("x", "y")
LEAVES = ("a", "b", "c", "d")


def often(draw: st.DrawFn, parts: int, of: int) -> bool:
    """True in so many of so many cases; booleans by themselves shun what makes a case interesting."""
    return draw(st.sampled_from(range(of))) >= of - parts


@st.composite
def stated(draw: st.DrawFn, choices: tuple[int, ...]) -> dict[str, int]:
    made = {"cpu": draw(st.sampled_from(choices)), "memory": draw(st.sampled_from(choices))}
    return {name: amount for name, amount in made.items() if often(draw, 3, 4)}


@st.composite
def trees(draw: st.DrawFn) -> list[Queue]:
    made = []
    inner = list(INNER[: draw(st.sampled_from([0, 1, 2, 2]))])
    for name in [*inner, *LEAVES[: draw(st.sampled_from([2, 3, 4, 4]))]]:
        # An inner queue may stand below the other one; circles and missing parents happen, too.
        parents = [*inner, *inner, "root"] if name in LEAVES else ["", "root", *INNER]
        line = queue(
            name,
            weight=draw(st.sampled_from([1, 2, 3])),
            priority=draw(st.sampled_from([0, 0, 0, 1])),
            capability=draw(stated((4, 6, 9))) if often(draw, 1 if name in LEAVES else 2, 3) else None,
            deserved=draw(stated((1, 2, 3, 5))) if often(draw, 3, 4) else None,
            guarantee=draw(stated((1, 2))) if often(draw, 1, 6) else None,
            reclaimable=not often(draw, 1, 8),
        )
        made.append(replace(line, spec=replace(line.spec, parent=draw(st.sampled_from(parents)))))
    return made


@st.composite
def jobs(draw: st.DrawFn, wave: str, leaves: list[str]) -> list[KObject]:
    made: list[KObject] = []
    for number in range(draw(st.sampled_from([2, 3, 4, 5]))):
        name = f"{wave}{number}"
        count = draw(st.sampled_from([1, 2, 3, 5]))
        made.append(
            group(
                name,
                queue=draw(st.sampled_from(leaves)),
                min_member=draw(st.sampled_from([0, 1, count])),
                priority_class=draw(st.sampled_from(["", "", "high"])),
            )
        )
        size = {"cpu": draw(st.sampled_from([0, 1, 2, 4])), "memory": draw(st.sampled_from([0, 1, 2, 4]))}
        made.extend(pods(name, count, group=name, **({r: n for r, n in size.items() if n} or {"cpu": 1})))
    return made


@st.composite
def cases(draw: st.DrawFn) -> tuple[Story, list[KObject]]:
    """A cluster with its first jobs, and those that come later."""
    machines = [
        node(f"n{number}", cpu=draw(st.sampled_from([4, 6, 9])), memory=draw(st.sampled_from([4, 6, 9])))
        for number in range(draw(st.sampled_from([1, 2])))
    ]
    tree = draw(trees())
    leaves = [line.metadata.name for line in tree if line.metadata.name in LEAVES]
    option = part("capacity", {"ancestorReclaimLevel": draw(st.sampled_from([0, 1, 2]))}, hierarchy=True)
    unfair = part("drf", preemptable=False)
    assert isinstance(option, PluginOption)
    assert isinstance(unfair, PluginOption)
    told = Story(
        machines, tree, priority_class("high", 100), draw(jobs("early", leaves)),
        actions="enqueue, reclaim, allocate, preempt, backfill",
        tiers=[["priority", "gang", "conformance"], [unfair, "predicates", option, "nodeorder"]],
    )  # fmt: skip
    return told, draw(jobs("late", leaves))


def families(told: Story) -> Iterator[tuple[Queue, set[str]]]:
    """Every queue with the names of those at or below it; circles are left out."""
    lines = {name: found.object for name, found in told.known.queues.items() if found.object is not None}
    for name, line in lines.items():
        members = set()
        for leaf in lines:
            step, seen = leaf, set()
            while step in lines and step not in seen:
                seen.add(step)
                step = lines[step].spec.parent  # type: ignore[assignment]
            if step not in seen and name in seen:
                members.add(leaf)
        yield line, members


def used(told: Story) -> dict[str, Counter[str]]:
    """What each queue has, pod by pod."""
    owners = {job.key: job.object.spec.queue for job in told.known.jobs.values() if isinstance(job.object, PodGroup)}
    taken: dict[str, Counter[str]] = {}
    for task in told.known.tasks.values():
        found: Pod = task.pod
        if found.spec.node_name:
            owner = owners[f"{found.metadata.namespace}/{found.metadata.annotations[names.GROUP_NAME]}"]  # type: ignore[index]
            taken.setdefault(owner, Counter()).update(pod_requests(found.spec))
    return taken


def check_limits(told: Story) -> None:
    taken = used(told)
    for line, members in families(told):
        has = sum((taken.get(name, Counter()) for name in members), start=Counter())
        for resource, most in amounts(line.spec.capability).items():
            assert has[resource] <= most, f"{key(line)} has too much {resource}"


@settings(max_examples=100)
@given(cases())
def test_no_family_ever_has_more_than_it_may_have(case: tuple[Story, list[KObject]]) -> None:
    told, late = case
    for cycle in range(8):
        if cycle == 3:
            told.add(late)
        told.run()
        told.carry_out(successors=True)
        check_limits(told)


# Ten jobs of five pods at the most, of two priorities and in four queues: thirty cycles are far more than it takes to
# give everybody his due one eviction at a time. The thirty after that have to be quiet.
@settings(max_examples=60)
@given(cases())
def test_taking_back_comes_to_an_end(case: tuple[Story, list[KObject]]) -> None:
    told, late = case
    told.live(3, successors=True)
    told.add(late)
    told.live(30, successors=True)
    assert told.live(30, successors=True) == 0


# -- by verdicts alone ------------------------------------------------------------------------------------------------
#
# Room on nodes, gangs and the order of queues keep most pods from ever meeting. Here any waiting pod may take the place
# of any running one, whatever their sizes, if the verdict is yes: the hardest test of the argument that lacks fall.

Size = tuple[int, int]
sizes = st.lists(st.tuples(st.sampled_from([0, 1, 2, 4]), st.sampled_from([0, 1, 2, 4])).filter(any), max_size=4)
due = st.tuples(st.sampled_from([0, 2, 3, 5]), st.sampled_from([0, 2, 3, 5]))
lines = st.lists(st.tuples(due, sizes, sizes), min_size=2, max_size=3)


def crowded(specs: list[tuple[Size, list[Size], list[Size]]]) -> Cluster:
    """Queues of (deserved CPU and memory, pods that run, pods that wait), on a full node. Every pod is a job."""
    objects: list[KObject] = []
    for number, ((cpu, memory), running, waiting) in enumerate(specs):
        due = {name: amount for name, amount in (("cpu", cpu), ("memory", memory)) if amount}
        objects.append(queue(f"q{number}", deserved=due))
        for where, pods_there in (("n1", running), ("", waiting)):
            for index, (cpus, bytes_) in enumerate(pods_there):
                name = f"q{number}-{'r' if where else 'w'}-{index}"
                asks = {r: n for r, n in (("cpu", cpus), ("memory", bytes_)) if n}
                objects.append(group(name, queue=f"q{number}", min_member=0))
                objects.append(pod(name, group=name, node=where, **asks))  # type: ignore[arg-type]
    room = [max(1, sum(size[axis] for spec in specs for size in spec[1])) for axis in (0, 1)]
    return cluster(node("n1", cpu=room[0], memory=room[1], pods=1000), *objects)


@settings(max_examples=500)
@given(lines)
def test_taking_places_by_verdicts_alone_comes_to_an_end(specs: list[tuple[Size, list[Size], list[Size]]]) -> None:
    known = crowded(specs)
    current = session(known, tiers=[["capacity"]])
    tasks = [task for _, task in sorted(known.tasks.items())]
    moves = 0
    moved = True
    while moved:
        moved = False
        for evictor in [task for task in tasks if task.status is Status.PENDING]:
            for victim in [task for task in tasks if task.status is Status.RUNNING]:
                if current.may_evict("reclaimable", evictor, victim):
                    place = victim.node
                    current.ledger.move(victim, Status.PENDING, None)
                    current.ledger.move(evictor, Status.RUNNING, place)
                    moves += 1
                    moved = True
                    assert moves <= 20 * len(tasks), "queues go on evicting each other"
                    break


# -- two that could go on for ever ------------------------------------------------------------------------------------


def full_house(*objects: KObject | Iterable[KObject]) -> Story:
    return Story(*objects, actions="reclaim, allocate", tiers=[["gang"], ["capacity", "predicates", "nodeorder"]])


# Two queues that deserve 3 of 6, and two gangs of 3 and 3. With its first pod the one that waits is within its due,
# and the other would be left with none: it lacks 3 then, as the claimant does now. If that were allowed, the second pod
# would fill the room that is left, and the other gang could claim the same way.
def test_two_gangs_that_are_both_too_large_do_not_take_turns() -> None:
    told = full_house(
        node("n1", cpu=6),
        queue("q1", deserved={"cpu": 3}),
        queue("q2", deserved={"cpu": 3}),
        group("g1", queue="q1", min_member=2),
        group("g2", queue="q2", min_member=2),
        pods("a", 2, group="g1", cpu=3, node="n1"),
        pods("b", 2, group="g2", cpu=3),
    )
    assert told.live(20, successors=True) == 0


# Both deserve 5 of 10 CPUs and 5 of 10 bytes. q1 has 8 and 2, q2 has 2 and 8: each has borrowed what the other lacks,
# and each has pods that are within its due in one of the two.
def test_two_queues_that_borrow_from_each_other_fall_quiet() -> None:
    due = {"cpu": 5, "memory": 5}
    told = full_house(
        node("n1", cpu=10, memory=10),
        queue("q1", deserved=due),
        queue("q2", deserved=due),
        [group(name, queue=f"q{name[1]}", min_member=0) for name in ("a1", "b1", "c1", "a2", "b2", "c2")],
        [pod(f"p-{name}", group=name, cpu=4, memory=1, node="n1") for name in ("a1", "b1")],
        [pod(f"p-{name}", group=name, cpu=1, memory=4, node="n1") for name in ("a2", "b2")],
        pod("w1", group="c1", cpu=1, memory=1),
        pod("w2", group="c2", cpu=1, memory=1),
    )
    told.live(10, successors=True)
    assert told.live(20, successors=True) == 0
