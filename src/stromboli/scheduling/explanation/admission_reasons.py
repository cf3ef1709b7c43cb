"""What users read about a job that is not admitted because the cluster is too small or too full."""

from __future__ import annotations

from stromboli.scheduling.callbacks import Refusal

from .amounts import amount


def not_admitted(refusal: Refusal) -> str:
    """Nodes that take no pods now may do so again, so a job that needs them waits, and is not too large for ever."""
    resource = refusal.resource
    need, left, total = (amount(resource, number) for number in (refusal.need, refusal.have, refusal.total))
    times = f" (what the cluster has, times the overcommit factor {refusal.factor})" if refusal.factor else ""
    if refusal.need > refusal.total + refusal.closed:
        most = amount(resource, refusal.total + refusal.closed)
        return (
            f"The job can never be admitted: {need} {resource} requested, and at most {most} can be admitted{times}. "
            "Request less, or add nodes."
        )
    if refusal.need > refusal.total:
        closed = amount(resource, refusal.closed)
        return (
            f"Waiting to be admitted, insufficient {resource}: {need} requested, and at most {total} can be admitted"
            f"{times}, beside {closed} on nodes that take no pods now. The job is admitted when such nodes are ready "
            "and uncordoned, or others are added."
        )
    kept = amount(resource, refusal.kept)
    promised = f", and {kept} is promised to admitted jobs that have not started" if refusal.kept else ""
    return (
        f"Waiting to be admitted, insufficient {resource}: {need} requested, and of {total} that may be promised"
        f"{times}, {left} is left{promised}. The job is admitted when other jobs finish."
    )
