"""The checker has teeth: outcomes that are changed by hand, one rule broken in each, are found out."""

from __future__ import annotations

import copy
from functools import cache

import pytest

from together.checker import Verdict, check, compare
from together.situations import Report
from together.worlds import Queue, Work, World

# A node of two CPUs with one-CPU pods of 3 s every 1.5 s, and a gang that needs both CPUs. It comes at 3 s: threshold
# 3, longest run 3, nobody before it in line, two cycles, so 11 s at the latest. A service stands in a pool of its own.
THERE, GANG, SERVICE = "team/small-{:02}", "team/gang", "team/service"


def work(name: str, pool: str, pods: int, at: float, run: float | None, kind: str) -> Work:
    return Work(name, name.partition("/")[0], "q", pool, 1, pods, at, run, 0, 0, None, kind)


def world_of(works: list[Work], weights: dict[str, int]) -> World:
    return World(
        0, {"p": {"p-0": 2}, "other": {"other-0": 2}}, {"q": Queue("q", 1)}, weights,
        threshold=3, percent=100, holders=4, scope="node", lending="", estimates=False, longest_run=3, works=works,
    )  # fmt: skip


@cache
def lonely() -> World:
    small = [work(THERE.format(number), "p", 1, number * 1.5, 3, "stream") for number in range(24)]
    gang, service = work(GANG, "p", 2, 3, 3, "gang"), work(SERVICE, "other", 1, 0, None, "service")
    return world_of([*small, gang, service], {"team": 1})


@cache
def crowd() -> World:
    """Two namespaces of equal weight, each of which wants the two CPUs for itself."""
    works = [
        work(f"{name}/small-{number:02}", "p", 1, number * 1.5, 3, "stream") for name in "ab" for number in range(30)
    ]
    return world_of([*works, work("a/service", "other", 1, 0, None, "service")], {"a": 1, "b": 1})


@cache
def run(world: str) -> Report:
    return (lonely() if world == "lonely" else crowd()).situation(reserve=world == "lonely").run()


def outcome(world: str) -> Report:
    return copy.deepcopy(run(world))


def broken(report: Report) -> set[str]:
    report["events"].sort(key=lambda event: event["t"])
    return {finding.check for finding in check(lonely(), report).findings}


def event(time: float, kind: str, pod: str, message: str = "") -> Report:
    return {"t": time, "type": kind, "object": pod, "node": "p-0", "reason": "", "message": message}


def test_what_really_happened_is_fine_and_is_judged() -> None:
    verdict = check(lonely(), outcome("lonely"))
    assert verdict.findings == []
    assert verdict.judged["starts"] == 1
    assert verdict.judged["quiet"] == 1
    verdict = check(crowd(), outcome("crowd"), reserve=False)
    assert verdict.findings == []
    assert verdict.judged["starts beside another namespace"] > 20


def test_a_late_start_is_found() -> None:
    report = outcome("lonely")
    for each in report["events"]:
        if each["object"].startswith(GANG) and each["type"] in ("Bound", "Finished"):
            each["t"] += 60
    assert broken(report) == {"starts"}


def test_a_gang_that_never_starts_is_found() -> None:
    report = outcome("lonely")
    report["events"] = [each for each in report["events"] if not each["object"].startswith(GANG)]
    assert broken(report) == {"starts"}


def test_a_gang_that_starts_in_part_is_found() -> None:
    report = outcome("lonely")
    report["events"] = [each for each in report["events"] if each["object"] != f"{GANG}-1"]
    assert "order" in broken(report)


def test_a_pod_that_is_bound_twice_is_found() -> None:
    report = outcome("lonely")
    (first,) = [each for each in report["events"] if each["type"] == "Bound" and each["object"] == THERE.format(0)]
    report["events"].append({**first, "t": first["t"] + 1})
    assert "order" in broken(report)


def test_a_node_that_is_too_full_is_found() -> None:
    report = outcome("lonely")
    for each in report["events"]:
        if each["type"] == "Finished" and each["object"] == THERE.format(0):
            each["t"] += 30
    assert broken(report) == {"order"}


def test_an_eviction_for_a_job_that_does_not_start_is_found() -> None:
    report = outcome("lonely")
    message = f"Preempted to make room for {GANG}-0, which goes first in the same queue."
    report["events"].append(event(30, "Evicted", f"{SERVICE}-0", message))
    assert broken(report) == {"purpose"}


def test_an_eviction_for_nobody_is_found() -> None:
    report = outcome("lonely")
    report["events"].append(event(30, "Evicted", f"{SERVICE}-0", "It had to go."))
    assert broken(report) == {"purpose"}


def test_evictions_that_go_on_after_the_last_arrival_are_found() -> None:
    report = outcome("lonely")
    message = f"Preempted to make room for {THERE.format(23)}, which goes first in the same queue."
    report["events"] += [event(time, "Evicted", f"{SERVICE}-0", message) for time in (36, 37, 38)]
    assert "stop" in broken(report)


def test_an_eviction_after_all_work_has_ended_is_found() -> None:
    report = outcome("lonely")
    report["events"].append(event(report["end"], "Evicted", f"{SERVICE}-0", f"Preempted to make room for {GANG}-0."))
    assert broken(report) == {"stop"}


def test_starts_that_do_not_follow_the_weights_are_found() -> None:
    # From 9 s on, whenever a pod of b was bound, a pod of a that waited and was bound later is bound in its place.
    report = outcome("crowd")
    bound = {each["object"]: each["t"] for each in report["events"] if each["type"] == "Bound"}
    since = {each["object"]: each["t"] for each in report["events"] if each["type"] == "Submitted"}
    swapped: dict[str, str] = {}
    for pod in sorted((pod for pod in bound if pod.startswith("b/") and bound[pod] >= 9), key=lambda name: bound[name]):
        later = [x for x in bound if x.startswith("a/small") and x not in swapped and bound[x] > bound[pod] >= since[x]]
        if later:
            other = max(later, key=lambda name: bound[name])
            swapped |= {pod: other, other: pod}
    for each in report["events"]:
        if each["type"] in ("Bound", "Finished"):
            each["object"] = swapped.get(each["object"], each["object"])
    findings = check(crowd(), report, reserve=False).findings
    assert {finding.check for finding in findings} == {"shares of namespaces"}


@pytest.mark.parametrize(("delay", "found"), [(1, 0), (2, 1)])
def test_a_start_later_than_without_reserve_is_found(delay: float, found: int) -> None:
    plain, served = outcome("lonely"), outcome("lonely")
    for each in served["events"]:
        if each["object"].startswith(GANG) and each["type"] in ("Bound", "Finished"):
            each["t"] += delay
    served["events"].sort(key=lambda each: each["t"])
    verdict: Verdict = compare(lonely(), served, plain)
    assert verdict.judged["no cost"] == 1
    assert len(verdict.findings) == found
