"""Reservations of all kinds, and pods that may use them, or match and may not."""

from __future__ import annotations

from all_features.generator.documents import GROUP, QUEUE, Document, group, metadata, pod, pod_spec, times
from all_features.generator.draft import ARRIVALS_END, Draft


def add_reservations(draft: Draft) -> None:
    for number in range(draft.dice.randint(2, 3)):
        _reservation(draft, f"kept{number}")


def _reservation(draft: Draft, name: str) -> None:
    dice, namespace = draft.dice, draft.namespace()
    cpu, queue = dice.choice((1, 2, 2, 4)), draft.queue()
    named = draft.chance(0.6)
    priority = dice.choice(("", "", "middle", "high"))
    at = dice.choice((0, 0, dice.randint(1, 20)))
    spec: Document = {
        "template": {
            "metadata": {"namespace": namespace}, "spec": pod_spec({"cpu": cpu}, priority=priority),
        },
        "owners": [_owner(draft, namespace, name)], "ttl": f"{dice.choice((15, 30, 60))}s",
    }  # fmt: skip
    del spec["template"]["spec"]["schedulerName"]
    if named:
        spec["queue"] = queue
    if draft.chance(0.3):
        spec["allocateOnce"] = True
    if draft.chance(0.25):
        spec["nodeName"] = dice.choice(sorted(draft.nodes))
    draft.add({
        "apiVersion": "scheduling.volcano.sh/v1alpha1", "kind": "Reservation",
        "metadata": metadata(name, "", None, **times(at=at)), "spec": spec,
    })  # fmt: skip
    _users(draft, namespace, name, queue, cpu, priority, at)


def _owner(draft: Draft, namespace: str, name: str) -> Document:
    kind = draft.dice.random()
    if kind < 0.7:
        return {"labelSelector": {"matchLabels": {"app": name}}}
    if kind < 0.85:
        return {"labelSelector": {"matchLabels": {"app": name}}, "namespaces": sorted(draft.namespaces)}
    return {"object": {"name": f"{name}-0", "namespace": namespace}}


def _users(draft: Draft, namespace: str, name: str, queue: str, cpu: int, priority: str, since: float) -> None:
    """Some come one by one, some as a gang, some of another queue, of a lower priority, or too large."""
    dice = draft.dice
    gang = draft.chance(0.3)
    at = dice.randint(int(since), ARRIVALS_END)
    pods = dice.randint(1, 3)
    if gang:
        draft.add(group(namespace, name, pods, queue, priority, at))
    for number in range(pods):
        its_queue = queue if gang or draft.chance(0.8) else draft.queue()
        its_priority = priority if gang or draft.chance(0.8) else ""
        when = at if gang else min(ARRIVALS_END, at + dice.randint(0, 12))
        notes = {QUEUE: its_queue, **times(at=when, run=dice.choice((4, 8, 15)), grace=dice.choice((None, 2)))}
        if gang:
            notes[GROUP] = name
        spec = pod_spec({"cpu": dice.choice((0.5, 1, cpu))}, priority=its_priority)
        draft.add(pod(namespace, f"{name}-{number}", spec, labels={"app": name}, notes=notes))
