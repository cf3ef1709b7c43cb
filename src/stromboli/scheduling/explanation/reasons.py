"""What users read about a waiting or evicted pod: reason codes and their sentences.

Every sentence says what is missing, how much, and what to do about it. Codes are stable names for programs; sentences
may change. All of them are in this module, those about whole gangs in `gang_reasons`, about nodes reserved for starved
jobs in `reserved_node_reasons`, and the phrases about nodes in `node_reasons`, so that they keep one style and a reader
can check them in one place. The exceptions are the texts of your own plugins.

Amounts are those of the cluster at the end of a cycle, and requests those of all pods that must start together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from stromboli.api import names
from stromboli.api.quantity import stated_amount
from stromboli.api.upstream import written_type
from stromboli.cluster.volumes import HELD
from stromboli.grammar import are, have, plural
from stromboli.scheduling.callbacks import Refusal

from .admission_reasons import not_admitted
from .amounts import amount as _amount
from .gang_reasons import no_upstream_group


class Code:
    """The reason codes of waiting pods."""

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
    DOMAIN_SHORT = "DomainShort"
    NO_DOMAIN = "NoDomain"
    SUB_GROUP_SHORT = "SubGroupShort"
    NOT_ENOUGH_SUB_GROUPS = "NotEnoughSubGroups"
    SUB_GROUP_UNCLEAR = "SubGroupUnclear"
    SCHEDULING_GATED = "SchedulingGated"
    QUEUE_FIRST_IN_LINE = "QueueFirstInLine"
    BIND_REFUSED = "BindRefused"
    INTERNAL_ERROR = "InternalError"
    NOT_REACHED = "NotReached"
    INVALID_OBJECT = "InvalidObject"
    NOT_TRIED = "NotTried"
    NO_PRIORITY_CLASS = "NoPriorityClass"
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
    NAMESPACE_OVER_QUOTA = "NamespaceOverQuota"
    PREDICATE_NODE_GROUP = "PredicateNodeGroup"
    PREDICATE_NODE_LOAD = "PredicateNodeLoad"
    PREDICATE_PROPORTION = "PredicateProportion"
    CLAIM_MISSING = "ClaimMissing"
    CLAIM_UNBOUND = "ClaimUnbound"
    RESOURCE_CLAIMS_UNSUPPORTED = "ResourceClaimsUnsupported"
    WAITING_FOR_VOLUMES = HELD
    PREDICATE_VOLUME_AFFINITY = "PredicateVolumeAffinity"
    PREDICATE_VOLUME_BINDING = "PredicateVolumeBinding"
    PREDICATE_VOLUME_LIMITS = "PredicateVolumeLimits"
    PREDICATE_VOLUME_IN_USE = "PredicateVolumeInUse"


OF_CLAIMS = (Code.CLAIM_MISSING, Code.CLAIM_UNBOUND, Code.RESOURCE_CLAIMS_UNSUPPORTED)
"""The pod can run nowhere until something is done about its claims."""


CODES = frozenset(value for name, value in vars(Code).items() if name.isupper())

DOMINANT_AT_A_TIE = (Code.NODE_LOCKED_BY_QUEUE, Code.NODE_RESOURCE_RESERVED, Code.INSUFFICIENT_NODE)
"""Which node-level reason is dominant when several apply to equally many nodes; the others follow by name."""


_GUARANTEED = "the rest is guaranteed to other queues"
MOST_NAMES = 3


_SAID_BY_SUBJECT = frozenset({
    Code.NAMESPACE_SHARE_AHEAD, Code.CLAIM_MISSING, Code.CLAIM_UNBOUND, Code.RESOURCE_CLAIMS_UNSUPPORTED,
    Code.NOT_ENOUGH_SUB_GROUPS,
})  # fmt: skip
"""Refusals whose subject is the whole sentence."""


def refused(refusal: Refusal, *, guaranteed: bool = False) -> str:
    """The sentence for a refusal. `guaranteed`: the limit of the queue is what guarantees of other queues leave."""
    resource = refusal.resource
    need, have, total = (_amount(resource, number) for number in (refusal.need, refusal.have, refusal.total))
    subject = refusal.subject
    match refusal.code:
        case Code.QUEUE_CLOSED:
            return f"Queue {subject} is not open; open it or use another queue."
        case Code.NO_PRIORITY_CLASS:
            return f"PriorityClass {subject} does not exist, so pods cannot be created. Create it, or use another."
        case Code.QUEUE_NOT_LEAF:
            return f"Queue {subject} has child queues, and only leaf queues take pods; use one of its children."
        case Code.QUEUE_OVER_QUOTA:
            limit = f"at most {total} allowed; {_GUARANTEED}" if guaranteed else f"at most {total} allowed"
            return (
                f"Queue {subject} would exceed its quota: {need} {resource} requested, {have} allocated"
                f"{_beside(refusal)}, {limit}. Wait for its jobs to finish, or {_remedy(guaranteed)}."
            )
        case Code.QUEUE_OVER_DESERVED:
            return (
                f"Queue {subject} would exceed its deserved share: {need} {resource} requested, {have} allocated"
                f"{_beside(refusal)}, {total} deserved. It gets more when other queues request less, or with a higher "
                "weight."
            )
        case Code.NAMESPACE_OVER_QUOTA:
            return _over_namespace_quota(refusal)
        case code if code in _SAID_BY_SUBJECT:
            return subject
        case Code.NOT_ENOUGH_PODS:
            return _too_few_pods(refusal, need, have)
        case Code.INSUFFICIENT_NODE:
            return not_admitted(refusal)
        case Code.QUEUE_FIRST_IN_LINE:
            return f"Queue {subject} is FIFO, and an earlier job in it is still waiting. See the reason of that job."
        case _:
            return f"{refusal.code}: rejected by {subject}." if subject else f"{refusal.code}."


def _too_few_pods(refusal: Refusal, need: str, have: str) -> str:
    what, remedy = "pods", f" or lower {refusal.minimum}"
    if refusal.subject and refusal.minimum == "minCount":
        what = f"pods of PodGroup {refusal.subject}"
    elif refusal.subject:
        what, remedy = f"pods of role {refusal.subject}", ""
    then = _created_for(refusal.creator) or f"Create the others{remedy}."
    return f"The gang has too few {what}: {need} required, {have} created. {then}"


def _over_namespace_quota(refusal: Refusal) -> str:
    what = refusal.resource or "pods"
    need, have, total = (_amount(refusal.resource, number) for number in (refusal.need, refusal.have, refusal.total))
    return (
        f"ResourceQuota {refusal.subject} would be exceeded: {need} {what} requested, {have} used{_beside(refusal)}, "
        f"at most {total} allowed. Wait for pods of the namespace to end, or raise the quota."
    )


_CREATED = "The controllers create the others"


def _created_for(creator: str) -> str:
    return f"{_CREATED}; if they do not, look at the events of {creator}." if creator else ""


def says_that_pods_are_created(message: str) -> bool:
    return _CREATED in message


def retried_at(moment: str) -> str:
    return f"The next attempt is at {moment}."


def retried_when_another_fits(node: str, moment: str) -> str:
    """`node`: one that failed, which is tried again at that moment; "" if there is none."""
    also = f", and on {node} again from {moment} on" if node else ""
    return f"It is tried again as soon as another node fits{also}."


def bind_refused(pod: str, node: str, why: str, times: int, others: int, when: str) -> str:
    """`times`: how often binds of the pod were refused; `others`: pods of the job to which it happened as well;
    `when`: the sentence about the next attempt (`retried_at`, `retried_when_another_fits`)."""
    also = f" So were binds of {plural(others, 'more pod')} of the job." if others else ""
    often = f", for the {times}th time" if times > 3 else ""
    return f"The API server refused to bind {pod} to {node}{often}: {why.rstrip('.')}.{also} {when}"


def _beside(refusal: Refusal) -> str:
    """What counts beside the allocated amount, or does not count of it."""
    spared = stated_amount(refusal.resource, refusal.spared)
    parts = (
        (refusal.kept_own, "promised to other pods of this job"),
        (refusal.kept, f"kept for other pods{_whose(refusal.kept_for)}"),
        (refusal.leaving, "still used by terminating pods"),
    )
    beside = "".join(f", {stated_amount(refusal.resource, amount)} {what}" for amount, what in parts if amount)
    return f" ({spared} of it can be taken back){beside}" if refusal.spared else beside


def _whose(jobs: Sequence[str]) -> str:
    if not jobs:
        return ""
    more = f" and {len(jobs) - MOST_NAMES} more" if len(jobs) > MOST_NAMES else ""
    return " (" + ", ".join(jobs[:MOST_NAMES]) + more + ")"


RESERVATION = "Reservation"


def says_never(message: str) -> bool:
    """Whether a sentence of those below, or that of a job too large to be admitted, begins like this."""
    return message.startswith(tuple(f"The {who} can never " for who in ("gang", "pod", RESERVATION, "job")))


# -- what can never start ---------------------------------------------------------------------------------------------


def _never(who: str) -> str:
    return f"The {who} can never {'get a node' if who == RESERVATION else 'start'}"


def never_within_quota(who: str, refusal: Refusal, *, guaranteed: bool) -> str:
    """`who`: see `display_names.what_waits`; `guaranteed`: the rest is guaranteed to other queues."""
    resource = refusal.resource
    need, most = stated_amount(resource, refusal.need), stated_amount(resource, refusal.total)
    return (
        f"{_never(who)}: {need} {resource} requested, and queue {refusal.subject} may have at most {most}"
        f"{_limit_of_queue(guaranteed)}"
    )


def says_guaranteed(message: str) -> bool:
    return _GUARANTEED in message


def _remedy(guaranteed: bool) -> str:
    """Against the limit of a queue."""
    return "lower their guarantees" if guaranteed else "raise its capability"


def _limit_of_queue(guaranteed: bool) -> str:
    """The end of a sentence about what a queue may have at most, and what to do."""
    if guaranteed:
        return f"; {_GUARANTEED}. Request less, or {_remedy(guaranteed)}."
    return ". Request less, or raise the queue's capability."


def never_on_a_node(who: str, resource: str, requested: int, most: int) -> str:
    """`resource`: of which no node has enough; "" if it takes several resources to rule out every node."""
    if not resource:
        whose = "that it" if who == RESERVATION else "that a pod of it"
        return f"{_never(who)}: no node {whose} may use is large enough, even if it is empty."
    need, largest = stated_amount(resource, requested), stated_amount(resource, most)
    each = "" if who == RESERVATION else " for one pod"
    return f"{_never(who)}: {need} {resource} requested{each}, and nodes that it may use have at most {largest}."


def never_on_all_nodes(pods: int, most: int) -> str:
    return f"The gang can never start: it needs {pods} equal pods, and empty nodes have room for only {most}."


def never_in_cluster(who: str, resource: str, requested: int, total: int) -> str:
    need, there = stated_amount(resource, requested), stated_amount(resource, total)
    return f"{_never(who)}: {need} {resource} requested, and the cluster has {there}."


def never_beside_services_of_queue(who: str, refusal: Refusal, *, guaranteed: bool) -> str:
    """The queue may not have so much, beside pods of it that do not end and what its Reservations hold. `guaranteed`:
    the rest is guaranteed to other queues."""
    resource = refusal.resource
    need, total = stated_amount(resource, refusal.need), stated_amount(resource, refusal.total)
    kept = stated_amount(resource, refusal.have)
    stays = f", of which pods that do not end and Reservations keep {kept}" if refusal.have > 0 else ""
    return (
        f"{_never(who)}: {need} {resource} requested, and queue {refusal.subject} may have at most "
        f"{total}{stays}{_limit_of_queue(guaranteed)}"
    )


def not_before_there_is_more(who: str, refusal: Refusal) -> str:
    """The same, if what a queue may have will be enough some day."""
    need, total = stated_amount(refusal.resource, refusal.need), stated_amount(refusal.resource, refusal.total)
    return (
        f"The {who} cannot start yet: {need} {refusal.resource} requested, and queue {refusal.subject} may have at "
        f"most {total} while nodes take no pods, or pods in no queue use them."
    )


def never_beside_services(who: str, found: int, needed: int, why: str) -> str:
    """It would not fit even if all pods were gone that end. `why`: the sentence about nodes, for the next pod."""
    return (
        f"{_never(who)}: if all other pods that end were gone, {found} of the {needed} pods that must "
        f"start together would fit. For the next one, {why[:1].lower()}{why[1:]}"
    )


def can_be_admitted() -> str:
    return "The job can be admitted now. It was not when jobs were admitted; it is tried again in the next cycle."


def no_group(group: str) -> str:
    """`group` is the group the pod names, or "" if it names none."""
    if not group:
        return "The pod has no PodGroup. The controllers create one for it; check that they are running."
    if written_type(group) is not None:
        return no_upstream_group(group)
    return f"PodGroup {group} does not exist; create it, or correct the pod's annotation."


def no_queue(queue: str) -> str:
    return f"Queue {queue} does not exist; create it or use another queue."


def invalid_pod(why: str) -> str:
    return f"The pod is ignored, because a request of it cannot be counted: it {why}. Create it again with less."


def not_reached() -> str:
    return (
        "The last cycle ran out of time before this job had its turn; the next one begins with those that had none. If "
        "this lasts, give the scheduler a faster machine or a longer --cycle-budget."
    )


def invalid_object(kind: str, key: str, why: str) -> str:
    return f"{kind} {key} is ignored, because it is invalid: {why}. Correct it."


def invalid_queue_annotation(queue: str) -> str:
    return f'"{queue}" in the annotation {names.QUEUE_NAME} cannot be the name of a queue; correct it.'


def object_warning(kind: str, value: str) -> tuple[str, str]:
    """The reason and the message of a warning about a value that cannot be used as it is."""
    if kind == "ResourceQuota":
        return "InvalidWeight", (
            f'{names.NAMESPACE_WEIGHT} must be a whole number of at least 1, not "{value}"; this quota gives weight 1.'
        )
    who = "group" if kind == "PodGroup" else kind
    message = f"PriorityClass {value} does not exist; the {who} has priority 0 until it is created."
    return Code.NO_PRIORITY_CLASS, message


def node_counts(
    nodes: int,
    available: int,
    counts: Collection[tuple[str, int]],
    *,
    gang: bool = False,
    for_the_next: Collection[tuple[str, int]] = (),
    domain: str = "",
) -> str:
    """Which nodes can run a pod, and why the others cannot: (problem, number of nodes) pairs. The most frequent problem
    comes first. All numbers together are the number of nodes. `gang`: it is about the first pod of a gang that has no
    node once the others have theirs; before that, there may be nodes for it. `for_the_next`: what is wrong with them
    after that. `domain`: whose nodes these are, if not all nodes of the cluster."""
    if nodes == 0:
        return "The cluster has no nodes; add some."
    problems = (": " + _listed(counts)) if counts else ""
    of = f" of {domain}" if domain else ""
    if gang and available:
        then = f" For the next one: {_listed(for_the_next)}." if for_the_next else ""
        return f"{available} of {nodes} nodes{of} {have(available)} room for some of them{problems}.{then}"
    return f"{available} of {nodes} nodes{of} {are(available)} available{problems}."


def _listed(counts: Iterable[tuple[str, int]]) -> str:
    """The most frequent first."""
    return ", ".join(f"{number} {text}" for text, number in sorted(counts, key=lambda pair: (-pair[1], pair[0])))


def some_nodes(number: int, nodes: int, phrase: str, domain: str = "") -> str:
    """One problem alone, and on how many nodes it is. `domain`: see `node_counts`."""
    of = f" of {domain}" if domain else ""
    return f"{number} of {nodes} nodes{of} {are(number)} not available: {phrase}."


def share_ahead(
    first: str, share: float, weight: int, behind: str, its_share: float, its_weight: int, *, with_promised: bool
) -> str:
    """One namespace goes before another because its weighted share is smaller. `with_promised`: a share includes what
    waiting pods were promised."""
    promised = ", with what waiting pods were promised" if with_promised else ""
    return (
        f"Namespace {first} goes first: its share in this queue is {share:.1%} at weight {weight}, "
        f"the share of {behind} is {its_share:.1%} at weight {its_weight}{promised}."
    )


def namespace_held(first: str, namespace: str) -> str:
    return (
        f"{first} has waited too long and goes first: with this pod, namespace {namespace} would have too large a "
        "share of the queue for that job to start."
    )


def waiting_for_release(nodes: Iterable[str], reservation: str = "") -> str:
    """`reservation`: that is to have them, if it is not a pod."""
    who = f"Reservation {reservation}" if reservation else "this pod"
    return "Waiting for terminating pods on " + ", ".join(sorted(set(nodes))) + "; their resources go to " + who + "."


def cleared(node: str, queue: str) -> str:
    return f"Node {node} is locked for queue {queue}, which is guaranteed room there. The pod may start elsewhere."


def given_back(owner: str) -> str:
    return f"The pod ran on lent resources. {owner} goes first and can start there now."


def conditionally_ready(pods: Iterable[str]) -> str:
    return (
        "All pods that must start together fit once lent resources are returned. Waiting for "
        + ", ".join(sorted(pods))
        + "."
    )


def not_considered() -> str:
    return "No action considered the pod in this cycle; it waits for the next one."


def not_tried_again(nodes: str) -> str:
    """`nodes`: the counts of nodes."""
    return f"{nodes} No action placed the pod in this cycle; it is tried again in the next one."


def goes_before(first: str, behind: str) -> str:
    return f"Namespace {first} goes before {behind} in this queue."


def preempted(preemptor: str) -> str:
    return f"Preempted to make room for {preemptor}, which ranks higher in the same queue."


def reclaimed(claimant: str, queue: str) -> str:
    return f"Reclaimed for {claimant}: queue {queue} has less than its deserved share."
