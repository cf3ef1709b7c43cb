"""The document of the page, from the objects that were watched so far.

It has a cluster of its own, like a scheduler that only looks. The work of a refresh follows what changed, but for the
rows themselves, which are built anew each time. Everything here runs in one thread.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from stromboli.api import ApiError, Job, KObject, Pod, PodGroup, key
from stromboli.cluster import Cluster, JobKey, TaskKey
from stromboli.cluster.events import Applied
from stromboli.insight import Picture
from stromboli.insight.inspection import take_picture, with_cycle
from stromboli.insight.job_view import name_of
from stromboli.insight.page_rows import namespace_rows, node_rows, queue_rows
from stromboli.kube.client import Event
from stromboli.page import Document, Eviction, JobRow
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Cycle

from .live_jobs import live_job_rows
from .marks import Marks
from .moves import Moves
from .outlook import Outlook
from .pod_history import PodHistory
from .samples import Samples
from .watched_objects import Change

_NOTHING_AHEAD: Final = Outlook()


class LiveDocument:
    def __init__(self, title: str, scheduler_name: str) -> None:
        self.samples = Samples()
        self._title = title
        self._scheduler_name = scheduler_name
        self._cluster = Cluster(scheduler_name=scheduler_name)
        self._history = PodHistory(self._job_of)
        self._marks = Marks()
        self._moves = Moves()
        self._groups: dict[str, PodGroup] = {}  # whose pods are moved, by key
        self._start: float | None = None

    def refresh(
        self, changes: Sequence[Change], evictions: Sequence[Event], jobs: Sequence[Job], scheduler: Scheduler,
        now: float, outlook: Outlook = _NOTHING_AHEAD, *, known: Iterable[KObject] | None = None,
    ) -> Document:  # fmt: skip
        """`changes` and `evictions`: what happened since the last call; `jobs`: all there are. `known`: all objects, if
        the state is to be built again from these; what is known of the past stays."""
        if known is not None:
            self._cluster = Cluster(scheduler_name=self._scheduler_name)
            for obj in known:
                self._apply_to_cluster(Applied(obj))
        for change in changes:
            self._apply(change, now)
        for event in evictions:
            self._history.evicted(event, now)
        picture = self._picture(jobs, scheduler, now)
        if self._start is None:
            self._start = now
        self._marks.see(picture)
        self._moves.see(self._groups.values(), picture, self._job_of_group)
        spans, evicted = self._history.spans(), self._history.evictions()
        rows = live_job_rows(picture, jobs, spans, evicted, outlook)
        self.samples.add(picture, rows, spans)
        return Document(
            title=self._title,
            clock="wall",
            start=self._start,
            end=now,
            live=True,
            facts=_facts(picture, rows),
            resources=sorted(picture.capacity),
            series=self.samples.series(),
            queues=queue_rows(picture, rows),
            namespaces=namespace_rows(picture),
            jobs=rows,
            nodes=node_rows(picture),
            spans=spans,
            marks=self._marks.all(),
            evictions=_with_queues(evicted, rows),
            migrations=self._moves.all(),
        )

    def _apply(self, change: Change, now: float) -> None:
        obj = change.object
        applied = isinstance(change, Applied)
        if isinstance(obj, Job):
            return  # read from the list; the scheduler knows their groups
        if not self._apply_to_cluster(change):
            return
        if isinstance(obj, Pod):
            (self._history.pod_applied if applied else self._history.pod_deleted)(obj, now)
        elif isinstance(obj, PodGroup):
            if applied and obj.spec.migration_info:
                self._groups[key(obj)] = obj
            else:
                self._groups.pop(key(obj), None)

    def _apply_to_cluster(self, change: Change) -> bool:
        if isinstance(change.object, Job):
            return False
        try:
            self._cluster.apply(change)
        except (ApiError, ValueError):
            return False  # the scheduler ignores it, too, and says so
        return True

    def _picture(self, jobs: Sequence[Job], scheduler: Scheduler, now: float) -> Picture:
        """With what queues deserve. Plugins work that out when a session is opened; no action runs in it."""
        picture = take_picture(self._cluster, jobs, now, topology_keys=scheduler.configuration.topology_keys)
        session = scheduler.open(self._cluster.snapshot(), now)
        deserved = {name: session.amounts(vector) for name, vector in session.deserved.items()}
        return with_cycle(picture, Cycle(deserved=deserved))

    def _job_of_group(self, group: str) -> str:
        job = self._cluster.jobs.get(JobKey(group))
        return group if job is None else name_of(job)

    def _job_of(self, pod: str) -> str:
        task = self._cluster.tasks.get(TaskKey(pod))
        return pod if task is None or task.job is None else name_of(task.job)


def _with_queues(evictions: Iterable[Eviction], jobs: Iterable[JobRow]) -> list[Eviction]:
    queues = {job.key: job.queue for job in jobs}
    return [
        Eviction(
            key=one.key, time=one.time, pod=one.pod, job=one.job, queue=queues.get(one.job, ""), node=one.node,
            reason=one.reason, message=one.message,
        )
        for one in evictions
    ]  # fmt: skip


def _facts(picture: Picture, jobs: Sequence[JobRow]) -> list[tuple[str, str]]:
    states = Counter(job.state for job in jobs)
    facts = [
        ("Nodes", str(len(picture.nodes))),
        ("Jobs waiting", str(states["waiting"])),
        ("Jobs running", str(states["running"])),
        ("Pods waiting", str(sum(job.pods.waiting for job in picture.jobs))),
        ("Pods running", str(sum(job.pods.running for job in picture.jobs))),
    ]
    for name, amount in sorted(picture.capacity.items()):
        if amount:
            facts.append((f"Used of {name}", f"{picture.used.get(name, 0) / amount:.0%}"))
    facts.append(("Nodes reserved", str(sum(bool(node.reserved_for) for node in picture.nodes))))
    facts.append(("Nodes locked", str(sum(bool(node.locked_by) for node in picture.nodes))))
    return facts
