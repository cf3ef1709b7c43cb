"""What users read about the nodes of a queue: full sentences with numbers and a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from stromboli.api.quantity import stated_amount
from stromboli.grammar import are, plural

ACCEPTED = "The guarantee was accepted."
SATISFIED = "All that is guaranteed is idle on the queue's nodes or used by the queue."


def _listed(amounts: Mapping[str, float]) -> str:
    return ", ".join(f"{stated_amount(name, int(amount))} {name}" for name, amount in sorted(amounts.items()))


VOID = "It does not count until it is changed"
"""A guarantee that was refused, if it locks nodes."""
VOID_AS_LOCK = "No nodes are locked for it until it is changed, and it stays a quota"
"""One of amounts alone."""
QUOTA_ONLY = (
    "The guarantee is a quota: the queue may have these amounts on whichever nodes they are free, and no nodes are "
    "locked for it. Add a policy (Best-Effort or Guaranteed) to lock nodes."
)
NOT_CONFIGURED = (
    "The guarantee asks for nodes, and none are locked: the plugin node_reservation is not configured. Amounts count "
    "as a quota, a percentage not at all. Add the plugin to the configuration of the scheduler and the controllers."
)
NO_PERCENTAGE = "The percentage is 0, so no nodes are locked for it. Remove it if that is not what you mean."


def exceeds_cluster(resource: str, asked: float, total: float, void: str) -> str:
    """`void`: what becomes of the guarantee."""
    return (
        f"The guarantee asks for {stated_amount(resource, int(asked))} {resource}, and all nodes together have "
        f"{stated_amount(resource, int(total))}. {void}; ask for less."
    )


def exceeds_capability(count: int) -> str:
    return (
        f"The percentage is {plural(count, 'node')}, and {'that offers' if count == 1 else 'those offer'} more than "
        "the queue's capability. It does not count until it is changed; lower the percentage, or raise the capability "
        "and then edit the guarantee."
    )


def exceeds_limit(needed: int, others: int, most: int, void: str) -> str:
    return (
        f"The guarantee needs {plural(needed, 'node')}, other queues are guaranteed {others}, and all queues together "
        f"may lock {most}. {void}; ask for less, or raise maxReservedPercent of the plugin "
        "node_reservation and then edit the guarantee."
    )


def too_few_nodes(amounts: Mapping[str, float], void: str) -> str:
    return f"No set of nodes that are not locked for other queues offers {_listed(amounts)}. {void}; ask for less."


def no_whole_node(nodes: int) -> str:
    return (
        f"The percentage of {plural(nodes, 'node')} is less than one node, so nothing is locked. Raise the "
        "percentage, or guarantee amounts."
    )


def too_few_locked(locked: int, needed: int) -> str:
    return (
        f"{locked} of {needed} nodes {are(locked)} locked: no others can be locked now. They are as soon as that is "
        "possible."
    )


def not_covered(missing: Mapping[str, float]) -> str:
    return (
        f"The locked nodes offer {_listed(missing)} less than guaranteed: no others can be locked now. They are as "
        "soon as that is possible."
    )


def draining(missing: Mapping[str, float]) -> str:
    return f"Pods of other queues on the locked nodes still use {_listed(missing)} of what is guaranteed."


def locked(nodes: Sequence[str]) -> str:
    return f"Locked for the queue: {', '.join(nodes)}."


def unlocked(nodes: Sequence[str]) -> str:
    return f"No longer locked for the queue: {', '.join(nodes)}."
