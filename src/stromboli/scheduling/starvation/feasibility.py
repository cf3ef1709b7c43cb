"""Rule 3. Who can be served.

A job is placed as a whole, in a statement that may be discarded. Siblings that were given a place count as neighbours
already. So two pods that may not be in one zone are never promised the same zone, nor two that use one host port the
same node. Pods without requests get no reservation, but need a slot.
"""

from __future__ import annotations

from dataclasses import dataclass

from stromboli.cluster import Job, JobKey, Status
from stromboli.scheduling.callbacks import Horizon
from stromboli.scheduling.gang import condition_ready, reserved_tasks
from stromboli.scheduling.operations.set_aside import give_up, set_aside
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Statement

from .drained_room import needed, over_quota
from .holders import holders, is_known_not_to_start
from .node_choice import NodeChoice
from .node_index import NodeOrder, NodeOwners
from .reserve_arguments import Starvation


@dataclass(slots=True)
class Attempt:
    statement: Statement
    complete: bool  # with what was set aside, the job can start
    found: int  # tasks that have or would get a place
    missing: int  # tasks that must start together and have none yet
    over_limit: int = 0  # for how many tasks only the limit on nodes stood in the way
    short: str = ""  # why the first task that found no node found none


def place_as_a_whole(session: Session, job: Job, statement: Statement, choice: NodeChoice) -> Attempt:
    attempt = Attempt(statement, False, 0, max(0, job.min_available - job.ready_count))
    without_requests = []
    for task in session.pending_tasks(job):
        if task.best_effort:
            without_requests.append(task)
            continue
        if condition_ready(job):
            break
        if task.status is Status.RESERVED:
            continue
        row, limited = choice.row_for(task)
        if row is None:
            attempt.over_limit += limited
            if not attempt.short and not limited:
                attempt.short = choice.why_not(task)
            continue
        set_aside(statement, task, session.nodes.nodes[row])
        choice.take(row)
    attempt.found = job.counts[Status.RESERVED]
    attempt.complete = condition_ready(job)
    lacking = without_requests[: max(0, attempt.missing - attempt.found - job.waiting_count)]
    if attempt.complete and lacking and not choice.has_slots(lacking):
        attempt.complete, attempt.short = False, choice.why_not(lacking[0])
    if attempt.complete:
        reserved = [task.request for task in job.tasks.values() if task.status is Status.RESERVED]
        attempt.complete = over_quota(session, job, sum(reserved, start=session.axis.zeros())) is None
    return attempt


class Feasibility:
    """Whether a job could start if it had the cluster to itself, but for what never drains, on as many nodes as may be
    reserved. Others make room for a job only if that helps it. The answer is the same all through a session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[JobKey, bool] = {}

    def could_start(self, job: Job) -> bool:
        if job.counts[Status.RESERVED]:
            return True  # it was tested when nodes were set aside for it
        known = self._known.get(job.key)
        if known is None:
            rules = self._session.state(Starvation).rules
            most = len(self._session.nodes) if rules is None else rules.most_nodes(self._session, job.queue)
            known = self._known[job.key] = not is_known_not_to_start(job) and self._fits(job, most)
        return known

    def could_be_completed(self, job: Job) -> bool:
        """The same for a gang that has pods on nodes: nothing is reserved for it, so no number of nodes limits it."""
        return self._fits(job, len(self._session.nodes))

    def _fits(self, job: Job, most: int) -> bool:
        session = self._session
        if over_quota(session, job, needed(job)) is not None:
            return False
        others = list(holders(session).values())
        statement = session.statement()
        for holder in others:
            for task in reserved_tasks(holder):
                give_up(statement, task)
        owners = NodeOwners(session).without(others)
        choice = NodeChoice(session, job, NodeOrder(session), owners, most, horizon=Horizon.DRAINED)
        fits = place_as_a_whole(session, job, statement, choice).complete
        statement.discard()
        return fits
