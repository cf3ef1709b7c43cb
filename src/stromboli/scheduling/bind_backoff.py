"""Retries a refused bind: later, and on another node if one fits.

An admission policy, a webhook or a quota that refuses a bind refuses it a moment later as well. So the pod pauses,
longer after each refusal, and the node is avoided for longer than that: the next attempt is on another node if one
fits. A node that refused once is not tried again before all others that fit, however many there are: pauses grow, and
by time alone the first nodes would be open again before the last ones had their turn. Pods that were refused together
spread out, or each of their attempts would hold up the binds of others.

Until then the task fits on no node, or not on those that were refused. Its job says who refused what, and when the next
attempt is made. A job whose tasks fit on no node for this reason is not even tried, and a cycle retries only so many
jobs: hundreds of them would make every cycle long, for everybody else. After many attempts in vain these are few; once
one of them succeeds they are many again, and who waited starts soon.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import lru_cache
from math import ceil, inf
from typing import Final
from zlib import crc32

import numpy as np

from stromboli.api.timestamps import format_timestamp
from stromboli.cluster import Job, JobKey, RefusedBind, Status, Task, TaskKey

from .callbacks import NodeFilter, ReasonIds, Rows, Scope
from .explanation import Code
from .explanation.node_reasons import BIND_REFUSED, VOLUMES_REFUSED
from .explanation.reasons import bind_refused, retried_when_another_fits
from .explanation.reasons import retried_at as at_time
from .explanation.volume_reasons import volumes_refused
from .session import Session

FIRST_PAUSE: Final = 1.0  # seconds; doubles with each refusal
LONGEST_PAUSE: Final = 60.0
NODE_FACTOR: Final = 6.0  # a node is avoided for so many times the pause, so that two others can be tried before it
LONGEST_AVOIDED: Final = 120.0

RETRIED_JOBS: Final = 100  # at a time; the others whose pause is over follow in the next cycles
RETRIED_IN_VAIN: Final = 8  # the same, after `RETRIED_JOBS` refusals without a success in between
RETRIED_BESIDE_OTHERS: Final = 2  # the same, if jobs wait that were not refused

_PENDING: Final = Status.PENDING  # looked up once: members of an enumeration take long to find
_TO_PLACE: Final = frozenset({Status.PENDING, Status.PIPELINED, Status.RESERVED, Status.CONDITIONAL, Status.ALLOCATED})

FEATURE = "bind_backoff"
"""The name under which the feature registers its callbacks."""


def retried_at(task: TaskKey, refused: RefusedBind) -> float:
    """No attempt is made on any node before this time, nor at this time: limits must be exceeded (`Session.due`)."""
    if refused.next_attempt is None:
        refused.next_attempt = refused.at + _pause(task, refused.failures)
    return refused.next_attempt


def avoided_until(task: TaskKey, refused: RefusedBind) -> dict[str, float]:
    """Until when nodes are avoided that were refused."""
    return {
        node: at + min(LONGEST_AVOIDED, NODE_FACTOR * _pause(task, failures))
        for node, (failures, at) in sorted(refused.by_node.items())
    }


def _pause(task: TaskKey, failures: int) -> float:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(failures - 1, 30)) * _spread(task)


@lru_cache(maxsize=1 << 16)
def _spread(task: TaskKey) -> float:
    return 1.0 + crc32(task.encode()) % 1000 / 2000  # not random: a replay must come to the same times


_Ready = tuple[float, TaskKey, Job]
"""When the time of a task came, the task, and its job."""


class PausedJobs:
    """Jobs that are not tried in a session, because no node is open to their tasks, or many others come first. It is
    known from the beginning."""

    def __init__(self, session: Session) -> None:
        paused: set[TaskKey] = set()
        jobs: dict[JobKey, Job] = {}  # with tasks that were refused, and wait
        ready: list[_Ready] = []
        unanswered: set[JobKey] = set()
        for task in session.ledger.refused_binds.values():
            refused, job = task.refused, task.job
            if refused is None or job is None:
                continue
            if _is_unanswered(session, task):
                unanswered.add(job.key)
            if task.status is not _PENDING:
                continue
            jobs[job.key] = job
            next_attempt = retried_at(task.key, refused)
            if next_attempt < session.now and _has_open_node(session, task, refused):
                ready.append((next_attempt, task.key, job))
                continue
            paused.add(task.key)
            if next_attempt >= session.now:
                session.due(next_attempt)
        late = _late(session, ready, unanswered=len(unanswered), refused=len(jobs))
        paused.update(key for _, key, _ in late)
        self._jobs = {key for key, job in jobs.items() if _has_only(job, paused)}
        # Their time has come, but not their turn.
        self.late = {job.key for _, _, job in ready if job.key in self._jobs} if late else set()

    def __contains__(self, job: Job) -> bool:
        # The first of a fifo queue is tried, and stops the queue.
        return job.key in self._jobs and not job.waiting_count and not job.queue.fifo


def _late(session: Session, ready: list[_Ready], *, unanswered: int, refused: int) -> list[_Ready]:
    """The tasks that wait although their time has come, because other jobs come first. `unanswered` jobs were retried
    before; so many jobs were `refused`."""
    limit = RETRIED_JOBS
    if session.ledger.refused_again >= RETRIED_JOBS:
        limit = RETRIED_IN_VAIN if len(session.waiting) <= refused else RETRIED_BESIDE_OTHERS
    limit = max(0, limit - unanswered)
    if len(ready) <= limit:
        return []
    served: set[JobKey] = set()
    late: list[_Ready] = []
    for entry in sorted(ready):
        key = entry[2].key
        if key not in served:
            if len(served) < limit:
                served.add(key)
            else:
                late.append(entry)
    if late:
        session.due(session.now)
    return late


def _is_unanswered(session: Session, task: Task) -> bool:
    """Whether its bind was tried again, and nobody knows yet how that ended."""
    return task.status is Status.BINDING and task.key not in session.ledger.held


def _has_open_node(session: Session, task: Task, refused: RefusedBind) -> bool:
    nodes = len(session.nodes)
    return len(refused.by_node) < nodes or len(closed_rows(session, task, refused) or ()) < nodes


def _has_only(job: Job, paused: set[TaskKey]) -> bool:
    """Whether all tasks of a job that could be placed in this session are among the paused ones."""
    return all(key in paused for key, task in job.tasks.items() if task.status in _TO_PLACE and not task.gated)


def worth_trying(session: Session, jobs: Iterable[Job]) -> list[Job]:
    """Those of these waiting jobs that are not paused after refusals."""
    paused = session.state(PausedJobs)
    return [job for job in jobs if job not in paused]


def closed_rows(session: Session, task: Task, refused: RefusedBind) -> list[int] | None:
    """The nodes that a task is not tried on; None if there is no attempt on any. Says when that changes."""
    next_attempt = retried_at(task.key, refused)
    if next_attempt >= session.now:
        session.due(next_attempt)
        return None
    if len(refused.by_node) >= len(session.nodes):  # no other node is left
        refused.tolerated = max(refused.tolerated, min(number for number, _ in refused.by_node.values()))
    rows = []
    for node, until in avoided_until(task.key, refused).items():
        known = session.nodes.by_name.get(node)
        if known is None:
            continue
        if until >= session.now:
            session.due(until)
        elif refused.by_node[node][0] <= refused.tolerated:
            continue
        rows.append(known.row)
    return rows


def open_bind_backoff(session: Session) -> None:
    if not session.ledger.refused_binds:
        return
    session.state(PausedJobs)

    def prepare(task: Task) -> NodeFilter | None:
        refused = task.refused
        if refused is None:
            return None
        closed = closed_rows(session, task, refused)
        verdicts = np.zeros(len(session.nodes), dtype=np.int32)
        rows = slice(None) if closed is None else closed
        verdicts[rows] = session.reason_id(VOLUMES_REFUSED if refused.by_volumes else BIND_REFUSED)

        def judge(rows: Rows) -> ReasonIds:
            return verdicts[rows]

        return judge

    def key(task: Task) -> Hashable:
        refused = task.refused
        if refused is None:
            return None
        closed = closed_rows(session, task, refused)
        return refused.by_volumes, None if closed is None else tuple(closed)

    with session.registering(FEATURE):
        session.add_filter(prepare, scope=Scope.STATIC, depends_on=key)
        session.points.close.add(lambda: _close(session))


def _close(session: Session) -> None:
    _say_refusals(session)
    late = session.state(PausedJobs).late
    for task in session.ledger.refused_binds.values():
        if task.status is _PENDING and task.job is not None and task.job.key not in late:
            _tolerate(session, task)


def _tolerate(session: Session, task: Task) -> None:
    """No other node took the task: those that refused least are tried again in the next cycle."""
    refused = task.refused
    if refused is None or retried_at(task.key, refused) >= session.now:
        return
    failures = [
        number
        for node, until in avoided_until(task.key, refused).items()
        if node in session.nodes.by_name and until < session.now and (number := refused.by_node[node][0])
    ]
    if failures and min(failures) > refused.tolerated:
        refused.tolerated = min(failures)
        session.ledger.note_change()  # an attempt that failed would now end otherwise
        session.due(session.now)


class Sentences:
    """What was said about jobs. Hundreds of them say the same in every cycle until their next attempt."""

    def __init__(self) -> None:
        self.known: dict[JobKey, tuple[Hashable, str]] = {}


def _say_refusals(session: Session) -> None:
    late = session.state(PausedJobs).late
    jobs: dict[JobKey, list[Task]] = {}
    for task in session.ledger.refused_binds.values():
        if task.job is not None and task.status is _PENDING:
            jobs.setdefault(task.job.key, []).append(task)
    sentences = session.memory(Sentences)
    known, sentences.known = sentences.known, {}
    for job_key, tasks in jobs.items():
        first = min(tasks, key=lambda task: task.key) if len(tasks) > 1 else tasks[0]
        refused, job = first.refused, first.job
        assert refused is not None
        assert job is not None
        when = _when(session, first, refused, is_late=job_key in late)
        about = first.key, refused.node, refused.why, refused.failures, len(tasks), refused.by_volumes, when
        was, sentence = known.get(job_key, (None, ""))
        if was != about:
            sentence_about = volumes_refused if refused.by_volumes else bind_refused
            sentence = sentence_about(
                first.key, refused.node, refused.why, refused.failures, len(tasks) - 1, _said(when)
            )
        sentences.known[job_key] = about, sentence
        code = Code.PREDICATE_VOLUME_BINDING if refused.by_volumes else Code.BIND_REFUSED
        session.notes.of(job).said[code] = sentence


def _when(session: Session, task: Task, refused: RefusedBind, *, is_late: bool) -> tuple[float, str]:
    """When the next attempt is made; or from when on it is made on a node that failed, and which, if others come first;
    the time is infinite if nobody knows."""
    next_attempt = retried_at(task.key, refused)
    if is_late:
        return next_attempt, ""
    closed = [
        (until, node)
        for node, until in avoided_until(task.key, refused).items()
        if node in session.nodes.by_name and until >= session.now
    ]
    if closed and len(closed) == len(session.nodes):  # no other node is left
        return max(next_attempt, min(closed)[0]), ""
    if next_attempt >= session.now:
        return next_attempt, ""
    return min(closed, default=(inf, ""))


def _said(when: tuple[float, str]) -> str:
    moment, node = when
    text = "" if moment == inf else format_timestamp(ceil(moment))
    return at_time(text) if text and not node else retried_when_another_fits(node, text)
