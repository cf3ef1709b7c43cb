"""Books of queues: nothing is counted twice, and nothing is forgotten.

The sum of what queues have is never above what the nodes have (decision 75). A queue has at least what its pods use;
one with others below it has at least the sum of theirs. Where shares are divided and nothing is guaranteed, what
queues deserve is not more than they can get: what pods of other schedulers use, and what is idle on nodes that take no
pods, is taken off (decision 82).
"""

from __future__ import annotations

from all_features.amounts import Amounts, amounts, beyond, total
from all_features.case import Case
from all_features.history import AFTER_CYCLE, used
from all_features.verdict import Verdict
from all_features.world import Report


def check(case: Case, verdict: Verdict) -> None:
    for sample in case.run.samples:
        _sums(case, sample, verdict)
        _least(case, sample, verdict)
        _deserved(case, sample, verdict)


def _leaves(case: Case, sample: Report) -> list[str]:
    return [name for name in sample["queues"] if name not in case.scenario.parents]


def _sums(case: Case, sample: Report, verdict: Verdict) -> None:
    verdict.judged["books: sums"] += 1
    allocated = total(amounts(sample["queues"][name]["allocated"]) for name in _leaves(case, sample))
    # A scenario may put more on a node than it offers.
    offered = total(amounts(node["allocatable"]) | amounts(node["used"]) for node in sample["nodes"].values())
    if over := beyond(allocated, offered):
        each = {name: sample["queues"][name]["allocated"] for name in _leaves(case, sample)}
        verdict.fail("books", sample["end"], f"queues have more than all nodes: {over}; {each}")


def _least(case: Case, sample: Report, verdict: Verdict) -> None:
    time = sample["end"]
    for name in sample["queues"]:
        pods = [life for life in case.history.of_queue(name, time + AFTER_CYCLE) if life.stop > time]
        if name == "root" or not pods:
            continue
        verdict.judged["books: queues"] += 1
        uses, said = used(pods), amounts(sample["queues"][name]["allocated"])
        del uses["pods"]
        if over := beyond(uses, {resource: said[resource] for resource in uses}):
            verdict.fail("books", time, f"the pods of queue {name} use more than its books say: {over}")


def _deserved(case: Case, sample: Report, verdict: Verdict) -> None:
    scenario, time = case.scenario, sample["end"]
    if scenario.plugin("proportion") is None:
        return
    if any(scenario.queue(name, time).get("guarantee") for name in scenario.queue_names):
        return
    verdict.judged["books: deserved"] += 1
    ours: Amounts = amounts({})
    for node in scenario.nodes(time):
        there = case.history.on_node(node.name, time + AFTER_CYCLE)
        uses = used(there)
        ours += node.allocatable if node.open else uses
        ours -= used(life for life in there if not life.pod.ours)
    said = total(amounts(told["deserved"]) for told in sample["queues"].values())
    if over := beyond(said, {resource: ours[resource] for resource in ("cpu", "memory")}):
        verdict.fail("books", time, f"queues deserve more than they can get: {over}")
