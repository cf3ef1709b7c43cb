"""Why jobs and pods wait that have their places and no volumes yet."""

from __future__ import annotations

from itertools import chain
from typing import NamedTuple

from stromboli.cluster import HeldBind, Job, JobKey, TaskKey
from stromboli.cluster.volumes import about_room
from stromboli.scheduling.decisions import Explanation
from stromboli.scheduling.explanation import Code, volume_reasons
from stromboli.scheduling.session import Session

_WAITING = Code.WAITING_FOR_VOLUMES


class Held(NamedTuple):
    """The tasks of a job that wait for volumes."""

    keys: list[TaskKey]  # sorted
    whys: list[Explanation]  # of each
    why: Explanation  # of all


class HeldBinds:
    """The explanations of a session. There may be ten thousand pods, so job and pods are explained in one pass."""

    def __init__(self, session: Session) -> None:
        self._held = session.ledger.held
        self._known: dict[JobKey, Held] = {}

    def explain_tasks(self, job: Job) -> Held:
        """Of those that wait for volumes, if there are any."""
        known = self._known.get(job.key)
        if known is None:
            known = self._known[job.key] = self._find(job)
        return known

    def explain_job(self, job: Job) -> Explanation | None:
        """None if the job waits for something else as well, and could start without those that wait for volumes."""
        if not job.held or (job.pending_count and job.ready_count - job.held >= job.min_available):
            return None
        return self.explain_tasks(job).why

    def _find(self, job: Job) -> Held:
        held = self._held
        keys = sorted(job.tasks if job.held == len(job.tasks) else [key for key in job.tasks if key in held])
        binds = list(map(held.__getitem__, keys))
        waits = [bind.waits_for for bind in binds]
        claims = list(chain.from_iterable(waits))
        nodes = [bind.node for bind in binds]
        if len(claims) == len(binds) and all(waits):  # most pods have one claim
            sentences = volume_reasons.each_waits_for_volume(claims, nodes)
        else:
            sentences = list(map(_sentence, binds))
        tasks = list(map(job.tasks.__getitem__, keys))
        if any(task.backfill or task.uses for task in tasks):
            sentences = [
                sentence + about_room(lent=task.backfill, uses=task.uses)
                for task, sentence in zip(tasks, sentences, strict=True)
            ]
        whys = [Explanation(_WAITING, sentence) for sentence in sentences]
        if not claims:
            return Held(keys, whys, whys[0])
        return Held(keys, whys, Explanation(_WAITING, volume_reasons.waiting_for_volumes(claims, nodes)))


def _sentence(held: HeldBind) -> str:
    if held.waits_for:
        return volume_reasons.waiting_for_volumes(held.waits_for, [held.node])
    return volume_reasons.waiting_for_mates(held.node)
