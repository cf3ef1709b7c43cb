"""Gates of queues: a pod that opted in starts only after its gate was removed, and gates are removed only while the
limits of the queue, and of those above it, have room for the pods beside what was promised before.

Pods of lower priority that were promised room give way, so theirs does not count. Judged where the scenario itself has
not put pods on nodes beyond the limit.
"""

from __future__ import annotations

from collections import Counter

from all_features.amounts import amounts, beyond, total
from all_features.case import Case
from all_features.generator.gated import GATE
from all_features.history import AFTER_CYCLE
from all_features.scenario import key
from all_features.verdict import Verdict

Waiting = dict[str, float]
"""Pods whose gates were removed and that have no node yet, and since when."""


def check(case: Case, verdict: Verdict) -> None:
    opted = _Opted(case)
    waiting: Waiting = {}
    events = case.history.events
    for index, event in enumerate(events):
        time, kind, name = event["t"], event["type"], event["object"]
        if kind == "Ungated":
            if not opted.has(name):
                verdict.fail("gates", time, f"{name} lost a gate and has not opted in")
            waiting[name] = time
        elif kind == "Bound" and opted.has(name):
            verdict.judged["gates: starts"] += 1
            if waiting.pop(name, time) >= time:
                verdict.fail("gates", time, f"{name} starts with its gate")
        elif kind in ("Deleted", "Evicted", "Submitted"):
            waiting.pop(name, None)
        last = index + 1 == len(events) or events[index + 1]["t"] > time
        if last and time in waiting.values():
            _limits(case, waiting, time, verdict)


def _limits(case: Case, waiting: Waiting, time: float, verdict: Verdict) -> None:
    """After the cycle in which gates were removed."""
    if case.away(time, "scheduler"):
        return
    for name in (pod for pod, since in waiting.items() if since == time):
        pod = case.scenario.pod(name)
        for queue in case.scenario.ancestors(pod.queue):
            limit = amounts(case.scenario.queue(queue, time).get("capability"))
            asked = Counter({resource: most for resource, most in limit.items() if pod.requests.get(resource)})
            runs = [life for life in case.history.of_queue(queue, time + AFTER_CYCLE) if life.runs(time + AFTER_CYCLE)]
            promised = [
                other for other in map(case.scenario.pod, waiting)
                if queue in case.scenario.ancestors(other.queue) and other.priority >= pod.priority
            ]  # fmt: skip
            used = total(life.pod.requests for life in runs)
            if not asked or beyond(used, asked):
                continue
            verdict.judged["gates: limits"] += 1
            if over := beyond(total([used, *(other.requests for other in promised)]), asked):
                verdict.fail("gates", time, f"with {name}, queue {queue} has promised {over} too much")


class _Opted:
    """Which pods opted in, by their own annotation or by that of the template they were made from."""

    def __init__(self, case: Case) -> None:
        self._pods: dict[str, bool] = {}
        self._owners: dict[str, bool] = {}
        for document in case.world_documents:
            if document["kind"] == "Pod":
                self._pods[key(document)] = _has(document)
            elif document["kind"] in ("ReplicaSet", "StatefulSet"):
                self._owners[f"{key(document)}-"] = _has(document["spec"]["template"])
            elif document["kind"] == "Job":
                for task in document["spec"]["tasks"]:
                    self._owners[f"{key(document)}-{task['name']}-"] = _has(task["template"])

    def has(self, name: str) -> bool:
        known = self._pods.get(name)
        if known is None:
            known = next((opted for prefix, opted in sorted(self._owners.items()) if name.startswith(prefix)), False)
        return known


def _has(document: dict[str, dict[str, dict[str, str]]]) -> bool:
    return document["metadata"].get("annotations", {}).get(GATE) == "true"
