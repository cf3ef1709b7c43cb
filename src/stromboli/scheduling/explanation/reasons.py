"""What users read: the codes of reasons, and the sentences that go with them.

Every sentence says what is short, by how much, and where it helps what to do. Codes are stable names for programs;
sentences may change.
"""

from __future__ import annotations

from collections.abc import Iterable

from stromboli.api.quantity import format_amount
from stromboli.scheduling.callbacks import Refusal


class Code:
    """Codes a waiting pod can carry."""

    QUEUE_CLOSED = "QueueClosed"
    QUEUE_NOT_LEAF = "QueueNotLeaf"
    QUEUE_OVER_QUOTA = "QueueOverQuota"
    QUEUE_OVER_DESERVED = "QueueOverDeserved"
    NAMESPACE_SHARE_AHEAD = "NamespaceShareAhead"
    NOT_ENOUGH_PODS = "NotEnoughPods"
    INSUFFICIENT_NODE = "InsufficientNode"
    NODE_RESOURCE_RESERVED = "NodeResourceReserved"
    NODE_LOCKED_BY_QUEUE = "NodeLockedByQueue"
    RESERVATION_LIMIT_EXCEEDED = "ReservationLimitExceeded"
    WAITING_FOR_RELEASE = "WaitingForRelease"
    CONDITIONALLY_READY = "ConditionallyReady"
    STARVING_RESERVED = "StarvingReserved"
    GANG_SHORT = "GangShort"
    SCHEDULING_GATED = "SchedulingGated"
    QUEUE_FIRST_IN_LINE = "QueueFirstInLine"
    NO_POD_GROUP = "NoPodGroup"
    NO_QUEUE = "NoQueue"
    PREDICATE_NODE_READY = "PredicateNodeReady"
    PREDICATE_POD_COUNT = "PredicatePodCount"
    PREDICATE_NODE_UNSCHEDULABLE = "PredicateNodeUnschedulable"
    PREDICATE_NODE_AFFINITY = "PredicateNodeAffinity"
    PREDICATE_TAINT_TOLERATION = "PredicateTaintToleration"
    PREDICATE_NODE_PORTS = "PredicateNodePorts"
    PREDICATE_INTER_POD_AFFINITY = "PredicateInterPodAffinity"
    PREDICATE_POD_TOPOLOGY_SPREAD = "PredicatePodTopologySpread"


DOMINANT_AT_A_TIE = (Code.NODE_LOCKED_BY_QUEUE, Code.NODE_RESOURCE_RESERVED, Code.INSUFFICIENT_NODE)
"""Which node-level reason is named first when several stand on equally many nodes; the others follow by name."""


def refused(refusal: Refusal) -> str:
    """The sentence of a refusal."""
    resource = refusal.resource
    need = format_amount(resource, refusal.need) if resource else str(refusal.need)
    have = format_amount(resource, refusal.have) if resource else str(refusal.have)
    total = format_amount(resource, refusal.total) if resource else str(refusal.total)
    subject = refusal.subject
    match refusal.code:
        case Code.QUEUE_CLOSED:
            return f"Queue {subject} is not open; open it, or use another queue."
        case Code.QUEUE_NOT_LEAF:
            return f"Queue {subject} has queues below it, and only a leaf takes pods; use one of those below it."
        case Code.QUEUE_OVER_QUOTA:
            return (
                f"Queue {subject} may have {total} of {resource} at most and has {have}; {need} more is asked for. "
                "Wait for its jobs to end, or raise its capability."
            )
        case Code.QUEUE_OVER_DESERVED:
            return (
                f"Queue {subject} deserves {total} of {resource} now and has {have}; {need} more is asked for. "
                "It gets more when other queues ask for less, or with a higher weight."
            )
        case Code.NAMESPACE_SHARE_AHEAD:
            return subject
        case Code.NOT_ENOUGH_PODS if subject:
            return f"The gang needs {need} pods of role {subject} and only {have} exist; create the missing ones."
        case Code.NOT_ENOUGH_PODS:
            return f"The gang needs {need} pods and only {have} exist; create the missing ones or lower minMember."
        case Code.INSUFFICIENT_NODE:
            return (
                f"The cluster can promise {total} of {resource}, of which {have} is left; {need} is asked for. "
                + (
                    "The job is let in when others end."
                    if refusal.need <= refusal.total
                    else "That is more than there ever is; ask for less, or add nodes."
                )
            )
        case Code.QUEUE_FIRST_IN_LINE:
            return f"Queue {subject} is first in, first out, and an earlier job of it is still waiting."
        case _:
            return f"{refusal.code}: refused by {subject}." if subject else f"{refusal.code}."


def no_group(group: str) -> str:
    """`group` is what the pod names, "" if it names none."""
    if not group:
        return "The pod has no PodGroup; the controllers make one for it, and they do not seem to run."
    return f"There is no PodGroup {group}; create it, or correct the pod's annotation."


def no_queue(queue: str) -> str:
    return f"There is no queue {queue}; create it, or use another queue."


def no_node(nodes: int, counts: Iterable[tuple[str, int]]) -> str:
    """Why no node takes a pod: counts of (what is wrong, nodes), most first."""
    if nodes == 0:
        return "There are no nodes."
    parts = [f"{number} {text}" for text, number in sorted(counts, key=lambda pair: (-pair[1], pair[0]))]
    return f"0 of {nodes} nodes can take the pod: " + ", ".join(parts) + "."


def share_ahead(first: str, share: float, weight: int, behind: str, its_share: float, its_weight: int) -> str:
    """One namespace is served before another."""
    return (
        f"Namespace {first} goes first: it has {share:.1%} of the cluster in this queue at weight {weight}, "
        f"{behind} has {its_share:.1%} at weight {its_weight}, and there is room for neither now."
    )


def gang_short(found: int, needed: int, tasks: int, why: str) -> str:
    return (
        f"Only {found} of the {needed} pods that must start together (of {tasks} in the group) find a node. " + why
    ).rstrip()


def waiting_for_release(nodes: Iterable[str]) -> str:
    return "Room is kept on " + ", ".join(sorted(set(nodes))) + ", as soon as the pods leaving there are gone."


def reserved_for(jobs: Iterable[str]) -> str:
    return "are set aside for " + ", ".join(jobs)


def starving_reserved(missing: Iterable[tuple[str, str, Iterable[str]]]) -> str:
    """(node, what is still missing there, whose end is waited for) of each node set aside for a job."""
    parts = []
    for node, short, running in missing:
        waits = sorted(running)
        names = ", ".join(waits[:3]) + (f" and {len(waits) - 3} more" if len(waits) > 3 else "")
        parts.append(f"{node} ({short} to go, waiting for {names})" if short else f"{node} (free)")
    return "Nodes are set aside for the job until all of it fits: " + "; ".join(parts) + "."


def limit_exceeded(needed: int, most: int) -> str:
    return (
        f"The job has starved, but it needs room on {needed} more nodes, and no more than {most} may be set aside in "
        "all. Raise reservedNodePercent of the reserve action."
    )


def given_back(owner: str) -> str:
    return f"It ran on room lent by {owner}, which can start now."


def conditionally_ready(pods: Iterable[str]) -> str:
    return (
        "Every pod that must start has a place once room lent to others is given back. It waits for "
        + ", ".join(sorted(pods))
        + "."
    )


def gated() -> str:
    return "The pod has scheduling gates; it is placed when they are removed."


def not_considered() -> str:
    return "No action of this cycle considered the pod; it waits for the next one."


def preempted(preemptor: str) -> str:
    return f"Preempted to make room for {preemptor}, which goes first in the same queue."


def reclaimed(claimant: str, queue: str) -> str:
    return f"Reclaimed for {claimant}: queue {queue} has less than it deserves."
