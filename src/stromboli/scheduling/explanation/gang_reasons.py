"""What users read about gangs as a whole: how many pods fit, that they have their nodes, lost pods, or gave back a
promise."""

from __future__ import annotations

from stromboli.api.quantity import format_duration
from stromboli.api.upstream import plain_name
from stromboli.grammar import have, plural

_SCHEDULED = "All pods that must start together have a node."


def scheduled(minimum: int) -> str:
    """The number is read again when the gang has lost pods."""
    return f"All {minimum} pods that must start together have a node." if minimum > 1 else _SCHEDULED


def lost_pods(minimum: int) -> str:
    """`minimum`: how many pods the gang once started with."""
    return f"All {minimum} pods that must start together had a node, and some have lost it."


def minimum_raised(minimum: int, needed: int) -> str:
    """`minimum`: how many pods the gang once started with. It is the first number, because it is read again."""
    return f"The gang started with {plural(minimum, 'pod')}, and needs {needed} now."


def sent_away(job: str, other: str) -> str:
    """To the pods of a gang that waits for another, which waits for it."""
    return (
        f"{job} lacks pods that it needs, and so does {other}: each held what the other waits for. All pods of {job} "
        f"were evicted so that {other} can be completed."
    )


def deadlock(leaves: str, completed: str, timeout: float, due: str) -> str:
    """`timeout`: seconds that gangs may wait for each other; 0 for ever. `due`: when the first one has to go."""
    said = f"{leaves} and {completed} lack pods that they need, and each holds what the other waits for."
    if not timeout:
        return f"{said} Neither is evicted, because gangDeadlockTimeout of the plugin gang is 0."
    return (
        f"{said} {leaves} is evicted so that {completed} can be completed, once it has waited for "
        f"{format_duration(timeout)} (gangDeadlockTimeout of the plugin gang), at {due}."
    )


def deadlock_next_step(leaves: str, timeout: float) -> str:
    return f"Delete one of them{f', or wait until {leaves} is evicted' if timeout else ''}."


def promise_returned(until: str) -> str:
    """`until`: a timestamp."""
    return (
        "The job could no longer start on the resources that pods were evicted for, and gave them back. It evicts "
        f"nobody until these pods are gone, at the latest until {until}."
    )


def waiting_not_counted() -> str:
    return (
        "Waiting time counts only while the pods that must start together exist without scheduling gates and the queue "
        "is open."
    )


def no_upstream_group(group: str) -> str:
    return f"PodGroup {plain_name(group)} of scheduling.k8s.io does not exist; create it: no pod starts before that."


def two_groups(volcano: str, upstream: str) -> str:
    return (
        f"The pod names two PodGroups: {volcano} in an annotation, and {upstream} in spec.schedulingGroup. It can be "
        "in one: create it without the annotation, or without schedulingGroup."
    )


def gang_short(found: int, needed: int, tasks: int, why: str) -> str:
    """`tasks`: how many pods the group has."""
    group = f" (of {tasks} in the group)" if tasks > needed else ""
    return f"Only {found} of the {needed} pods that must start together{group} fit now. {why}".rstrip()


def gated() -> str:
    return "The pod has scheduling gates; it is scheduled once they are removed."


QUEUE_GATE = "The pod keeps its scheduling gate until its queue has room for it."


def keeps_queue_gate(why: str) -> str:
    """`why`: what the queue, or whoever admits its job, says."""
    return f"{QUEUE_GATE} {why}"


def queue_gate_removed() -> str:
    return "Its queue has room for the pod, and its scheduling gate is being removed."


def waits_for_other_gates(number: int) -> str:
    return keeps_queue_gate(
        f"{plural(number, 'other pod')} that its gang needs {have(number)} scheduling gates of others."
    )


def some_gated(number: int) -> str:
    return f"{number} of the others {have(number)} scheduling gates."


def gang_unschedulable(missing: int, tasks: int, why: str) -> str:
    return f"{missing}/{tasks} tasks in gang unschedulable: {why}"
