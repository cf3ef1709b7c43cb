"""Reservations: only owners use them, and what they hold is there.

A user matches an owner of the Reservation, is of its queue if that is named (decision 76), and of at least its priority
(77). What is used is what users request of the resources it names, and within what it holds. One that is for a single
pod has one. None outlives its time, and none is on a node that is gone.
"""

from __future__ import annotations

from all_features.amounts import amounts, beyond, duration, total
from all_features.case import Case
from all_features.scenario import PodSpec, when
from all_features.verdict import Verdict
from all_features.world import Document, Report


def check(case: Case, verdict: Verdict) -> None:
    documents = {one["metadata"]["name"]: one for one in case.scenario.of("Reservation")}
    for sample in [*case.run.samples, case.report]:
        for name, told in sample["reservations"].items():
            if name in documents:
                _judge(case, sample, name, told, documents[name], verdict)
        if not case.away(sample["end"], "scheduler", "controllers"):
            _held(sample, verdict)


def _judge(case: Case, sample: Report, name: str, told: Document, document: Document, verdict: Verdict) -> None:
    time, spec = sample["end"], document["spec"]
    verdict.judged["reservations: seen"] += 1
    users = [case.scenario.pod(owner) for owner in told["owners"]]
    for user in users:
        verdict.judged["reservations: users"] += 1
        if why := _may_not(case, user, spec):
            verdict.fail("reservations", time, f"{user.key} uses {name}, and {why}")
    holds, allocated = amounts(told["allocatable"]), amounts(told["allocated"])
    del holds["pods"], allocated["pods"]
    if told["phase"] == "Available":
        uses = total({resource: user.requests[resource] for resource in holds} for user in users)
        # The scheduler lists the users, and the controllers write the amounts. While one of them is away, the other
        # goes on: a pod that ends meanwhile is taken off one of the two only.
        if +uses != +allocated and not case.away(time, "scheduler", "controllers"):
            text = f"{name}: {dict(allocated)} allocated, and its users request {dict(uses)}"
            verdict.fail("reservations", time, text)
        if over := beyond(allocated, holds):
            verdict.fail("reservations", time, f"{name} is used beyond what it holds: {over}")
        if told["node"] not in sample["nodes"] and not case.away(time, "controllers"):
            verdict.fail("reservations", time, f"{name} is on {told['node']}, which does not exist")
        lasts = duration(spec["ttl"]) if "ttl" in spec else 86400
        if lasts and time > when(document, "at", 0) + lasts and not case.away(time, "controllers"):
            verdict.fail("reservations", time, f"{name} is Available after its time")
    if spec.get("allocateOnce") and len(users) > 1:
        verdict.fail("reservations", time, f"{name} is for one pod, and {', '.join(told['owners'])} use it")


def _may_not(case: Case, user: PodSpec, spec: Document) -> str:
    if "queue" in spec and user.queue != spec["queue"]:
        return f"is of queue {user.queue}, not {spec['queue']}"
    priority = case.scenario.priorities.get(spec["template"]["spec"].get("priorityClassName", ""), 0)
    if spec["template"]["spec"].get("priorityClassName") and user.priority < priority:
        return f"has priority {user.priority} of at least {priority}"
    if not any(_matches(owner, user, spec) for owner in spec["owners"]):
        return "no owner matches it"
    return ""


def _matches(owner: Document, user: PodSpec, spec: Document) -> bool:
    named = owner.get("object")
    if named and (named.get("namespace", user.namespace), named.get("name")) != tuple(user.key.split("/")):
        return False
    labels = owner.get("labelSelector", {}).get("matchLabels", {})
    if labels:
        inside = spec["template"].get("metadata", {}).get("namespace", "default")
        if user.namespace not in owner.get("namespaces", [inside]):
            return False
    return all(user.labels.get(label) == value for label, value in labels.items())


def _held(sample: Report, verdict: Verdict) -> None:
    """A node's `held` is what is left of the Reservations there."""
    for name, node in sample["nodes"].items():
        there = [
            amounts(told["allocatable"]) - amounts(told["allocated"]) for told in sample["reservations"].values()
            if told["phase"] == "Available" and told["node"] == name
        ]  # fmt: skip
        left, held = total(there), amounts(node["held"])
        verdict.judged["reservations: nodes"] += 1
        del left["pods"]
        wrong = {resource for resource in {*left, *held} if left[resource] != held[resource]}
        if wrong:
            text = f"{name} holds {dict(held)}, and Reservations there have {dict(left)} left"
            verdict.fail("reservations", sample["end"], text)
