"""Why jobs and pods wait that have their places and no volumes yet."""

from __future__ import annotations

from itertools import chain

from stromboli.cluster import HeldBind, Job
from stromboli.scheduling.decisions import Explanation
from stromboli.scheduling.explanation import Code, volume_reasons
from stromboli.scheduling.explanation.volume_reasons import waiting_for_volume
from stromboli.scheduling.session import Session

_WAITING = Code.WAITING_FOR_VOLUMES


def explain_held(held: HeldBind) -> Explanation:
    if len(held.waits_for) == 1:
        return Explanation(_WAITING, waiting_for_volume(held.waits_for[0], held.node))
    if held.waits_for:
        return Explanation(Code.WAITING_FOR_VOLUMES, volume_reasons.waiting_for_volumes(held.waits_for, [held.node]))
    return Explanation(Code.WAITING_FOR_VOLUMES, volume_reasons.waiting_for_mates(held.node))


def explain_job(session: Session, job: Job) -> Explanation | None:
    """None if the job waits for something else as well, and could start without those that wait for volumes."""
    if not job.held or (job.pending_count and job.ready_count - job.held >= job.min_available):
        return None
    held = [one for one in map(session.ledger.held.get, job.tasks) if one is not None]
    claims = set(chain.from_iterable([one.waits_for for one in held]))
    if not claims:
        return explain_held(held[0])
    nodes = {one.node for one in held}
    return Explanation(Code.WAITING_FOR_VOLUMES, volume_reasons.waiting_for_volumes(claims, nodes))
