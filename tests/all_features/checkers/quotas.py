"""Limits of queues: where a pod starts, its queue stays within `capability`, and leaves the guarantees of others.

Pods that terminate count until they are gone (decision 85), in queues above as well. A pod that was moved is charged
once, so what is left of it does not count beside its successor. A queue that the scenario put above its limit may be
there still when its pods are moved: a successor takes the part of the pod that it replaces.
"""

from __future__ import annotations

from all_features.amounts import amounts, beyond, total
from all_features.case import Case
from all_features.history import MIGRATED, Life, used
from all_features.verdict import Verdict


def check(case: Case, verdict: Verdict) -> None:
    for life in case.history.lives:
        if life.bound and life.pod.requests:
            _capability(case, life, verdict)
            _guarantees(case, life, verdict)


def _charged(case: Case, queue: str, life: Life) -> list[Life]:
    return [
        other for other in case.history.of_queue(queue, life.start, life.since)
        if not (other.reason == MIGRATED and other.stop <= life.start) and not _on_dead_node(case, other, life.start)
    ]  # fmt: skip


def _on_dead_node(case: Case, life: Life, time: float) -> bool:
    """Terminating on a node that is not ready."""
    node = case.scenario.node(life.node, time)
    return life.stop <= time and (node is None or not node.ready)


def _capability(case: Case, life: Life, verdict: Verdict) -> None:
    for queue in case.scenario.ancestors(life.pod.queue):
        limit = amounts(case.scenario.queue(queue, life.start).get("capability"))
        if not limit.keys() & life.pod.requests.keys():
            continue
        verdict.judged["quotas: capability"] += 1
        asked = {name: most for name, most in limit.items() if name in life.pod.requests}
        charged = _charged(case, queue, life)
        if beyond(used(charged), asked) and not beyond(used(filter(case.history.is_started, charged)), asked):
            continue  # the scenario put pods on nodes beyond the limit
        if over := beyond(used(charged), asked):
            verdict.fail("quotas", life.start, f"with {life.pod.key}, queue {queue} uses {over}")


def _guarantees(case: Case, life: Life, verdict: Verdict) -> None:
    """Judged where nothing but quotas is guaranteed, and the nodes could give everybody theirs."""
    scenario, time = case.scenario, life.start
    quotas = {}
    for name in scenario.queue_names:
        guarantee = scenario.queue(name, time).get("guarantee") or {}
        if name not in scenario.parents and set(guarantee) == {"resource"}:
            quotas[name] = amounts(guarantee["resource"])
    own = quotas.get(life.pod.queue, {})
    offered = total(node.allocatable for node in scenario.nodes(time))
    for resource in ("cpu",):
        others = sum(
            max(quota[resource], used(_charged(case, name, life))[resource])
            for name, quota in quotas.items() if name != life.pod.queue
        )  # fmt: skip
        rest = [
            other for name in scenario.queue_names if name not in quotas and name not in scenario.parents
            if name != life.pod.queue for other in _charged(case, name, life)
        ]  # fmt: skip
        mine = used(_charged(case, life.pod.queue, life))[resource]
        if not others or mine <= own.get(resource, 0) or not life.pod.requests[resource]:
            continue
        if any(scenario.queue(name, time) != scenario.queue(name, case.history.end) for name in quotas):
            continue  # it is edited: what was there before may stay
        verdict.judged["quotas: guarantees"] += 1
        if mine + others > offered[resource] and not used(rest)[resource] > offered[resource] - others:
            text = f"{life.pod.key} starts: {mine} {resource} of its queue and {others} guaranteed to others"
            verdict.fail("quotas", time, f"{text}, of {offered[resource]}")
