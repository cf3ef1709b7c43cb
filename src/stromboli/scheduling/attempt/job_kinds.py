"""Jobs of one kind: whatever is decided about one of them by counting holds for the others.

Hundreds of jobs may wait, and most are alike: the same queue, namespace, priority and minimums, and pods that every
filter and score treats alike. Where one of them finds no place, the next one finds none either, as long as nothing
changes in between. Callers say what "nothing changes" means for them.

Only jobs of which no task has a place of any kind are of a kind. What a job has already makes it different.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from stromboli.cluster import Job, JobKey, Status, Task
from stromboli.scheduling.session import Session

_PENDING = Status.PENDING  # a member of an enumeration takes long to find

_Live = list[Callable[[], Hashable]]


class _Facts(NamedTuple):
    task: Task  # any of the job
    keys: Hashable  # equal for jobs whose tasks are the same
    alike: bool  # whether all have the same key


class _KeptFacts:
    """Jobs keep what follows from the shape of their tasks by this, from one session to the next."""


class JobKinds:
    """The kinds of a session. Events are applied between sessions only, so what a pod or a group requests stays the
    same in a session; what can change is which tasks have a place or were promised one, and that is tested each
    time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._kept = session.memory(_KeptFacts)
        self._known: dict[JobKey, _Facts] = {}
        # By the owners that are ignored: what the live keys depend on, and the kinds for these values.
        self._kinds: dict[tuple[str, ...], tuple[_Live, dict[JobKey, tuple[Hashable, Hashable]]]] = {}
        self._numbers: dict[Hashable, int] = {}  # of requests: they are long to compare

    def of(self, job: Job, *, without: tuple[str, ...] = ()) -> Hashable:
        """Equal for jobs of one kind; None if the job is like no other. `without`: the caller ignores the live filters
        of these plugins and features."""
        if not self._has_a_kind(job):
            return None
        if without not in self._kinds:
            live = [hook.live for hook in self._session.filters if hook.live and hook.owner not in without]
            self._kinds[without] = (live, {})
        live, kinds = self._kinds[without]
        state = live[0]() if len(live) == 1 else tuple([of() for of in live])
        found = kinds.get(job.key)
        if found is None or found[0] != state:
            found = kinds[job.key] = (state, self._find(job, without))
        return found[1]

    def _has_a_kind(self, job: Job) -> bool:
        """Whether it holds nothing and was promised nothing, and its tasks may share answers with others."""
        if not job.tasks or job.counts[_PENDING] != len(job.tasks) or job.gated or job.stands_for:
            return False
        if job.layout is not None and job.layout.policies:
            return False  # which tasks belong together differs
        if self._session.ledger.any_nominated and any(task.nominated for task in job.tasks.values()):
            return False
        return self._session.may_batch(job)

    def _find(self, job: Job, without: tuple[str, ...]) -> Hashable:
        session = self._session
        known = self._known.get(job.key)
        if known is None:
            known = self._known[job.key] = self._facts(job)
        minimums = (job.min_available, *sorted(job.role_minimums.items()))
        requested = (job.queue.name, job.namespace, job.priority, minimums, job.layout, known.keys)
        number = self._numbers.setdefault(requested, len(self._numbers))
        return number, session.placement.live_key(known.task, without)

    def _facts(self, job: Job) -> _Facts:
        known: _Facts | None = job.memo.get(self._kept)
        placement = self._session.placement
        if known is not None and not placement.is_keyed(known.task):
            return known
        tasks = self._session.pending_tasks(job)
        # One role, of which no minimum is asked, is only a name: a group of scheduling.k8s.io has its own.
        named = bool(job.role_minimums) or len({task.role for task in tasks}) > 1
        known = _Facts(tasks[0], placement.constant_keys(tasks, roles=named), placement.all_alike(tasks))
        if known.alike and not placement.is_keyed(known.task):
            job.memo[self._kept] = known
        return known

    def are_tasks_alike(self, job: Job) -> bool:
        """Whether all tasks have the same key, of a job that is of a kind."""
        known = self._known.get(job.key)
        return known is not None and known.alike
