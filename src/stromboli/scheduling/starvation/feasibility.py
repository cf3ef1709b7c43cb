"""Rule 3. Who can be served.

Jobs that can be placed as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.cluster import Job, JobKey, Node, Status, Task
from stromboli.scheduling.callbacks import Horizon
from stromboli.scheduling.gang import reserved_tasks
from stromboli.scheduling.operations.set_aside import give_up
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import Kind, Operation, Statement

from .drained_room import DrainedRoom, needed, over_quota
from .holders import holders, is_known_not_to_start
from .node_choice import NodeChoice
from .node_index import NodeOrder, NodeOwners
from .reserve_arguments import Starvation
from .whole_placement import place_as_a_whole


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

    def could_start_anew(self, job: Job, tasks: Sequence[Task]) -> bool:
        """The same if these of its pods were gone and others waited instead."""
        session, statement = self._session, self._session.statement()
        for task in tasks:
            statement.do(Operation(_FORGET, task, (task.status, task.node)))
            statement.move(task, Status.PENDING, None)
        session.state(DrainedRoom).look_again()
        fits = self.could_be_completed(job)
        statement.discard()
        session.state(DrainedRoom).look_again()
        return fits

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


def _forget_again(statement: Statement, operation: Operation, node: Node | None) -> None:
    statement.do(operation)
    statement.move(operation.task, Status.PENDING, None)


_FORGET = Kind("forget", again=_forget_again)
