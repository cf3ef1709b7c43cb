"""Jobs of one kind: whatever is decided about one of them by counting holds for the others.

Hundreds of jobs may wait, and most are alike: the same queue, namespace, priority and minimums, and pods that every
filter and score treats alike. Where one of them finds no place, the next one finds none either, as long as nothing
changes in between. Callers say what "nothing changes" means for them.

Only jobs of which no task has a place of any kind are of a kind. What a job has already makes it different.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable

from stromboli.cluster import Job, JobKey, Status, Task
from stromboli.scheduling.session import Session

_PENDING = Status.PENDING  # a member of an enumeration takes long to find


class JobKinds:
    """The kinds of a session. Events are applied between sessions only, so what a pod or a group requests stays the
    same in a session; what can change is which tasks have a place or were promised one, and that is tested each
    time."""

    def __init__(self, session: Session) -> None:
        self._session = session
        # Answers about single pods or jobs, which no kind could cover.
        self._applies = not any(session.hooks(kind) for kind in ("prePredicate", "bestNode"))
        self._known: dict[JobKey, tuple[Task, int]] = {}  # a task of the job, and the number of what it requests
        self._numbers: dict[Hashable, int] = {}  # of requests: they are long to compare

    def of(self, job: Job, *, without: Collection[str] = ()) -> Hashable:
        """Equal for jobs of one kind; None if the job is like no other. `without`: the caller ignores the live filters
        of these plugins and features."""
        if not self._applies or not job.tasks or job.counts[_PENDING] != len(job.tasks) or job.gated or job.stands_for:
            return None
        session = self._session
        if session.ledger.nominated and any(task.nominated for task in job.tasks.values()):
            return None
        if session.with_kept_places(job.tasks.values()) or session.kept_room(job):
            return None
        known = self._known.get(job.key)
        if known is None:
            tasks = session.pending_tasks(job)
            number = self._numbers.setdefault(self._requested(job, tasks), len(self._numbers))
            known = self._known[job.key] = (tasks[0], number)
        task, requested = known
        return requested, session.placement.live_key(task, without)

    def _requested(self, job: Job, tasks: list[Task]) -> Hashable:
        keys = self._session.placement.constant_keys(tasks)
        minimums = (job.min_available, *sorted(job.role_minimums.items()))
        return job.queue.name, job.namespace, job.priority, minimums, keys
