"""What holds for any cluster and any number of cycles, with the built-in configuration.

The books are recounted here from the objects alone, in plain loops: none of the scheduler's own sums is believed.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties.random_clusters import World, cases, contests, known, scheduler
from stromboli.api import KObject, Node, Pod, PodGroup, key, names
from stromboli.api.pod_requests import pod_requests
from stromboli.api.quantity import amounts
from stromboli.cluster import Status, Task
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Decision, Evict
from stromboli.scheduling.plugins.gang import Gang
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

ENDED = ("Succeeded", "Failed")


@st.composite
def stories(draw: st.DrawFn) -> World:
    return World(draw(st.one_of(cases(), contests())), grace=draw(st.integers(1, 3)), replaces=draw(st.booleans()))


def let_some_finish(world: World, draw: st.DrawFn) -> None:
    """Up to two running pods end by themselves before the next cycle."""
    running = sorted(
        key(pod)
        for pod in world.pods
        if pod.spec.node_name and pod.status.phase not in ENDED and pod.metadata.deletion_timestamp is None
    )
    for name in draw(st.lists(st.sampled_from(running), max_size=2, unique=True)) if running else ():
        world.finish(name, draw(st.sampled_from(ENDED)))


# -- columns, and room on nodes ---------------------------------------------------------------------------------------


class Watching(Gang):
    """The gang plugin, with an eye on every placement at the moment it is made."""

    def __init__(self, arguments: Arguments) -> None:
        super().__init__(arguments)

    def open(self, session: Session) -> None:
        super().open(session)
        table = session.nodes

        def look(task: Task) -> None:
            assert task.node is not None
            row = task.node.row
            asked = task.request > 0
            if task.status is Status.ALLOCATED:
                assert (table.idle[row][asked] >= 0).all(), f"{task} was given more than was idle"
            elif task.status is Status.PIPELINED:
                assert (table.future_idle_of(row)[asked] >= 0).all(), f"{task} was promised more than will be free"

        session.add_handlers(allocate=look)


def watched() -> Scheduler:
    def watch(registry: Registry) -> None:
        registry.register_plugin("gang", Watching)

    return scheduler(watch)


def room_taken(world: World) -> dict[str, Counter[str]]:
    taken: dict[str, Counter[str]] = {}
    for pod in world.pods:
        if pod.spec.node_name and pod.status.phase not in ENDED:
            taken.setdefault(pod.spec.node_name, Counter()).update({**pod_requests(pod.spec), "pods": 1})
    return taken


def check_nodes(world: World, decisions: list[Decision]) -> None:
    """Where we put a pod, there is at least as much as all pods there ask for, in every resource it asks for."""
    taken = room_taken(world)
    for bind in decisions:
        if isinstance(bind, Bind):
            machine = world.objects["Node", bind.node]
            assert isinstance(machine, Node)
            offered = amounts(machine.status.allocatable)
            for resource, amount in {**pod_requests(world.pod(bind.task).spec), "pods": 1}.items():
                if amount:
                    assert taken[bind.node][resource] <= offered.get(resource, 0), f"{resource} of {bind.node}"


@settings(max_examples=100)
@given(stories(), st.data())
def test_no_node_is_ever_given_more_than_it_has(world: World, data: st.DataObject) -> None:
    deciding = watched()
    for _ in range(3):
        decisions = world.cycle(deciding)
        world.cluster.validate()
        leaving_later, world.leaving = world.leaving, []
        world.carry_out(decisions)
        check_nodes(world, decisions)
        world.leaving = leaving_later + world.leaving
        let_some_finish(world, data.draw)
        world.cluster.validate()


# -- gangs ------------------------------------------------------------------------------------------------------------


def group_of(pod: Pod) -> str:
    return f"{pod.metadata.namespace}/{pod.metadata.annotations.get(names.GROUP_NAME, '')}"


def at_work(world: World, gang: PodGroup) -> list[Pod]:
    """Its pods that run or did their work."""
    return [
        pod
        for pod in world.pods
        if group_of(pod) == key(gang)
        and (
            pod.status.phase == "Succeeded"
            or (pod.spec.node_name and pod.status.phase != "Failed" and pod.metadata.deletion_timestamp is None)
        )
    ]


def is_whole(world: World, gang: PodGroup) -> bool:
    working = at_work(world, gang)
    minimums = gang.spec.min_task_member
    if len(working) < gang.spec.min_member:
        return False
    if sum(minimums.values()) > gang.spec.min_member:
        return True  # more asked of the roles than of the gang: taken for a mistake, as in Volcano
    roles = Counter(pod.metadata.annotations.get(names.TASK_SPEC, "") for pod in working)
    return all(roles[role] >= minimum for role, minimum in minimums.items())


def cycle_and_look_at_gangs(world: World) -> None:
    """A gang of which we start a pod is whole afterwards; a whole gang we evict from stays whole or goes entirely."""
    gangs = [obj for obj in world.objects.values() if isinstance(obj, PodGroup)]
    whole_before = {key(gang) for gang in gangs if is_whole(world, gang)}
    decisions = world.cycle(scheduler())
    touched = {group_of(world.pod(d.task)) for d in decisions if isinstance(d, Evict)}
    started = {d.job for d in decisions if isinstance(d, Bind)}
    leaving_later, world.leaving = world.leaving, []
    world.carry_out(decisions)
    world.leaving = leaving_later + world.leaving
    for gang in gangs:
        if key(gang) in started:
            assert is_whole(world, gang), f"{key(gang)} was started short"
        if key(gang) in touched & whole_before and not is_whole(world, gang):
            assert all(pod.status.phase == "Succeeded" for pod in at_work(world, gang)), f"{key(gang)} was broken"


@settings(max_examples=80)
@given(stories(), st.data())
def test_no_gang_is_broken_by_us(world: World, data: st.DataObject) -> None:
    for _ in range(3):
        cycle_and_look_at_gangs(world)
        let_some_finish(world, data.draw)


@settings(max_examples=250)
@given(contests())
def test_no_gang_is_broken_over_contested_room(objects: list[KObject]) -> None:
    cycle_and_look_at_gangs(World(objects))


# -- the same again ---------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(cases(), st.integers(0, 1000))
def test_the_order_in_which_things_became_known_is_of_no_account(objects: list[KObject], seed: int) -> None:
    shuffled = list(objects)
    random.Random(seed).shuffle(shuffled)
    told, otherwise = World(objects), World(shuffled)
    for _ in range(2):
        decisions = told.cycle(scheduler())
        assert otherwise.cycle(scheduler()) == decisions
        told.carry_out(decisions)
        otherwise.carry_out(decisions)


@settings(max_examples=60)
@given(stories(), st.data())
def test_a_restarted_scheduler_decides_as_the_old_one_would_have(world: World, data: st.DataObject) -> None:
    for _ in range(3):
        reborn = known(world.objects.values())
        decisions = world.cycle(scheduler())
        assert scheduler().run(reborn, world.now).decisions == decisions
        world.carry_out(decisions)
        let_some_finish(world, data.draw)


@settings(max_examples=40)
@given(cases(), st.integers(1, 2))
def test_both_kernels_lead_to_the_same_decisions(objects: list[KObject], grace: int) -> None:
    by_kernel = {}
    for kernel in ("numpy", "numba"):
        world = World(objects, grace=grace, replaces=True)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("STROMBOLI_KERNEL", kernel)
            by_kernel[kernel] = []
            for _ in range(2):
                decisions = world.cycle(scheduler())
                by_kernel[kernel].append(decisions)
                world.carry_out(decisions)
    assert by_kernel["numpy"] == by_kernel["numba"]


# Six jobs of five pods can be placed in six cycles, one after the other, if each waits for the one before it to leave;
# evictions go down in rank, so each job is evicted once for each that ranks above it. Forty is far beyond both.
MOST_CYCLES = 40


@settings(max_examples=60)
@given(stories())
def test_left_alone_a_cluster_falls_quiet_and_stays_quiet(world: World) -> None:
    """Nothing finishes and nobody interferes, but evicted pods come back: then some day all is said."""
    deciding = scheduler()
    for _ in range(MOST_CYCLES):
        decisions = world.cycle(deciding)
        if not decisions and not world.leaving:
            break
        world.carry_out(decisions)
    else:
        moves = [d for d in decisions if isinstance(d, Bind | Evict)]
        raise AssertionError(f"after {MOST_CYCLES} cycles still {moves or decisions}")
    assert world.cycle(deciding) == []
