"""Rule 1. Who has starved."""

from __future__ import annotations

from stromboli.cluster import Job
from stromboli.scheduling.explanation import waiting_counts, waiting_since
from stromboli.scheduling.session import Session

from .reserve_arguments import ReserveRules


def starved_since(session: Session, job: Job, rules: ReserveRules) -> float:
    """What the threshold is counted from."""
    return job.created if rules.clock == "creation" else waiting_since(session, job)


def has_starved(session: Session, job: Job, rules: ReserveRules) -> bool:
    """Whether a job has waited longer than the threshold, or than a plugin says it may; if not, the scheduler looks
    again when it has. Nothing is set aside for a Reservation that waits for a node, so it never starves."""
    if job.stands_for:
        return False
    runs = rules.clock == "creation" or waiting_counts(job)
    if runs and _is_late(session, job):
        return True
    since = starved_since(session, job, rules)
    due = since + rules.threshold
    if session.now <= due:
        # A job that had a place waits "since now" until a condition says so. That is no time to wait for, and nor is
        # that of a clock which stands still: it would never come.
        if runs and (since < session.now or since == job.created):
            session.due(due)
        return False
    return True


def _is_late(session: Session, job: Job) -> bool:
    for latest_start in session.points.latest_start.calls:
        moment = latest_start(job)
        if moment is not None:
            if session.now >= moment:
                return True
            session.due_at(moment)
    return False
