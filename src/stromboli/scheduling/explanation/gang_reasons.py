"""What users read about gangs as a whole: that they have their nodes, have lost pods, or gave back a promise."""

from __future__ import annotations

_SCHEDULED = "All pods that must start together have a node."


def scheduled(minimum: int) -> str:
    """The number is read again when the gang has lost pods."""
    return f"All {minimum} pods that must start together have a node." if minimum > 1 else _SCHEDULED


def lost_pods(minimum: int) -> str:
    """`minimum`: how many pods the gang once started with."""
    return f"All {minimum} pods that must start together had a node, and some have lost it."


def sent_away(job: str, other: str) -> str:
    """To the pods of a gang that waits for another, which waits for it."""
    return (
        f"{job} lacks pods that it needs, and so does {other}: each held what the other waits for. All pods of {job} "
        f"were evicted so that {other} can be completed."
    )


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
