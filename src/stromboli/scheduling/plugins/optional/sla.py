"""Jobs that are to start within a time that is agreed on: the one whose time is over first goes first.

The time is counted from the creation of the job's group. A job that has none goes after all that have one. Once the
time of a job is over, it is admitted even if plugins of lower tiers would keep it out, and the reserve action, where
it is configured, sets nodes aside for the job without waiting for its own threshold.

Nothing else holds room for such a job: what it finds while its gang is not complete is free for others.

    sla-waiting-time: 1h30m     the time of jobs for which nothing else says it; none by default

A job says its own time in the annotation `volcano.sh/sla-waiting-time` (or `sla-waiting-time`), and a queue that of its
jobs. Tenants write the annotations of jobs, so a job can only ask for more time than its queue says, not for less.
"""

from __future__ import annotations

from math import inf

from stromboli.api import KObject, names
from stromboli.api.quantity import QuantityError, parse_duration
from stromboli.cluster import Job
from stromboli.scheduling.callbacks import Vote
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

_ARGUMENT = "sla-waiting-time"


class Sla(Plugin):
    name = "sla"

    def __init__(self, arguments: Arguments) -> None:
        time = arguments.duration(_ARGUMENT, 0, minimum=0)
        self._time = time or None  # as in Volcano, 0 is no time

    def open(self, session: Session) -> None:
        self._session = session
        session.add_job_order(self._order)
        session.add_job_enqueueable(self._admit, all_at_once=lambda minimums: True)
        session.points.latest_start.add(self._latest_start)

    def _order(self, job: Job) -> float:
        latest = self._latest_start(job)
        return inf if latest is None else latest

    def _admit(self, job: Job) -> Vote:
        latest = self._latest_start(job)
        if latest is None:
            return Vote.ABSTAIN
        if self._session.now < latest:
            self._session.due_at(latest)
            return Vote.ABSTAIN
        return Vote.PERMIT

    def _latest_start(self, job: Job) -> float | None:
        own, of_queue = _stated(job.object), _stated(job.queue.object)
        time = max(own, of_queue) if own is not None and of_queue is not None else own or of_queue or self._time
        return None if time is None else job.created + time


def _stated(obj: KObject | None) -> float | None:
    """The time in an annotation, in seconds; None if there is none above 0."""
    annotations = {} if obj is None else obj.metadata.annotations
    text = next((annotations[name] for name in names.SLA_WAITING_TIMES if name in annotations), None)
    if text is None:
        return None
    try:
        return max(parse_duration(text), 0.0) or None
    except QuantityError:
        return None
