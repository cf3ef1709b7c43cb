"""Rule 11. Who makes room in its namespace.

If what the namespace has is a stream of its own small jobs, each of them would take the turn that the namespace has.
"""

from __future__ import annotations

from stromboli.cluster import Job, Status, Vector
from stromboli.scheduling.callbacks import Refusal
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.explanation.reasons import namespace_held
from stromboli.scheduling.session import Session

from .clock import has_starved
from .drained_room import needed
from .feasibility import Feasibility
from .holders import rank
from .reserve_arguments import Starvation
from .reserved_node_filter import waits_for
from .shares import NamespaceParts, above_deserved
from .turn_length import is_stuck


class NamespaceHolds:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._parts = session.state(NamespaceParts)
        self._first: dict[tuple[str, str], Job] | None = None  # by queue and namespace
        # Jobs for which others are evicted already, or that have places and wait for volumes.
        self._promised = {task.job.key for task in session.ledger.nominated.values() if task.job is not None}
        self._promised |= {job.key for job in session.jobs if job.held} if session.ledger.held else set()

    def refuse(self, job: Job, request: Vector, credit: Vector | None) -> Refusal | None:
        """Whether the job would take its namespace's part from another job of it that has starved."""
        first = self._first_of(job)
        if first is None or not self._goes_before(first, job):
            return None
        more = request if credit is None else request - credit
        if not self._parts.takes_part_of(first, job, more):
            return None
        return Refusal(Code.NAMESPACE_SHARE_AHEAD, subject=namespace_held(first.key, job.namespace))

    def concern(self, job: Job) -> bool:
        """Whether others of the job's namespace make room for one of them. Whether the job does depends on its place in
        the line."""
        return self._first_of(job) is not None

    def holds_back(self, job: Job) -> bool:
        """Whether the job may not start as it is, because it would take that part."""
        return self.concern(job) and self.refuse(job, needed(job), None) is not None

    def _first_of(self, job: Job) -> Job | None:
        """The first in line of a job's namespace, if others make room for it."""
        if self._first is None:
            self._first = self._read()
        return self._first.get((job.queue.name, job.namespace)) if self._first else None

    def _goes_before(self, first: Job, job: Job) -> bool:
        session = self._session
        if first is job or first.priority < job.priority or session.job_ready(first):
            return False
        if waits_for(session, first, job):
            return False
        rules = session.state(Starvation).rules
        assert rules is not None
        in_line = job.counts[Status.RESERVED] > 0 or has_starved(session, job, rules)
        return not in_line or rank(session, first) < rank(session, job)

    def _read(self) -> dict[tuple[str, str], Job]:
        """The first in line of each namespace that has starved jobs and shares its queue with others."""
        session = self._session
        rules = session.state(Starvation).rules
        if rules is None or not rules.sets_aside or session.namespace_shares is None:
            return {}
        waiting: dict[tuple[str, str], list[Job]] = {}
        for job in self._beside_others():
            if job.pending_count and has_starved(session, job, rules) and self._waits_for_nodes(job):
                waiting.setdefault((job.queue.name, job.namespace), []).append(job)
        first: dict[tuple[str, str], Job] = {}
        for key, jobs in waiting.items():
            jobs.sort(key=lambda job: rank(session, job))
            # Nobody makes room for a job that could not start on empty nodes either, or that would be passed over for
            # ever because of services of its namespace.
            helped = (job for job in jobs if session.state(Feasibility).could_start(job))
            found = next((job for job in helped if not self._parts.stays_above_part(job)), None)
            # What nobody else waits for, nobody has to leave.
            if found is not None and self._parts.others_wait(found):
                first[key] = found
        return first

    def _beside_others(self) -> list[Job]:
        """The jobs that wait in queues in which several namespaces do: elsewhere nobody has to make room."""
        namespaces: dict[str, set[str]] = {}
        for job in self._session.waiting:
            namespaces.setdefault(job.queue.name, set()).add(job.namespace)
        return [job for job in self._session.waiting if len(namespaces[job.queue.name]) > 1]

    def _waits_for_nodes(self, job: Job) -> bool:
        """Nothing else than nodes is in the way of a job, as far as that can be known at the start of a session."""
        session = self._session
        if not job.queue.open or (job.phase == "Pending" and session.has_action("enqueue")):
            return False
        if session.job_ready(job) or job.key in self._promised or is_stuck(session, job):
            return False
        return session.job_valid(job) is None and not above_deserved(session, job)
