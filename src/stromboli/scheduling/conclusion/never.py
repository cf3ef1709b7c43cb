"""Gangs that can never start, however long they wait: users must read that first.

"Never" means: not with these queues and nodes, even if nothing else ran. Only what is certain counts. A node that is
not ready may come back, so it is taken for one that the pod may use.
"""

from __future__ import annotations

from collections.abc import Sequence

from stromboli.cluster import OCCUPYING, PODS, Job, Task, Vector
from stromboli.scheduling.explanation import Code, reasons
from stromboli.scheduling.session import Session

from .node_survey import NodeSurveys


def never_within_quota(session: Session, job: Job, whole: Vector) -> str:
    """Why so much can never start in the queue of a job, even if the queue were empty; "" if it can."""
    refusal = session.allocatable(job.queue, whole, credit=job.queue.allocated, lending=True)
    if refusal is None or refusal.code != Code.QUEUE_OVER_QUOTA or refusal.need <= refusal.total:
        return ""
    return reasons.never_within_quota(_who(job), refusal, guaranteed=session.is_limited_by_guarantees(refusal))


def never_in_cluster(session: Session, whole: Vector) -> str:
    """Why so much can never start in the cluster; "" if it can."""
    for name, column in session.axis.by_name():
        if column != PODS and whole[column] > session.total[column]:
            return reasons.never_in_cluster(name, int(whole[column]), int(session.total[column]))
    return ""


def _who(job: Job) -> str:
    return "gang" if job.min_available > 1 else "pod"


def never_on_nodes(session: Session, surveys: NodeSurveys, job: Job, tasks: Sequence[Task], missing: int) -> str:
    """Why the gang can never start on these nodes; "" if it can. `tasks`: all that may be placed, in order; `missing`:
    how many of them must be."""
    kinds: dict[object, list[Task]] = {}
    any_of_them = missing < len(tasks) and not job.roles_matter
    candidates = tasks if any_of_them else tasks[:missing]
    if session.placement.all_alike(candidates):
        kinds[None] = list(candidates)
    else:
        for task in candidates:
            kinds.setdefault(session.placement.key(task), []).append(task)
    if any_of_them and len(kinds) > 1:
        return ""  # it may start with other pods than the first
    for members in kinds.values():
        survey = surveys.of(members[0])
        if survey.usable and survey.fit_empty == 0:
            return reasons.never_on_a_node(_who(job), *(survey.too_large or ("", 0, 0)))
        number = min(missing, len(members)) + _running_alike(job, members[0])
        if survey.usable and job.min_available > 1 and missing > 1 and number > survey.fit_empty:
            return reasons.never_on_all_nodes(number, survey.fit_empty)
    together = sum((task.request for task in tasks[:missing]), start=session.axis.zeros())
    return never_in_cluster(session, together) if len(kinds) > 1 else ""


def _running_alike(job: Job, task: Task) -> int:
    """Pods of the gang that already have a node, and would need their room also on empty nodes."""
    if job.ready_count == 0:
        return 0
    return sum(other.true_status in OCCUPYING and other.shape is task.shape for other in job.tasks.values())
