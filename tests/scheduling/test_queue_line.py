"""Queues in a tree are served in the order of their keys, although most keys are never computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from random import Random
from typing import cast

import numpy as np
import pytest
from msgspec.structs import replace

from builders import established, group, node, pod, queue
from properties.random_clusters import World
from stromboli.api import KObject
from stromboli.cluster import Queue, QueueName
from stromboli.scheduling import walk
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Bind, Decision
from stromboli.scheduling.plugins.queue_trees.queue_tree import Place, QueueTree
from stromboli.scheduling.points import Points
from stromboli.scheduling.queue_line import QueueLine
from stromboli.scheduling.registry import Registry
from stromboli.scheduling.session import Session

CYCLES = 2
SEEDS = 25

ACTIONS = {
    "allocate": "enqueue, allocate, backfill",
    "reclaim": "enqueue, reclaim, allocate, backfill",
}

CONFIGURATION = """
actions: "{actions}"
tiers:
- plugins: [{{name: priority}}, {{name: gang}}, {{name: conformance}}]
- plugins: [{{name: predicates}}, {{name: capacity, enableHierarchy: true}}, {{name: nodeorder}}]
"""


class PlainLine:
    """The queue with the smallest key goes first; all keys are computed each time."""

    def __init__(self, session: Session, queues: Iterable[Queue]) -> None:
        self.session = session
        self.queues = list(queues)

    def __bool__(self) -> bool:
        return bool(self.queues)

    def push(self, queue: Queue) -> None:
        self.queues.append(queue)

    def pop(self) -> Queue | None:
        if not self.queues:
            return None
        first = min(self.queues, key=self.session.queue_key)
        self.queues.remove(first)
        return first


def tree(seed: int) -> list[KObject]:
    """Queues on one to four levels, with jobs in leaves and a few above them; not quite enough room for all jobs."""
    random = Random(seed)
    objects: list[KObject] = [node(f"n{number}", cpu=16, memory="64Gi") for number in range(random.randint(1, 4))]
    names = [f"q{number:02}" for number in range(random.randint(2, 20))]
    for position, name in enumerate(names):
        above = random.choice(["root", *names[:position]])
        deserved = {"cpu": random.randint(1, 12)} if random.random() < 0.7 else None
        made = queue(name, priority=random.choice([0, 0, 0, 5]), weight=random.randint(1, 3), deserved=deserved)
        objects.append(replace(made, spec=replace(made.spec, parent=above)))
    for number in range(random.randint(5, 40)):
        size = random.choice([1, 1, 2, 3])
        objects.append(group(f"ns/j{number:02}", queue=random.choice(names), min_member=random.randint(1, size)))
        cpu = random.randint(1, 4)
        objects += [pod(f"ns/j{number:02}-{one}", group=f"j{number:02}", cpu=cpu, memory="1Gi") for one in range(size)]
    return [established(obj, position) for position, obj in enumerate(objects)]


def decisions(seed: int, text: str) -> list[list[Decision]]:
    world = World(tree(seed), grace=2)
    registry = Registry(installed_plugins=(), installed_actions=())
    scheduler = Scheduler(registry.load(text), registry)
    made = []
    for _ in range(CYCLES):
        made.append(world.cycle(scheduler))
        world.cluster.validate()
        world.carry_out(made[-1])
    return made


def test_a_tree_is_served_in_the_order_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    text = CONFIGURATION.format(actions=ACTIONS["allocate"])
    fast = {seed: decisions(seed, text) for seed in range(SEEDS)}
    monkeypatch.setattr(walk, "QueueLine", PlainLine)
    for seed in range(SEEDS):
        assert fast[seed] == decisions(seed, text), f"seed {seed}"
    assert any(isinstance(made, Bind) for story in fast.values() for cycle in story for made in cycle)


@pytest.mark.parametrize("actions", ACTIONS)
def test_what_a_branch_has_is_the_sum_of_its_queues(actions: str, monkeypatch: pytest.MonkeyPatch) -> None:
    held = QueueTree.held
    sizes = set()

    def checked(self: QueueTree, place: Place) -> list[int]:
        found = held(self, place)
        assert found == self.sum(place, lambda queue: queue.allocated).tolist(), place.name
        sizes.add(len(place.members))
        return found

    monkeypatch.setattr(QueueTree, "held", checked)
    for seed in range(SEEDS):
        decisions(seed, CONFIGURATION.format(actions=ACTIONS[actions]))
    assert max(sizes) > 3


class _Keys:
    """A session with keys that a test sets."""

    def __init__(self, **keys: int) -> None:
        self.points = Points()
        self.keys = keys

    def queue_key_falls(self) -> int:
        return 0

    def queue_path(self, of: Queue) -> list[tuple[str, Callable[[], int]]]:
        return [(of.name, lambda: self.keys[of.name])]


def test_a_key_is_taken_as_it_is_only_right_after_its_queue_was_put_back() -> None:
    session = _Keys(a=1, b=2, c=3)
    nothing = np.zeros(1, dtype=np.int64)
    queues = {name: Queue(QueueName(name), nothing, nothing, nothing) for name in "abc"}
    line = QueueLine(cast(Session, session), queues.values())
    assert line.pop() is queues["a"]
    session.keys["a"] = 10
    line.push(queues["a"])
    assert line.pop() is queues["b"]
    session.keys |= {"a": 20, "c": 15}
    assert line.pop() is queues["c"]
