"""Draws worlds for `close_world`: trees of all kinds, groups of all shapes, and what happens to them."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from topology.close_documents import write_documents
from topology.close_world import (
    FOREVER,
    Close,
    CloseWorld,
    DomainFact,
    GroupFact,
    NodeFact,
    PodFact,
    PolicyFact,
)

ARRIVALS_END = 22
HIGH = 100


def draw(seed: int) -> CloseWorld:
    dice = Random(seed)
    world = CloseWorld(by_labels=dice.random() < 0.3, binpack=dice.random() < 0.4, is_full=dice.random() < 0.4)
    _nodes(world, dice)
    _tree(world, dice)
    _settings(world, dice)
    for number in range(dice.randint(4, 12) if world.is_full else dice.randint(0, 6)):
        world.singles.append(_single(world, dice, f"s{number}"))
    for number in range(dice.randint(1, 4)):
        world.groups.append(_group(world, dice, f"g{number}"))
    write_documents(world, dice)
    return world


def _nodes(world: CloseWorld, dice: Random) -> None:
    sizes = dice.choice(((2,), (4,), (4,), (2, 3, 4), (3, 6), (1, 2, 8)))
    for number in range(dice.randint(2, 8)):
        world.nodes.append(NodeFact(f"n{number}", dice.choice(sizes)))
    if dice.random() < 0.3:
        lost = dice.randint(5, 24)
        index = dice.randrange(len(world.nodes))
        returns = lost + dice.randint(1, 12) if dice.random() < 0.6 else FOREVER
        world.nodes[index] = replace(world.nodes[index], lost=lost, returns=returns)


def _tree(world: CloseWorld, dice: Random) -> None:
    """Each tier joins domains of the tier below it. Some nodes are in no rack, some racks in no block."""
    parts = [[node.name] for node in world.nodes]
    dice.shuffle(parts)
    for tier in range(1, dice.randint(1, 3) + 1):
        if len(parts) == 1 and tier > 1 and dice.random() < 0.5:
            break
        groups: list[list[str]] = [[] for _ in range(dice.randint(1, max(1, min(4, len(parts)))))]
        outside: list[list[str]] = []
        for part in parts:
            if dice.random() < 0.08 and not world.by_labels:
                outside.append(part)
            else:
                dice.choice(groups).extend(part)
        groups = [group for group in groups if group]
        for number, group in enumerate(groups):
            world.domains.append(DomainFact(f"t{tier}-{number}", tier, frozenset(group)))
        parts = [*groups, *outside]
    racks = [domain for domain in world.domains if domain.tier == 1]
    if len(racks) > 1 and dice.random() < 0.12:
        _move_node(world, dice, racks)


def _move_node(world: CloseWorld, dice: Random, racks: list[DomainFact]) -> None:
    """From one rack to another that has the same domains above it."""
    for old in dice.sample(racks, len(racks)):
        above = [domain for domain in world.domains if domain.tier > 1 and old.nodes <= domain.nodes]
        others = [
            rack for rack in racks
            if rack is not old
            and [one for one in world.domains if one.tier > 1 and rack.nodes <= one.nodes] == above
        ]  # fmt: skip
        at = dice.randint(8, 24)
        there = sorted(node.name for node in world.nodes if node.name in old.nodes and node.exists(at))
        if others and there:
            world.moved = (at, dice.choice(there), old.name, dice.choice(others).name)
            return


def _settings(world: CloseWorld, dice: Random) -> None:
    actions = ["allocate"]
    if dice.random() < (0.2 if world.is_full else 0.35):
        world.queues = {"left": dice.choice((1, 2)), "right": 1}
        actions.insert(0, "reclaim")
    if dice.random() < (0.95 if world.is_full else 0.6):
        actions.append("preempt")
    if dice.random() < 0.2:
        actions.insert(0, "enqueue")
    world.actions = (*actions, "backfill")
    world.restarts = dice.choice(("", "", "", "", "", "scheduler", "all"))


def _queue(world: CloseWorld, dice: Random) -> str:
    return dice.choice(sorted(world.queues)) if world.queues else "default"


def _single(world: CloseWorld, dice: Random, name: str) -> PodFact:
    queue, grace = _queue(world, dice), dice.choice((0, 0, 1, 3))
    run = dice.choice((3, 6, 12, FOREVER, FOREVER))
    if dice.random() < (0.9 if world.is_full else 0.5):
        node = dice.choice(world.nodes)
        used = sum(pod.cpu for pod in world.singles if pod.node == node.name)
        if node.cpu > used:
            cpu = dice.randint(1, min(3, node.cpu - used))
            return PodFact(name, cpu, 0, run, grace, queue=queue, node=node.name)
    return PodFact(name, dice.randint(1, 3), dice.randint(0, ARRIVALS_END), run, grace, queue=queue)


def _close(world: CloseWorld, dice: Random, *, at_most: int | None = None) -> Close:
    tiers = sorted({domain.tier for domain in world.domains})
    if dice.random() < 0.2:
        return Close(hard=False)
    if dice.random() < 0.15 and at_most is None:
        return Close(hard=True)
    return Close(hard=True, tier=dice.choice([tier for tier in tiers if at_most is None or tier <= at_most] or tiers))


def _group(world: CloseWorld, dice: Random, name: str) -> GroupFact:
    queue, grace = _queue(world, dice), dice.choice((0, 0, 1, 3))
    priority = HIGH if dice.random() < (0.7 if world.is_full else 0.35) else 0
    base = PodFact(
        "", dice.choice((1, 1, 2, 2, 3)), dice.randint(0, ARRIVALS_END), dice.choice((5, 9, FOREVER, FOREVER)), grace,
        name, priority=priority, queue=queue,
    )  # fmt: skip
    close = _close(world, dice) if dice.random() < 0.8 else None
    found = GroupFact(name, 1, (), close, priority=priority, queue=queue)
    if dice.random() < 0.4:
        return _with_sub_groups(world, dice, found, base)
    pods = dice.randint(1, 5)
    unequal = dice.random() < 0.25
    members = [
        replace(base, name=f"{name}-{index}", cpu=dice.randint(1, 3) if unequal else base.cpu)
        for index in range(pods)
    ]  # fmt: skip
    least = pods if dice.random() < 0.5 else dice.randint(1, pods)
    if dice.random() < 0.25 and not unequal:
        members = [replace(pod, name=f"{name}-w-{index}") for index, pod in enumerate(members)]
        return replace(found, least=least, pods=tuple(members), job=True)
    if least < pods and dice.random() < 0.4:  # some come later
        late = base.at + dice.randint(1, 8)
        members = [replace(pod, at=late) if index >= least else pod for index, pod in enumerate(members)]
    return replace(found, least=least, pods=tuple(members))


def _with_sub_groups(world: CloseWorld, dice: Random, found: GroupFact, base: PodFact) -> GroupFact:
    policies, members, needed = [], [], 0
    for number in range(dice.choice((1, 1, 1, 2))):
        size, units = dice.randint(1, 3), dice.randint(1, 3)
        least = dice.randint(0, units)
        above = None if found.close is None else found.close.tier
        close = _close(world, dice, at_most=above) if dice.random() < 0.7 else None
        policy = PolicyFact(f"p{number}", size, least, close)
        policies.append(policy)
        needed += least * size
        cpu = dice.choice((base.cpu, 1, 2))
        members += [
            replace(base, name=f"{found.name}-{number}{unit}{index}", cpu=cpu, unit=f"p{number}/{unit}")
            for unit in range(units)
            for index in range(size - (1 if units > least and unit == units - 1 and dice.random() < 0.2 else 0))
        ]  # fmt: skip
    members += [replace(base, name=f"{found.name}-x{index}") for index in range(dice.choice((0, 0, 1)))]
    members = members or [replace(base, name=f"{found.name}-x0")]
    total = len(members)
    least = max(1, min(total, dice.choice((needed, needed, total, dice.randint(1, total)))))
    return replace(found, least=least, pods=tuple(members), policies=tuple(policies))
