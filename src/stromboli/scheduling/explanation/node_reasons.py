"""What users read about nodes that cannot run a pod.

A sentence counts nodes: "0 of 5 nodes are available: 3 cordoned, 2 with insufficient cpu (...)". The phrases of filters
are here; each follows a number of nodes. `reasons` has the sentences around them.
"""

from __future__ import annotations

from collections.abc import Iterable

from stromboli.api import names
from stromboli.api.quantity import stated_amount
from stromboli.grammar import plural
from stromboli.scheduling.callbacks import NodeReason

from .reasons import MOST_NAMES, Code

NOT_READY = NodeReason(Code.PREDICATE_NODE_READY, "not ready", resolvable=False)
CORDONED = NodeReason(Code.PREDICATE_NODE_UNSCHEDULABLE, "cordoned", resolvable=False)
NOT_SELECTED = NodeReason(
    Code.PREDICATE_NODE_AFFINITY, "not matching the pod's node selector or affinity", resolvable=False
)
BIND_REFUSED = NodeReason(Code.BIND_REFUSED, "avoided for a while, because a bind was refused", resolvable=False)
VOLUMES_REFUSED = NodeReason(
    Code.PREDICATE_VOLUME_BINDING, "avoided for a while, because volumes could not be made there", resolvable=False
)
VOLUME_ELSEWHERE = NodeReason(Code.PREDICATE_VOLUME_AFFINITY, "that cannot reach a volume of the pod", resolvable=False)
NO_VOLUME = NodeReason(
    Code.PREDICATE_VOLUME_BINDING, "without a volume for a claim of the pod, where none can be made", resolvable=False
)
TOO_FEW_NEAR = NodeReason(
    Code.PREDICATE_VOLUME_BINDING, "near too few places for the pods that share a claim", resolvable=True
)
CLAIM_IN_USE_THERE = NodeReason(
    Code.PREDICATE_VOLUME_IN_USE, "with another pod that uses a claim for one pod only", resolvable=True
)
CLAIM_IN_USE = NodeReason(
    Code.PREDICATE_VOLUME_IN_USE, "that must wait for another pod, which uses a claim for one pod only",
    resolvable=False,
)  # fmt: skip
PORT_IN_USE = NodeReason(
    Code.PREDICATE_NODE_PORTS, "with a requested host port already in use", resolvable=True
)  # fmt: skip
NO_POD_TO_BE_NEAR = NodeReason(
    Code.PREDICATE_INTER_POD_AFFINITY, "not near the pods that the pod's affinity requires", resolvable=False
)
NEAR_EXCLUDED_PODS = NodeReason(
    Code.PREDICATE_INTER_POD_AFFINITY, "near pods that the pod's anti-affinity excludes", resolvable=True
)
EXCLUDED_BY_PODS = NodeReason(
    Code.PREDICATE_INTER_POD_AFFINITY, "near pods whose anti-affinity excludes this pod", resolvable=True
)
NO_TOPOLOGY_LABEL = NodeReason(
    Code.PREDICATE_POD_TOPOLOGY_SPREAD,
    "without a label that the pod's topology spread constraints require",
    resolvable=False,
)
TOO_UNEVEN = NodeReason(
    Code.PREDICATE_POD_TOPOLOGY_SPREAD, "where the pod would exceed its topology maxSkew", resolvable=True
)


def without_claims(code: str) -> NodeReason:
    """For a pod that can run nowhere, because of its claims; `reasons` has the sentence."""
    return NodeReason(code, "that cannot run the pod without its claims", resolvable=False)


def attach_limit(driver: str, volumes: int) -> NodeReason:
    """`volumes`: how many the pod brings."""
    noun = "volume" if volumes == 1 else "volumes"
    text = f"that cannot attach {volumes} more {noun} of {driver}"
    return NodeReason(Code.PREDICATE_VOLUME_LIMITS, text, resolvable=True)


def tainted(taint: str) -> NodeReason:
    """Only the key of the taint: there may be as many different values as nodes."""
    return NodeReason(
        Code.PREDICATE_TAINT_TOLERATION, f"with taint {taint}, which the pod does not tolerate", resolvable=False
    )


def reserved_for(jobs: Iterable[str]) -> NodeReason:
    return NodeReason(Code.NODE_RESOURCE_RESERVED, "reserved for " + ", ".join(sorted(jobs)), resolvable=False)


def locked_for(queue: str) -> NodeReason:
    return NodeReason(Code.NODE_LOCKED_BY_QUEUE, f"locked for queue {queue}", resolvable=False)


def too_much_load(resource: str, percent: float) -> NodeReason:
    text = f"where more than {percent:g} % of the {resource} is really in use"
    return NodeReason(Code.PREDICATE_NODE_LOAD, text, resolvable=False)


def kept_beside(what: str, resource: str) -> NodeReason:
    text = f"whose {what} is kept for those who ask for the idle {resource} there"
    return NodeReason(Code.PREDICATE_PROPORTION, text, resolvable=True)


# -- groups of nodes, by what the queue of the pod says ---------------------------------------------------------------


def not_in_node_groups(queue: str, *, has_rules: bool) -> NodeReason:
    text = f"not in a node group of queue {queue}" if has_rules else f"in a node group, and queue {queue} names none"
    return NodeReason(Code.PREDICATE_NODE_GROUP, text, resolvable=False)


def in_no_node_group(queue: str, *, has_rules: bool) -> NodeReason:
    rest = "" if has_rules else f", and queue {queue} names none"
    return NodeReason(Code.PREDICATE_NODE_GROUP, f"in no node group{rest}", resolvable=False)


def node_group_full(queue: str, group: str, resource: str, need: int, has: int, most: int) -> NodeReason:
    wanted, used, limit = (stated_amount(resource, amount) for amount in (need, has, most))
    text = f"in node group {group}, where queue {queue} may use {limit} {resource} ({wanted} requested, {used} used)"
    return NodeReason(Code.PREDICATE_NODE_GROUP, text, resolvable=True)


def group_limits_invalid(queue: str, why: str) -> NodeReason:
    text = f"closed, because the annotation {names.NODE_GROUP_LIMITS} of queue {queue} is invalid: {why}"
    return NodeReason(Code.PREDICATE_NODE_GROUP, text, resolvable=False)


# -- amounts, counted at the end of a cycle; no eviction is decided by these ------------------------------------------


def insufficient(resource: str, requested: int, most: int, with_held: int = 0) -> tuple[str, str]:
    """(code, phrase). `most`: the largest amount that is free on one of these nodes; `with_held`: the same if what
    Reservations hold were free, too."""
    need, free = stated_amount(resource, requested), stated_amount(resource, max(0, most))
    also = f", {stated_amount(resource, with_held)} with what Reservations hold" if with_held > max(0, most) else ""
    return Code.INSUFFICIENT_NODE, f"with insufficient {resource} ({need} requested, at most {free} free{also})"


TOO_MANY_PODS = (Code.PREDICATE_POD_COUNT, "at the maximum number of pods")
HELD_BY_RESERVATIONS = (Code.INSUFFICIENT_NODE, "with resources that Reservations hold")


def released_to(jobs: Iterable[str], *, own: bool) -> tuple[str, str]:
    """(code, phrase). `own`: also to other pods of the job that is told."""
    return Code.INSUFFICIENT_NODE, f"with resources that terminating pods release to {_owners(jobs, own)}"


def kept_for(jobs: Iterable[str], *, own: bool) -> tuple[str, str]:
    return Code.INSUFFICIENT_NODE, f"with free resources that are kept for {_owners(jobs, own)}"


def _owners(jobs: Iterable[str], own: bool) -> str:
    found = sorted(jobs)
    more = [plural(len(found) - MOST_NAMES, "more job")] if len(found) > MOST_NAMES else []
    named = [*(["other pods of this job"] if own else []), *found[:MOST_NAMES], *more]
    return " and ".join(named) or "other pods"
