"""What users read about a job that is not admitted because the cluster is too small or too full."""

from __future__ import annotations

from stromboli.scheduling.callbacks import Refusal

from .amounts import amount


def not_admitted(refusal: Refusal) -> str:
    """Nodes that take no pods now may do so again, and pods in no queue may end. So a job that needs their resources
    waits, and is not too large for ever."""
    resource = refusal.resource
    need, left, total = (amount(resource, number) for number in (refusal.need, refusal.have, refusal.total))
    ever = refusal.total + refusal.closed + refusal.outside
    if refusal.need > ever:
        return (
            f"The job can never be admitted: {need} {resource} requested, and at most {amount(resource, ever)} can be "
            f"admitted{_times('the cluster has', refusal)}. Request less, or add nodes."
        )
    times = _times("there is for queues", refusal)
    if refusal.need > refusal.total:
        later = (
            (refusal.closed, "nodes that take no pods now are ready and uncordoned"),
            (refusal.outside, "pods that are in no queue have ended"),
        )
        more = ", and ".join(f"{amount(resource, number)} more when {what}" for number, what in later if number)
        return (
            f"Waiting to be admitted, insufficient {resource}: {need} requested, and at most {total} can be admitted"
            f"{times}; {more}. Wait for that, request less, or add nodes."
        )
    kept = amount(resource, refusal.kept)
    promised = f", and {kept} is promised to admitted jobs that have not started" if refusal.kept else ""
    return (
        f"Waiting to be admitted, insufficient {resource}: {need} requested, and of {total} that may be promised"
        f"{times}, {left} is left{promised}. The job is admitted when other jobs finish."
    )


def _times(what: str, refusal: Refusal) -> str:
    return f" (what {what}, times the overcommit factor {refusal.factor})" if refusal.factor else ""
