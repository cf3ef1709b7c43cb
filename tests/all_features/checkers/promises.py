"""Promises: who is evicted goes for somebody who then starts, and no room is kept for ever.

A pod that is evicted by preemption, reclaim or the end of lending names for whom, and that one starts when the victims
are gone and two cycles later at most, unless users or faults changed something meanwhile (decision 86). At a quiet end
nothing is promised, and nobody waits for pods that are gone.
"""

from __future__ import annotations

import re

from all_features.amounts import duration
from all_features.case import Case
from all_features.checkers.liveness import is_quiet
from all_features.history import Life
from all_features.scenario import NEVER, when
from all_features.verdict import Verdict

OTHERS = ("Node", "Command")  # that change what is there, beside patches and restarts
FOR_SOMEBODY = ("Preempted", "Reclaimed", "GivenBack")
_NAME = re.compile(r"(ns\d+/[a-z0-9-]*[a-z0-9])")

_RESERVATION = re.compile(r"Reservation ([a-z0-9-]+)")


def check(case: Case, verdict: Verdict) -> None:
    for life in case.history.lives:
        if life.reason in FOR_SOMEBODY:
            _purpose(case, life, verdict)
    if is_quiet(case):
        _nothing_kept(case, verdict)


def _purpose(case: Case, life: Life, verdict: Verdict) -> None:
    # Others may be promised room on the same node, and take what is free first.
    leaving = [one for one in case.history.lives if one.stop <= life.stop + 1 and one.gone > life.stop]
    latest = max([one.gone for one in leaving if one.stop < NEVER]) + 3
    if latest > case.history.end or disturbed(case, life.stop, latest):
        return
    named = _NAME.findall(life.message)
    verdict.judged["promises: evictions"] += 1
    if held := _RESERVATION.search(life.message):
        if any(life.stop < time <= latest for times in case.history.submitted.values() for time in times):
            return  # it keeps the room only as long as its queue deserves that, and others ask for more
        got = [e["t"] for e in case.history.events if e["type"] == "ReservationAvailable" and e["object"] == held[1]]
        if not any(life.stop <= time <= latest for time in got):
            verdict.fail("promises", life.stop, f"{life.pod.key} is evicted in vain: {life.message}")
        return
    if not named:
        verdict.fail("promises", life.stop, f"{life.pod.key} is evicted, and nobody is named: {life.message}")
        return
    named += [case.scenario.pod(name).unit.name.rpartition(" ")[2] for name in named if name in case.report["pods"]]
    starts = [
        other for other in case.history.lives
        if life.stop <= other.start <= latest and (other.pod.key in named or _unit(other) in named)
    ]  # fmt: skip
    asked = [case.scenario.pod(name) for name in named if name in case.report["pods"]]
    if not starts and not any(pod.claims for pod in asked):
        verdict.fail(
            "promises", life.stop, f"{life.pod.key} is evicted, and nobody starts by {latest:g}: {life.message}"
        )


def _unit(life: Life) -> str:
    return life.pod.unit.name.rpartition(" ")[2]


def disturbed(case: Case, since: float, until: float) -> bool:
    """Whether users or faults did something to nodes, queues, sets or components in that time."""
    for document in case.world_documents:
        if document["kind"] in ("Patch", "Restart"):
            at = duration(document["at"])
            if at <= until and since <= at + duration(document.get("for", 0)) + 1:
                return True
        moments = (when(document, "until", -1), when(document, "at", -1)) if document["kind"] in OTHERS else ()
        if any(since <= moment <= until for moment in moments):
            return True
    return False


def _nothing_kept(case: Case, verdict: Verdict) -> None:
    verdict.judged["promises: quiet ends"] += 1
    for name, told in case.report["nodes"].items():
        if told.get("promised"):
            text = f"{name} is kept for {told.get('promisedTo')}, and nobody leaves: {told['promised']}"
            verdict.fail("promises", case.history.end, text)
    for name, told in case.report["pods"].items():
        if told["phase"] == "Pending" and told["reason"] == "WaitingForRelease":
            verdict.fail("promises", case.history.end, f"{name} waits for pods that are gone: {told['message']}")
