"""Gangs: the minimum starts together, and our own evictions never leave a part of one.

Of a gang that has its minimum, evictions of one moment leave the minimum, or nothing (decision 21). A gang that is
already below it is not protected. Where gangs below their minimum hold what each other needs, one of them is sent away
(decision 87): at a quiet end, none of them could be completed in the place of another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from all_features.case import Case
from all_features.history import BY_US, Life
from all_features.scenario import NEVER, PodSpec, Unit
from all_features.verdict import Verdict


def check(case: Case, verdict: Verdict) -> None:
    lives: dict[str, list[Life]] = {}
    units: dict[str, Unit] = {}
    for life in case.history.lives:
        if life.pod.unit.is_gang and life.pod.ours:
            lives.setdefault(life.pod.unit.name, []).append(life)
            units[life.pod.unit.name] = life.pod.unit
    for name, unit in units.items():
        _starts(unit, lives[name], verdict)
        _evictions(unit, lives[name], verdict)


def has_minimum(unit: Unit, pods: Iterable[PodSpec]) -> bool:
    members = list(pods)
    by_role = Counter(pod.role for pod in members)
    return len(members) >= unit.least and all(by_role[role] >= least for role, least in unit.roles.items())


def _starts(unit: Unit, lives: list[Life], verdict: Verdict) -> None:
    """When pods of a gang are bound, it has its minimum, or had it before and is completed."""
    for time in sorted({life.start for life in lives if life.bound}):
        verdict.judged["gangs: starts"] += 1
        if _reached(unit, lives, time):
            continue
        there = [life.pod for life in _counted(lives, time)]
        if not has_minimum(unit, there):
            text = f"{len(there)} pods of {unit.name} start, and it needs {unit.least} {dict(unit.roles) or ''}"
            verdict.fail("gangs", time, text.strip())


def _counted(lives: list[Life], time: float) -> list[Life]:
    """Pods that run after the cycle, and those that have succeeded, one for each name."""
    found = {}
    for life in lives:
        if life.start <= time and (life.stop > time or life.reason == "Succeeded"):
            found[life.pod.key] = life
    return list(found.values())


def _reached(unit: Unit, lives: list[Life], time: float) -> bool:
    """Whether it had its minimum at a cycle before: then its pods may come one by one."""
    before = sorted({life.start for life in lives if life.start < time})
    return any(has_minimum(unit, (life.pod for life in _counted(lives, moment))) for moment in before)


def _evictions(unit: Unit, lives: list[Life], verdict: Verdict) -> None:
    """Where members wait for their volumes with a place of their own, they count for the gang, and events do not show
    them. So gangs whose pods have claims are left out."""
    if any(life.pod.claims for life in lives):
        return
    for time in sorted({life.stop for life in lives if life.reason in BY_US}):
        evicted = [life for life in lives if life.stop == time and life.reason in BY_US]
        first = min(life.until for life in evicted)
        # What users and nodes took away at this moment, before or after, is not ours.
        before = [
            life for life in lives if life.runs(time, first - 1) or (life.reason == "Succeeded" and life.stop <= time)
        ]
        if not has_minimum(unit, {life.pod.key: life.pod for life in before}.values()):
            verdict.judged["gangs: evictions below the minimum"] += 1
            continue
        verdict.judged["gangs: evictions"] += 1
        left = [life for life in before if life not in evicted]
        still = [life for life in left if life.stop > time or life.stop == NEVER]
        if still and not has_minimum(unit, {life.pod.key: life.pod for life in left}.values()):
            names = ", ".join(life.pod.key for life in evicted)
            parts = f"{len(left)} of at least {unit.least} pods of {unit.name} are left"
            text = f"{evicted[0].reason}: {names} go, and {parts}"
            verdict.fail("gangs", time, text)
