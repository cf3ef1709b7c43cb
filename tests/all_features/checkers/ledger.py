"""Nodes: no node is over-committed at any time, a pod is bound once, and to a node that admits it.

What a node runs is kept from events alone. The report must agree with it: a node's `used` is what its pods request, and
more only while pods that wait for their volumes have their place; with what Reservations hold it is within what the
node offers.
"""

from __future__ import annotations

from all_features.amounts import amounts, beyond
from all_features.case import Case
from all_features.history import AFTER_CYCLE, used
from all_features.verdict import Verdict


def check(case: Case, verdict: Verdict) -> None:
    for time, name in case.history.bound_twice:
        verdict.fail("ledger", time, f"{name} is bound again while it runs")
    _binds(case, verdict)
    _books(case, verdict)


def _binds(case: Case, verdict: Verdict) -> None:
    history = case.history
    for life in history.lives:
        if not life.bound:
            continue
        verdict.judged["ledger: binds"] += 1
        node = case.scenario.node(life.node, life.start)
        if node is None:
            verdict.fail("ledger", life.start, f"{life.pod.key} is bound to {life.node}, which does not exist")
            continue
        if why := node.admits(life.pod):
            verdict.fail("ledger", life.start, f"{life.pod.key} is bound to {life.node}, which {why}")
        there = history.on_node(life.node, life.start, life.since)
        if over := beyond(used(there), node.allocatable):
            text = f"with {life.pod.key}, pods on {life.node} request {over}"
            if any(not other.bound for other in there) and not life.pod.takes.keys() & {"cpu"}:
                continue  # the scenario over-committed it, and a pod without requests joined
            verdict.fail("ledger", life.start, text)


def _books(case: Case, verdict: Verdict) -> None:
    for sample in [*case.run.samples, case.report]:
        time = sample["end"]
        waits_for_volumes = any(pod["reason"] == "WaitingForVolumes" for pod in sample["pods"].values())
        for name, told in sample["nodes"].items():
            verdict.judged["ledger: nodes in reports"] += 1
            mine = used(case.history.on_node(name, time + AFTER_CYCLE))
            said, held, offered = (amounts(told[part]) for part in ("used", "held", "allocatable"))
            for resource, amount in said.items():
                if amount < mine[resource] or (amount > mine[resource] and not waits_for_volumes):
                    text = f"{name} uses {amount} {resource} in the report, and its pods request {mine[resource]}"
                    verdict.fail("ledger", time, text)
                if amount + held[resource] > offered[resource] >= amount:
                    text = f"{name} offers {offered[resource]} {resource}: {amount} used, {held[resource]} held"
                    verdict.fail("ledger", time, text)
