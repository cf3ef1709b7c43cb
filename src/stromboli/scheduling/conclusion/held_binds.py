"""Why jobs and pods wait that have their places and no volumes yet."""

from __future__ import annotations

from itertools import chain

from stromboli.cluster import HeldBind, Job, JobKey, TaskKey
from stromboli.scheduling.decisions import Explanation
from stromboli.scheduling.explanation import Code, volume_reasons
from stromboli.scheduling.explanation.volume_reasons import waiting_for_volume
from stromboli.scheduling.session import Session

_WAITING = Code.WAITING_FOR_VOLUMES


class HeldBinds:
    """The explanations of a session. There may be ten thousand pods, so job and pods are explained in one pass."""

    def __init__(self, session: Session) -> None:
        self._held = session.ledger.held
        self._known: dict[JobKey, tuple[dict[TaskKey, Explanation], Explanation]] = {}

    def explain_tasks(self, job: Job) -> dict[TaskKey, Explanation]:
        """Of those that wait for volumes."""
        return self._explain(job)[0] if job.held else {}

    def explain_job(self, job: Job) -> Explanation | None:
        """None if the job waits for something else as well, and could start without those that wait for volumes."""
        if not job.held or (job.pending_count and job.ready_count - job.held >= job.min_available):
            return None
        return self._explain(job)[1]

    def _explain(self, job: Job) -> tuple[dict[TaskKey, Explanation], Explanation]:
        known = self._known.get(job.key)
        if known is None:
            known = self._known[job.key] = self._find(job)
        return known

    def _find(self, job: Job) -> tuple[dict[TaskKey, Explanation], Explanation]:
        held = {key: bind for key in job.tasks if (bind := self._held.get(key)) is not None}
        binds = held.values()
        tasks = dict(zip(held, map(_explain, binds), strict=True))
        claims = set(chain.from_iterable([bind.waits_for for bind in binds]))
        if not claims:
            return tasks, next(iter(tasks.values()))
        return tasks, Explanation(_WAITING, volume_reasons.waiting_for_volumes(claims, {bind.node for bind in binds}))


def _explain(held: HeldBind) -> Explanation:
    if len(held.waits_for) == 1:
        return Explanation(_WAITING, waiting_for_volume(held.waits_for[0], held.node))
    if held.waits_for:
        return Explanation(_WAITING, volume_reasons.waiting_for_volumes(held.waits_for, [held.node]))
    return Explanation(_WAITING, volume_reasons.waiting_for_mates(held.node))
