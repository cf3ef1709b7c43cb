"""Liveness: when nothing has happened for a while, nobody waits who fits.

Who is short of its minimum is tried as a whole, who has it with one pod more. Room that is locked for other queues,
reserved for other jobs, held or promised is not counted. Its queue must stay within its limits and leave the guarantees
of others; what it deserves is no reason to wait, because what would lie idle is lent to those who can be evicted again.
Left out: pods with claims, FIFO queues, queues that keep quota for a holder, what can only be evicted as a whole, and
groups that must be close together, which have a checker of their own.
"""

from __future__ import annotations

import math

from all_features.amounts import amounts, beyond, total
from all_features.case import Case
from all_features.domains import layouts
from all_features.room import Waiting, fit, waiting_units
from all_features.scenario import PodSpec, key
from all_features.verdict import Verdict
from all_features.world import Document

QUIET = 4.0


def check(case: Case, verdict: Verdict) -> None:
    if not is_quiet(case):
        verdict.judged["liveness: left out, something happens"] += 1
        return
    close = layouts(case)
    for waiting in waiting_units(case, case.report):
        pods = waiting.needed()
        if pods is None or waiting.unit.name in close or _left_out(case, waiting):
            verdict.judged["liveness: left out"] += 1
            continue
        verdict.judged["liveness: waiting"] += 1
        if _queue_allows(case, pods) and (places := fit(case, case.report, pods)) is not None:
            told = case.report["pods"][pods[0].key]
            text = f"{len(pods)} of {waiting.unit.name} would fit on {', '.join(places)}, and wait: {told['reason']}: "
            verdict.fail("liveness", case.history.end, text + told["message"])


def is_quiet(case: Case) -> bool:
    time = case.history.end
    calm = time - case.history.last_event() >= QUIET and time - case.scenario.quiet_from() >= QUIET
    return calm and all(life.gone < time - QUIET or life.stop > time for life in case.history.lives)


def _left_out(case: Case, waiting: Waiting) -> bool:
    unit, scenario = waiting.unit, case.scenario
    spec = scenario.queue(unit.queue, case.history.end)
    holders = {job for node in case.report["nodes"].values() for job in node["reservedFor"]}
    above = set(scenario.ancestors(unit.queue))  # a holder keeps quota in all queues above its own
    keeps = any(above & set(scenario.ancestors(_queue_of(case, job))) for job in holders)
    return (
        any(pod.claims for pod in waiting.pods) or spec.get("dequeueStrategy") == "fifo" or keeps
        or not all(pod.preemptable for pod in waiting.pods) or bool(_policies(case, unit.name))
        or case.report["queues"].get(unit.queue, {}).get("state") != "Open"
        or any(case.report["pods"][pod.key]["reason"] == "NoPodGroup" for pod in waiting.pods)
    )  # fmt: skip


def _queue_of(case: Case, job: str) -> str:
    return next((told["queue"] for told in case.report["pods"].values() if told["podGroup"] == job), "")


def _policies(case: Case, name: str) -> list[Document]:
    jobs = [job for job in case.scenario.of("Job") if name == f"Job {key(job)}"]
    return [policy for job in jobs for policy in job["spec"].get("policies", [])]


def _queue_allows(case: Case, pods: list[PodSpec]) -> bool:
    scenario, time, queue = case.scenario, case.history.end, pods[0].queue
    more = total(pod.requests for pod in pods)
    for name in scenario.ancestors(queue):
        below = [one for one in scenario.queue_names if name in scenario.ancestors(one) and one not in scenario.parents]
        after = total(amounts(case.report["queues"][one]["allocated"]) for one in below) + more
        limit = amounts(scenario.queue(name, time).get("capability"))
        if beyond(after, {resource: limit[resource] for resource in limit if resource in more}):
            return False
    offered = total(amounts(node["allocatable"]) for node in case.report["nodes"].values())
    others = 0
    for name in scenario.queue_names:
        if name != queue and name not in scenario.parents:
            others += max(amounts(case.report["queues"][name]["allocated"])["cpu"], _guaranteed(case, name))
    mine = amounts(case.report["queues"][queue]["allocated"])["cpu"] + more["cpu"]
    unusable = sum(
        amounts(told["allocatable"])["cpu"] - amounts(told["used"])["cpu"]
        for name, told in case.report["nodes"].items() if not (scenario.node(name, time) or _NOBODY).open
    )  # fmt: skip
    foreign = sum(life.pod.requests["cpu"] for life in case.history.lives if not life.pod.ours and life.occupies(time))
    return mine + others <= offered["cpu"] - unusable - foreign


class _Closed:
    open = False


_NOBODY = _Closed()


def _guaranteed(case: Case, queue: str) -> int:
    """At most: for a lock, as much as the largest nodes that it could be for."""
    guarantee = case.scenario.queue(queue, case.history.end).get("guarantee") or {}
    sizes = sorted((amounts(node["allocatable"])["cpu"] for node in case.report["nodes"].values()), reverse=True)
    share = guarantee.get("percentage", {}).get("value", 0)
    locked = sum(
        amounts(node["allocatable"])["cpu"] for node in case.report["nodes"].values() if node["lockedBy"] == queue
    )
    return max(amounts(guarantee.get("resource"))["cpu"], sum(sizes[: math.floor(len(sizes) * share)]), locked)
