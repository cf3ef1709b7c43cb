"""Groups that must be close together: no hard group is across domains, and no sub-group starts or goes in part.

New pods of a hard group are inside one domain with its others; if the tree has changed under these, where most of them
are. At a quiet end no group waits for which some domain has room, found by trying all ways.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from all_features.amounts import Amounts, covers
from all_features.case import Case
from all_features.checkers.liveness import _left_out, _queue_allows, is_quiet
from all_features.domains import Layout, Nodes, domains, is_hard, layouts, may_join
from all_features.history import BY_US, Life
from all_features.room import Waiting, room_for, waiting_units
from all_features.scenario import PodSpec
from all_features.verdict import Verdict
from all_features.world import Document


def check(case: Case, verdict: Verdict) -> None:
    found = layouts(case)
    lives: dict[str, list[Life]] = {name: [] for name in found}
    for life in case.history.lives:
        if life.pod.ours and life.pod.unit.name in lives:
            lives[life.pod.unit.name].append(life)
    for name, layout in found.items():
        _starts(case, name, layout, lives[name], verdict)
        _evictions(name, layout, lives[name], verdict)
    if is_quiet(case):
        for waiting in waiting_units(case, case.report):
            if waiting.unit.name in found:
                _waits(case, waiting, found[waiting.unit.name], lives[waiting.unit.name], verdict)


# -- starts ---------------------------------------------------------------------------------------------------------


def _starts(case: Case, name: str, layout: Layout, lives: list[Life], verdict: Verdict) -> None:
    for time in sorted({life.start for life in lives if life.bound}):
        begun = [life for life in lives if life.bound and life.start == time]
        if is_hard(layout.topology):
            assert layout.topology is not None
            _inside(case, time, name, layout.topology, lives, begun, verdict)
        for unit in sorted({layout.unit_of(life.pod) for life in begun} - {""}):
            assert layout.policy is not None
            members = [life for life in lives if layout.unit_of(life.pod) == unit]
            verdict.judged["domains: sub-groups"] += 1
            counted = len({life.pod.key for life in members if _counts(life, time)})
            if counted < layout.policy.size:
                text = f"{counted} of {layout.policy.size} pods of sub-group {unit} of {name} run"
                verdict.fail("domains", time, text)
            if is_hard(layout.policy.topology):
                assert layout.policy.topology is not None
                mine = [life for life in begun if life in members]
                _inside(case, time, f"{name} {unit}", layout.policy.topology, members, mine, verdict)


def _counts(life: Life, time: float) -> bool:
    """Whether it is there after the cycle of that time, or has succeeded."""
    return life.start <= time and (life.stop > time or life.reason == "Succeeded")


def _inside(
    case: Case, time: float, name: str, topology: Document, members: Iterable[Life], begun: Sequence[Life],
    verdict: Verdict,
) -> None:  # fmt: skip
    first = min(life.since for life in begun)
    others = [life.node for life in members if life not in begun and life.start <= time and life.runs(time, first - 1)]
    nodes = {life.node for life in begun}
    verdict.judged["domains: hard groups"] += 1
    if not any(nodes <= open_ for open_ in may_join(domains(case, time, topology), topology, others)):
        verdict.fail("domains", time, f"pods of {name} start on {sorted(nodes)}, its others are on {sorted(others)}")


# -- evictions ------------------------------------------------------------------------------------------------------


def _evictions(name: str, layout: Layout, lives: list[Life], verdict: Verdict) -> None:
    """Of a sub-group that was whole, all pods go or none; except by moves, which replace them one by one. So do those
    of a group that goes whole, which is not moved either."""
    for time in sorted({life.stop for life in lives if life.reason in BY_US}):
        evicted = [life for life in lives if life.stop == time and life.reason in BY_US]
        first = min(life.until for life in evicted)
        if layout.goes_whole:
            verdict.judged["domains: groups evicted whole"] += 1
            stays = [life for life in lives if life not in evicted and life.runs(time, first - 1) and life.stop > time]
            if stays:
                text = f"{evicted[0].reason}: {len(evicted)} pods of {name} go, and {len(stays)} stay"
                verdict.fail("domains", time, text)
        if layout.policy is None or all(life.reason == "Migrated" for life in evicted):
            continue
        for unit in sorted({layout.unit_of(life.pod) for life in evicted} - {""}):
            ran = [
                life for life in lives
                if layout.unit_of(life.pod) == unit
                and (life.runs(time, first - 1) or (life.reason == "Succeeded" and life.stop <= time))
            ]  # fmt: skip
            if len({life.pod.key for life in ran}) < layout.policy.size:
                continue
            verdict.judged["domains: evicted sub-groups"] += 1
            left = [life for life in ran if life not in evicted and life.stop > time]
            if left:
                text = f"{evicted[0].reason}: {len(left)} of {len(ran)} pods of sub-group {unit} of {name} stay"
                verdict.fail("domains", time, text)


# -- who waits ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Part:
    """Pods that must be placed together, and the sets of nodes for all of them; None for any."""

    pods: Sequence[PodSpec]
    open_: Sequence[Nodes] | None


def _waits(case: Case, waiting: Waiting, layout: Layout, lives: list[Life], verdict: Verdict) -> None:
    parts = _lacking(case, waiting, layout, lives)
    if parts is None or _left_out(case, waiting):
        verdict.judged["domains: left out"] += 1
        return
    pods = [pod for part in parts for pod in part.pods]
    verdict.judged["domains: waiting"] += 1
    if not _queue_allows(case, pods):
        return
    rooms = {pod.key: room_for(case, case.report, pod) for pod in pods}
    left = {name: room for open_nodes in rooms.values() for name, room in open_nodes.items()}
    wholes: list[Nodes | None] = [None]
    if is_hard(layout.topology):
        assert layout.topology is not None
        others = [life.node for life in lives if life.occupies(case.history.end)]
        wholes = [*may_join(domains(case, case.history.end, layout.topology), layout.topology, others)]
    for whole in wholes:
        if any(True for _ in _placed(parts, rooms, left, whole)):
            told = case.report["pods"][pods[0].key]
            where = "" if whole is None else f" on {sorted(whole)}"
            text = f"{len(pods)} of {waiting.unit.name} would fit{where}, and wait: {told['reason']}: "
            verdict.fail("domains", case.history.end, text + told["message"])
            return


def _lacking(case: Case, waiting: Waiting, layout: Layout, lives: list[Life]) -> list[_Part] | None:
    """What must be placed together next; None if that is not clear."""
    if layout.policy is None:
        pods = waiting.needed()
        return None if pods is None else [_Part(pods, None)]
    policy, counted = layout.policy, [life for life in lives if _counts(life, case.history.end)]
    parts, whole, broken = [], 0, []
    for unit in sorted({layout.unit_of(pod) for pod in [*waiting.pods, *(life.pod for life in counted)]}):
        have = [life for life in counted if layout.unit_of(life.pod) == unit]
        missing = policy.size - len({life.pod.key for life in have})
        there = [pod for pod in waiting.pods if layout.unit_of(pod) == unit]
        whole += missing <= 0
        if 0 < missing <= len(there):
            nodes = [life.node for life in have if life.occupies(case.history.end)]
            hard = policy.topology if is_hard(policy.topology) else None
            open_ = None if hard is None else may_join(domains(case, case.history.end, hard), hard, nodes)
            (broken if nodes else parts).append(_Part(there[:missing], open_))
    lacks = policy.least - whole
    if waiting.unit.least > policy.least * policy.size or (broken and lacks > 0 and len(broken) + len(parts) > lacks):
        return None
    chosen = [*broken, *parts][: max(1, lacks)]
    return chosen if len(chosen) >= max(1, lacks) else None


def _placed(
    parts: Sequence[_Part], rooms: dict[str, dict[str, Amounts]], left: dict[str, Amounts], whole: Nodes | None
) -> Iterator[dict[str, Amounts]]:
    """What is left after each way to place all of them."""
    if not parts:
        yield left
        return
    first, *others = parts
    for open_ in [None] if first.open_ is None else first.open_:
        for after in _ways(first.pods, rooms, left, open_, whole):
            yield from _placed(others, rooms, after, whole)


def _ways(
    pods: Sequence[PodSpec], rooms: dict[str, dict[str, Amounts]], left: dict[str, Amounts], *inside: Nodes | None
) -> Iterator[dict[str, Amounts]]:
    if not pods:
        yield left
        return
    first, *others = pods
    for name in sorted(rooms[first.key]):
        if all(nodes is None or name in nodes for nodes in inside) and covers(left[name], first.takes):
            after = Amounts(left[name])
            after.subtract(first.takes)
            yield from _ways(others, rooms, {**left, name: after}, *inside)
