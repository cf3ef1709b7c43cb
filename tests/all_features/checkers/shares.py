"""Shares: with reclaim, no queue below what it deserves waits for ever while another one is above (decision 82).

Judged at a quiet end where shares are divided by weight. A pod whose queue stays within what it deserves with it must
not wait if, on a node that is open to it, pods of queues above what they deserve could go: pods of no gang, without a
budget, that can be evicted, so many that their queue keeps what it deserves.
"""

from __future__ import annotations

from all_features.amounts import Amounts, amounts, beyond, covers
from all_features.case import Case
from all_features.checkers.liveness import _left_out, is_quiet
from all_features.history import Life
from all_features.room import room_for, waiting_units
from all_features.scenario import PodSpec
from all_features.verdict import Verdict


def check(case: Case, verdict: Verdict) -> None:
    if case.scenario.plugin("proportion") is None or not is_quiet(case):
        return
    if any(case.scenario.queue(name, case.history.end).get("guarantee") for name in case.scenario.queue_names):
        guaranteed = True
    else:
        guaranteed = False
    for waiting in waiting_units(case, case.report):
        pods = waiting.needed()
        if pods is None or len(pods) != 1 or _left_out(case, waiting) or waiting.have >= waiting.unit.least:
            continue
        (pod,) = pods
        if _above(case, pod.queue, pod.requests):
            continue
        verdict.judged["shares: waiting below what it deserves" + (", with guarantees" if guaranteed else "")] += 1
        for node, idle in room_for(case, case.report, pod).items():
            victims = _victims(case, pod, node, idle)
            if victims:
                told = case.report["pods"][pod.key]
                text = (
                    f"{pod.key} of {pod.queue} waits, and {', '.join(victims)} on {node} are above what they deserve: "
                )
                verdict.fail("shares", case.history.end, text + f"{told['reason']}: {told['message']}")
                break


def _above(case: Case, queue: str, more: Amounts) -> bool:
    """Whether the queue would have more than it deserves with it, in anything it asks for."""
    told = case.report["queues"][queue]
    after = amounts(told["allocated"]) + more
    deserved = amounts(told["deserved"])
    return bool(beyond(after, {resource: deserved[resource] for resource in more}))


def _victims(case: Case, pod: PodSpec, node: str, idle: Amounts) -> list[str]:
    """Names of pods that could go; empty if that is not enough, or nobody need go."""
    left: dict[str, Amounts] = {name: amounts(told["allocated"]) for name, told in case.report["queues"].items()}
    room, chosen = Amounts(idle), []
    for life in sorted(case.history.on_node(node, case.history.end), key=lambda one: one.pod.requests["cpu"]):
        if not _may_go(case, life, pod):
            continue
        queue = life.pod.queue
        after = Amounts(left[queue])
        after.subtract(life.pod.requests)
        deserved = amounts(case.report["queues"][queue]["deserved"])
        if any(after[resource] < deserved[resource] for resource in life.pod.requests):
            continue
        left[queue] = after
        room.update(life.pod.takes)
        chosen.append(life.pod.key)
        if covers(room, pod.takes):
            return chosen
    return []


def _may_go(case: Case, life: Life, pod: PodSpec) -> bool:
    victim = life.pod
    budgets = [one["spec"]["selector"]["matchLabels"] for one in case.scenario.of("PodDisruptionBudget")]
    protected = any(all(victim.labels.get(k) == v for k, v in labels.items()) for labels in budgets)
    uses = any(victim.key in told["owners"] for told in case.report["reservations"].values())
    reclaimable = case.scenario.queue(victim.queue, case.history.end).get("reclaimable", True)
    return (
        victim.ours and victim.queue != pod.queue and victim.preemptable and not victim.unit.is_gang and not protected
        and not uses and reclaimable and life.stop > case.history.end
    )  # fmt: skip
