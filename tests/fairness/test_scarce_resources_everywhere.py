"""Reclaim of scarce resources by the same rule under `proportion`, `capacity` and trees of queues.

Eight nodes of 96 CPUs, 768 GiB and 8 GPUs. Queue a holds all of what is scarce, b deserves half of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pytest
from msgspec.structs import replace

from builders import GPU, group, node, pod, pods, priority_class, queue
from builders import plugin as part
from oracles.stories import Entry, Story
from stromboli.api import KObject, ObjectMeta, Queue, names
from stromboli.scheduling.configuration.configuration_file import PluginOption

HALF = {"cpu": 384, "memory": "3072Gi", GPU: 32}


def option(name: str, arguments: dict[str, object] | None = None, **flags: bool) -> PluginOption:
    made = part(name, arguments or {}, **flags)
    assert isinstance(made, PluginOption)
    return made


@dataclass(frozen=True)
class Division:
    """A way to divide the cluster into halves for the queues a and b."""

    name: str
    entry: Entry
    queues: tuple[Queue, ...]

    def story(self, *objects: KObject | Iterable[KObject]) -> Story:
        tiers: list[list[Entry]] = [["priority", "gang"], [self.entry, "predicates", "nodeorder"]]
        return Story(self.queues, *objects, actions="enqueue, reclaim, allocate, backfill", tiers=tiers)


def below(parent: str, made: Queue) -> Queue:
    return replace(made, spec=replace(made.spec, parent=parent))


def at(path: str, made: Queue) -> Queue:
    return replace(made, metadata=ObjectMeta(name=made.metadata.name, annotations={names.HIERARCHY: path}))


TREE = option("capacity", hierarchy=True)
DIVISIONS = [
    Division("proportion", "proportion", (queue("a"), queue("b"))),
    Division("capacity", "capacity", (queue("a", deserved=HALF), queue("b", deserved=HALF))),
    Division(
        "siblings", TREE,
        (queue("top"), below("top", queue("a", deserved=HALF)), below("top", queue("b", deserved=HALF))),
    ),
    Division(
        "cousins", TREE,
        (
            queue("left"), queue("right"),
            below("left", queue("a", deserved=HALF)), below("right", queue("b", deserved=HALF)),
        ),
    ),
    Division(
        "ancestors", option("capacity", {"ancestorReclaimLevel": 1}, hierarchy=True),
        (
            queue("left", deserved=HALF), queue("right", deserved=HALF),
            below("left", queue("a", deserved=HALF)), below("right", queue("b")),
        ),
    ),
    Division("hierarchy", option("drf", hierarchy=True), (at("root/x/a", queue("a")), at("root/y/b", queue("b")))),
]  # fmt: skip

divisions = pytest.mark.parametrize("division", DIVISIONS, ids=lambda division: division.name)
stated = pytest.mark.parametrize("division", DIVISIONS[:-1], ids=lambda division: division.name)


def machines() -> list[KObject]:
    return [node(f"n{number}", cpu=96, memory="768Gi", gpu=8) for number in range(8)]


# 96 of 768 CPUs are requested in all: only GPUs are scarce.
@divisions
def test_a_gang_gets_its_half_of_the_gpus(division: Division) -> None:
    told = division.story(
        machines(),
        [group(f"a{n}", queue="a", min_member=1) for n in range(64)],
        [pod(f"a{n}", group=f"a{n}", cpu=1, memory="1Gi", gpu=1, node=f"n{n % 8}") for n in range(64)],
    )
    told.live(2, successors=True)
    told.add(group("big", queue="b", min_member=32), pods("b", 32, group="big", cpu=1, memory="1Gi", gpu=1))
    assert told.live(4, successors=True) == 32
    assert told.running("big") == 32
    assert told.live(10, successors=True) == 0


# Half of 768 CPUs are not requested, half of the memory is. Each pod has a sixth of a node's memory.
@divisions
def test_a_gang_gets_its_half_of_the_memory(division: Division) -> None:
    told = division.story(
        machines(),
        [group(f"a{n}", queue="a", min_member=1) for n in range(48)],
        [pod(f"a{n}", group=f"a{n}", cpu=2, memory="128Gi", node=f"n{n % 8}") for n in range(48)],
    )
    told.add(group("big", queue="b", min_member=24), pods("b", 24, group="big", cpu=2, memory="128Gi"))
    assert told.live(4, successors=True) == 24
    assert told.running("big") == 24
    assert told.live(10, successors=True) == 0


# All 64 GPUs are with gangs of 16 pods. Two of them are within a's half.
@divisions
def test_whole_gangs_give_back_what_was_lent(division: Division) -> None:
    told = division.story(
        machines(),
        [group(f"a{n}", queue="a", min_member=16) for n in range(4)],
        [
            pod(f"a{n}-{member}", group=f"a{n}", cpu=1, memory="1Gi", gpu=1, node=f"n{2 * n + member // 8}")
            for n in range(4) for member in range(16)
        ],
    )  # fmt: skip
    told.add(group("big", queue="b", min_member=4), pods("b", 4, group="big", cpu=1, memory="1Gi", gpu=8))
    assert told.live(4, successors=True) == 32
    assert told.running("big") == 4
    assert sorted(told.running(f"a{n}") for n in range(4)) == [0, 0, 16, 16]
    assert told.live(10, successors=True) == 0


# b has borrowed CPUs that nobody else requests: 500 of the 384 it deserves. That is no reason to refuse it GPUs.
@stated
def test_borrowed_cpus_do_not_keep_a_queue_from_its_gpus(division: Division) -> None:
    told = division.story(
        machines(),
        [group(f"a{n}", queue="a", min_member=1) for n in range(64)],
        [pod(f"a{n}", group=f"a{n}", cpu=1, memory="1Gi", gpu=1, node=f"n{n % 8}") for n in range(64)],
        group("cpus", queue="b", min_member=0),
        [pod(f"c{n}", group="cpus", cpu=62 + n % 2, memory="1Gi", node=f"n{n}") for n in range(8)],
    )
    told.add(group("big", queue="b", min_member=32), pods("b", 32, group="big", cpu=1, memory="1Gi", gpu=1))
    assert told.live(4, successors=True) == 32
    assert told.running("big") == 32
    assert told.live(10, successors=True) == 0


def unequal(name: str) -> Division:
    """Six and two of eight GPUs."""
    entry: Entry = {"tree": TREE}.get(name, name)
    first = {"cpu": 72, GPU: 6} if name != "proportion" else None
    second = {"cpu": 24, GPU: 2} if name != "proportion" else None
    made = (queue("a", weight=6, deserved=first), queue("b", weight=2, deserved=second))
    return Division(name, entry, (queue("top"), *[below("top", q) for q in made]) if name == "tree" else made)


# Deserved 6 and 2 of 8 GPUs. One pod of a has all 8, or a gang of two pods, or of eight: none of them fits in 6. Two
# pods of 4 that do not need each other: one of them stays.
@pytest.mark.parametrize("name", ["proportion", "capacity", "tree"])
@pytest.mark.parametrize(("count", "size", "least", "gone"), [(1, 8, 1, 1), (2, 4, 2, 2), (8, 1, 8, 8), (2, 4, 0, 1)])
def test_lent_room_is_had_back_from_what_is_larger(name: str, count: int, size: int, least: int, gone: int) -> None:
    told = unequal(name).story(
        node("n1", cpu=96, gpu=8),
        group("large", queue="a", min_member=least),
        pods("large", count, group="large", cpu=1, gpu=size, node="n1"),
    )
    told.add(group("small", queue="b", min_member=2), pods("b", 2, group="small", cpu=1, gpu=1))
    assert told.live(4, successors=True) == gone
    assert told.running("small") == 2
    assert told.running("large") == count - gone
    assert told.live(20, successors=True) == 0


# Two GPUs of eight are due to b, and a holds all of them with one pod each. Nobody lacks CPU, so it does not matter
# that the pods of high priority have fewer: the ordinary order decides, and the pods of low priority go.
@pytest.mark.parametrize("name", ["proportion", "capacity", "tree"])
def test_what_nobody_lacks_does_not_choose_the_victims(name: str) -> None:
    told = unequal(name).story(
        node("n1", cpu=96, gpu=8), priority_class("high", 100),
        group("low", queue="a", min_member=1), pods("low", 4, group="low", cpu=9, gpu=1, node="n1"),
        group("high", queue="a", min_member=1, priority_class="high"),
        pods("high", 4, group="high", cpu=1, gpu=1, node="n1"),
    )  # fmt: skip
    told.add(group("small", queue="b", min_member=2), pods("b", 2, group="small", cpu=1, gpu=1))
    assert told.run().evicted == ["low-2", "low-3"]
