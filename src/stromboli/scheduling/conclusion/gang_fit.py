"""How many pods of a gang fit at the end of a cycle.

For equal pods it is arithmetic. For others, and where a placement changes what the filters say, the gang is placed once
more and taken away again: what the allocate action found was before the changes of this cycle.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from stromboli.cluster import Job, Task
from stromboli.scheduling.gang import complete_with_best_effort, place_gang, place_on_open_nodes
from stromboli.scheduling.session import Session
from stromboli.scheduling.statement import ALLOCATE

from .node_survey import NodeSurvey, NodeSurveys, rejected


def gang_fit(
    session: Session, surveys: NodeSurveys, job: Job, tasks: Sequence[Task], missing: int
) -> tuple[int, NodeSurvey]:
    """How many of the `missing` pods fit now; and the nodes, for the first pod that has none. `tasks`: all that may be
    placed, in order. In the domain that is looked at, if one is."""
    first = tasks[0]
    survey = surveys.of(first)
    if missing == 1:
        return min(survey.available, 1), survey
    fitting = session.placement.fitting(first)
    if session.placement.all_alike(tasks) and not fitting.alone and not fitting.counts_tasks:
        return min(missing, survey.fit_now, len(tasks)), survey
    found, blocked, then = _trial(session, job, tasks, missing)
    if blocked is not None:
        survey = surveys.of(blocked)
        more = {reason: number - survey.counts.get(reason, 0) for reason, number in then.items()}
        survey = replace(survey, for_the_next={reason: number for reason, number in more.items() if number > 0})
    return min(missing, found), survey


def _trial(
    session: Session, job: Job, tasks: Sequence[Task], missing: int
) -> tuple[int, Task | None, dict[tuple[str, str], int]]:
    """How many were placed; the first that was not; and which nodes filters rejected for it, once the others had
    theirs."""
    before = session.notes.of(job)
    statement = session.statement()
    waiting = deque(t for t in tasks if not t.best_effort)
    if session.domain is None:
        place_gang(session, statement, job, waiting, lending=True, conditionally=False)
    elif together := min(missing, len(waiting)):
        place_on_open_nodes(session, statement, job, waiting, lending=True, conditionally=False, together=together)
    if session.notes.of(job).blocked is None:
        complete_with_best_effort(session, statement, job)
    found = sum(operation.kind is ALLOCATE for operation in statement.operations)
    blocked = session.notes.of(job).blocked
    then = {} if blocked is None else rejected(session, session.placement.fitting(blocked))
    statement.discard()
    session.notes.recall(job, before)
    return found, blocked, then
