"""What users read about pods and Reservations that do not come together.

A Reservation whose owners include a pod may still not be for it. Both are told: the pod in its reason, and the
Reservation in an event. The clauses here follow a colon in both.
"""

from __future__ import annotations

from collections.abc import Iterable

from stromboli.api.quantity import stated_amount
from stromboli.scheduling.callbacks import Refusal

from .reasons import Code

MOST_NAMED = 2


def not_for_the_pod(found: Iterable[tuple[str, str]]) -> str:
    """For the pod: (Reservation, clause) of each."""
    pairs = list(found)
    said = [f"Reservation {name} matches, but the pod cannot use it: {clause}." for name, clause in pairs[:MOST_NAMED]]
    if len(pairs) > MOST_NAMED:
        said.append(f"So it is with {len(pairs) - MOST_NAMED} more Reservations.")
    return " ".join(said)


def pod_refused(pod: str, clause: str) -> str:
    """For the Reservation."""
    return f"Pod {pod} matches its owners, but cannot use it: {clause}."


def other_queue(queue: str, own: str) -> str:
    return f"it is for queue {queue}, and the pod is in queue {own}"


def other_namespace(namespaces: Iterable[str], own: str) -> str:
    known = sorted(set(namespaces))
    noun = "namespace" if len(known) == 1 else "namespaces"
    return f"it is for {noun} {', '.join(known)}, and the pod is in {own}; an owner lists others in its namespaces"


def low_priority(least: int, own: int) -> str:
    return f"it is for pods of priority {least} or higher, and the pod has {own}"


def too_little_left(resource: str, left: int, requested: int) -> str:
    has, need = stated_amount(resource, left), stated_amount(resource, requested)
    return f"it has {has} {resource} left, and the pod requests {need}"


def nothing_requested(resources: Iterable[str]) -> str:
    return f"it holds {', '.join(sorted(resources))}, and the pod requests nothing of that"


def not_named(resource: str, node: str, free: int, requested: int) -> str:
    has, need = stated_amount(resource, max(free, 0)), stated_amount(resource, requested)
    return f"it does not hold {resource}, and its node {node} has {has} free of the {need} that the pod requests"


def closed_node(node: str, why: str) -> str:
    """`why`: the phrase of a filter."""
    return f"its node {node} is closed to the pod ({why})"


def over_limit(refusal: Refusal) -> str:
    """The pod's queue may not have so much."""
    if not refusal.resource:
        return f"queue {refusal.subject} does not take it"
    after, most = (stated_amount(refusal.resource, n) for n in (refusal.have + refusal.need, refusal.total))
    limit = "deserves" if refusal.code == Code.QUEUE_OVER_DESERVED else "may have at most"
    return f"queue {refusal.subject} would have {after} {refusal.resource}, and {limit} {most}"
