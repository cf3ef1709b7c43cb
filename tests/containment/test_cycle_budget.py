"""Cycles that are cut between two jobs. Time is a counter: each look at the clock is one tick."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count, takewhile

import pytest

from builders import cluster, group, node, pod, priority_class, queue
from containment.contained_worlds import WORLDS, Played, World, play
from stromboli.api import KObject
from stromboli.cluster import Cluster
from stromboli.insight.recording import encode_decisions
from stromboli.scheduling.containment import CycleInputs, RecordedCuts, TimeLimit, run_contained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Cycle, PatchPod
from stromboli.scheduling.registry import Registry

ACTIONS = ("enqueue", "allocate", "backfill")
NOW = 1000.0


def ticks() -> Callable[[], float]:
    passed = count()
    return lambda: float(next(passed))


def scheduler() -> Scheduler:
    registry = Registry(installed_plugins=(), installed_actions=())
    actions = ", ".join(ACTIONS)
    text = f"""
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}]
- plugins: [{{name: drf}}, {{name: predicates}}, {{name: proportion}}]
"""
    return Scheduler(registry.load(text), registry)


def waiting(names: Sequence[str], **facts: object) -> list[KObject]:
    """Jobs of two pods, which are too large to be placed one by one as small jobs are."""
    made: list[KObject] = []
    for name in names:
        of_queue = {"queue": facts["queue"]} if "queue" in facts else {}
        of_class = {"priority_class": facts["priority"]} if "priority" in facts else {}
        made.append(group(name, min_member=2, phase="Inqueue", **of_queue, **of_class))
        made += [pod(f"{name}-{number}", group=name.rpartition("/")[2], cpu=1) for number in range(2)]
    return made


def turns_of(seconds: float) -> TimeLimit:
    return TimeLimit(seconds, ACTIONS, ticks())


def started(cycle: Cycle) -> list[str]:
    jobs = [decision.job.rpartition("/")[2] for decision in cycle.decisions if isinstance(decision, Bind)]
    return list(dict.fromkeys(jobs))


def reasons(cycle: Cycle) -> dict[str, str]:
    return {key.rpartition("/")[2]: why.code for key, why in cycle.reasons.items()}


class TestCut:
    """One node with room for everybody. The clock is read once when the cycle begins. Each action has an equal part of
    9 ticks, and no job waits for admission, so allocate is over at 6, and has taken six turns by then: one without a
    look at the clock, and at 1, 2, 3, 4 and 5."""

    def known(self, *names: str) -> Cluster:
        return cluster(node("n1", cpu=100), queue("default"), waiting(names))

    def test_it_says_whom_it_did_not_look_at(self) -> None:
        names = [f"j{number}" for number in range(9)]
        cycle = run_contained(scheduler(), self.known(*names), NOW, may_go_on=turns_of(9))
        assert cycle.cut == {"allocate": 6}
        assert started(cycle) == names[:6]
        assert [key.rpartition("/")[2] for key in cycle.not_reached["allocate"]] == names[6:]
        assert reasons(cycle) == dict.fromkeys(names[6:], "NotReached")
        told = [one.message for one in cycle.decisions if isinstance(one, PatchPod)]
        assert len(told) == 6
        assert all("--cycle-budget" in message for message in told)

    def test_without_a_budget_everybody_has_a_turn(self) -> None:
        cycle = run_contained(scheduler(), self.known("a", "b"), NOW)
        assert started(cycle) == ["a", "b"]
        assert not cycle.cut
        assert not cycle.not_reached

    def test_every_action_has_one_turn_at_least(self) -> None:
        """However little time there is, cycles get on."""
        known, decider = self.known("a", "b", "c"), scheduler()
        inputs, order = CycleInputs(), []
        for _ in range(3):
            cycle = run_contained(decider, known, NOW, inputs, may_go_on=TimeLimit(0.0, ACTIONS, ticks()))
            order += started(cycle)
            inputs = CycleInputs({}, cycle.not_reached)
        assert order == ["a", "b", "c"]

    def test_a_part_of_the_time_for_each_action(self) -> None:
        limit = TimeLimit(9.0, ACTIONS, ticks())
        assert list(takewhile(bool, (limit("enqueue", turns) for turns in range(1, 9)))) == [True] * 2
        assert list(takewhile(bool, (limit("allocate", turns) for turns in range(1, 9)))) == [True] * 2


class TestNextCycle:
    """Nothing fits, so every cycle would look at the same jobs first."""

    def first_of_next(self, known: Cluster, *, turns: int) -> list[str]:
        """Whom two more cycles with so many turns look at, in order."""
        decider, inputs, seen = scheduler(), CycleInputs(), list[str]()
        for _ in range(3):
            limit = RecordedCuts({"allocate": turns})
            before = {job.key for job in known.snapshot().active if job.pending_count}
            cycle = run_contained(decider, known, NOW, inputs, may_go_on=limit)
            missed = cycle.not_reached.get("allocate", [])
            seen.append(" ".join(sorted(key.rpartition("/")[2] for key in before - set(missed))))
            inputs = CycleInputs({}, cycle.not_reached)
        return seen

    def test_it_begins_with_them(self) -> None:
        known = cluster(node("n1", cpu=1), queue("default"), waiting(["a", "b", "c", "d", "e"]))
        assert self.first_of_next(known, turns=2) == ["a b", "c d", "a e"]

    def test_among_jobs_of_equal_priority(self) -> None:
        """What is more important is looked at in every cycle."""
        known = cluster(
            node("n1", cpu=1), queue("default"), priority_class("high", 10), waiting(["a", "b", "c"]),
            waiting(["x"], priority="high"),
        )  # fmt: skip
        assert self.first_of_next(known, turns=2) == ["a x", "b x", "c x"]

    def test_other_namespaces_of_the_queue(self) -> None:
        known = cluster(node("n1", cpu=1), queue("default"), waiting(["one/a", "one/b", "two/c", "two/d"]))
        assert self.first_of_next(known, turns=2) == ["a b", "c d", "a b"]

    def test_a_queue_that_had_no_turn(self) -> None:
        """The queues have nothing, so one of them is always first by its name."""
        known = cluster(
            node("n1", cpu=1), queue("p"), queue("q"), waiting(["a", "b", "c"], queue="p"), waiting(["x"], queue="q")
        )
        assert self.first_of_next(known, turns=2) == ["a b", "c x", "a b"]


class TestReplay:
    def test_the_same_cuts_give_the_same_decisions(self) -> None:
        names = [f"j{number}" for number in range(9)]
        limited = run_contained(scheduler(), TestCut().known(*names), NOW, may_go_on=turns_of(9))
        again = run_contained(scheduler(), TestCut().known(*names), NOW, may_go_on=RecordedCuts(limited.cut))
        assert encode_decisions(again.decisions) == encode_decisions(limited.decisions)
        assert again.not_reached == limited.not_reached


@pytest.mark.parametrize("turns", [1, 2, 5])
@pytest.mark.parametrize("make", WORLDS)
def test_nothing_is_left_half_done(make: Callable[[], World], turns: int) -> None:
    """Whole worlds in which every action of every cycle has so many turns only. Gangs start together, everybody starts
    in the end who does so without a limit."""

    def limit(action: str, taken: int) -> bool:
        # Turns are counted over the sessions of a cycle, and here there is one for each.
        return taken < turns

    world = make()
    longer = World(world.name, world.documents, world.configuration, world.until + 25)
    cut, whole = play(longer, limit=limit), play(longer)
    assert turns > 1 or any(cycle.cut for cycle in cut.cycles)
    assert not cut.errors
    assert cut.bound.keys() >= whole.bound.keys(), whole.bound.keys() - cut.bound.keys()
    _check_gangs(cut, world)


def _check_gangs(played: Played, world: World) -> None:
    """Members are bound together, as far as they are needed to start."""
    for document in world.documents:
        if document["kind"] != "PodGroup":
            continue
        name, least = document["metadata"]["name"], document["spec"]["minMember"]
        times = sorted(at for pod, at in played.bound.items() if pod.rpartition("-")[0] == name)
        assert not times or len(set(times[:least])) == 1, f"{name} started at {times}, and needs {least}"


def test_who_was_not_asked_is_not_remembered_as_refused() -> None:
    """Two groups wait for admission, and there is time to ask about the first, which is too large. Nothing changes, and
    the second is admitted all the same in the next cycle."""
    known = cluster(
        node("n1", cpu=4), queue("default"),
        group("a", phase="Pending", min_resources={"cpu": "100"}),
        group("b", phase="Pending", min_resources={"cpu": "1"}),
    )  # fmt: skip
    registry = Registry(installed_plugins=(), installed_actions=())
    decider = Scheduler(
        registry.load('actions: "enqueue"\ntiers: [{plugins: [{name: priority}, {name: proportion}]}]'), registry
    )
    first = run_contained(decider, known, NOW, may_go_on=RecordedCuts({"enqueue": 1}))
    assert [key.rpartition("/")[2] for key in first.not_reached["enqueue"]] == ["b"]
    run_contained(decider, known, NOW, CycleInputs({}, first.not_reached))
    assert {job.name: job.phase for job in known.jobs.values()} == {"a": "Pending", "b": "Inqueue"}
