"""What the pods of a group must have in common, with each other and with the group.

A gang starts by one decision, so it has one scheduler, one priority and one queue. A pod cannot be told apart from its
group later, and the API server does not compare them. So a group that is at odds with itself does not start at all, and
the reason says which of its pods to correct.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stromboli.api import Pod, names

MOST_NAMES = 3


def disagreement(group: str, pods: Sequence[Pod], others: Sequence[Pod], *, priority: int | None, queue: str) -> str:
    """What is wrong; "" if nothing is. `group`: as users know it. `others`: its pods of other schedulers. `priority`:
    of the group. `queue`: what the group says, or what was chosen."""
    if others and pods:
        found = sorted({pod.spec.scheduler_name for pod in (*pods, *others)})
        return (
            f"The pods of {group} name {len(found)} schedulers: {_listed(found)}. A group is placed by one scheduler: "
            "create its pods with the same schedulerName."
        )
    wrong = [pod for pod in pods if priority is not None and (pod.spec.priority or 0) != priority]
    if wrong:
        return (
            f"{group} has priority {priority}, and {len(wrong)} of its {len(pods)} pods have another: pod "
            f"{wrong[0].metadata.name} has {wrong[0].spec.priority or 0}. Create them with the priorityClassName of "
            "the group."
        )
    priorities = sorted({pod.spec.priority or 0 for pod in pods})
    if len(priorities) > 1:
        return (
            f"The pods of {group} have {len(priorities)} priorities: {_listed(map(str, priorities))}. Create them with "
            "one priorityClassName, that of the group."
        )
    queues = [] if queue else sorted(queues_of(pods))
    if len(queues) > 1:
        return (
            f"The pods of {group} name {len(queues)} queues: {_listed(queues)}. Name one, in the annotation "
            f"{names.QUEUE_NAME} of the group."
        )
    return ""


def queues_of(pods: Iterable[Pod]) -> set[str]:
    found = {pod.metadata.annotations.get(names.QUEUE_NAME, "") for pod in pods}
    return found - {""}


def _listed(texts: Iterable[str]) -> str:
    found = list(texts)
    shown = [f'"{text}"' if not text.lstrip("-").isdigit() else text for text in found[:MOST_NAMES]]
    more = len(found) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
