"""When each group of pods was submitted, admitted, started and ended.

The store holds only groups that exist, and only their present phase. The waits of a run are measured on all groups that
there ever were, so their history is recorded here. A group has started when its minimum ran: as many pods as it needs
ran, or had succeeded, at the same time.

A Job that restarts deletes its group and creates it again. That is still one wait, so the record continues.

Pods may run before their group exists: they came earlier, or the group was deleted and is created again. They are
remembered until it comes, because they count from then on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stromboli.api import Job, PodGroup, key, names
from stromboli.api.upstream import COMPOSITE_SUFFIX, UpstreamGroup

STARVING = "Starving"
"""The condition of a group that has waited too long."""
_NOT_STARVED = ("CannotStart", "Reserved")
"""Reasons of that condition: no wait would be long enough; or nodes are reserved for it, also by the descheduler, which
does not wait so long. If it is the scheduler that reserves them, it says so with each (`reserved_for`)."""


@dataclass(slots=True)
class GroupRecord:
    submitted: float
    key: str = ""
    uid: str = ""
    queue: str = ""
    minimum: int = 1
    owner: str = ""  # kind and name of the controlling owner, such as "Job train"; "" if there is none
    owner_uid: str = ""
    admitted: float | None = None
    started: float | None = None
    deleted: float | None = None
    starved: bool = False
    had_pods: bool = False
    running: set[str] = field(default_factory=set)  # keys of pods
    succeeded: set[str] = field(default_factory=set)
    parts_run: bool = False  # of a group of groups: as many of them run as must
    parent: str = ""  # the key of the group of groups that it is part of

    @property
    def present(self) -> int:
        """How much of what must run together does so, or has succeeded."""
        return len(self.running | self.succeeded) or int(self.parts_run)

    @property
    def shown_name(self) -> str:
        """The owner's name, if there is an owner: generated names of groups contain uids."""
        name = self.owner.partition(" ")[2]
        return f"{self.key.partition('/')[0]}/{name}" if name else self.key

    @property
    def counts(self) -> bool:
        """Whether its wait counts: somebody has submitted work to it."""
        return self.had_pods or self.owner.startswith("Job ")

    def waited(self, end: float) -> float:
        until = self.started if self.started is not None else self.deleted
        return (end if until is None else until) - self.submitted


class GroupHistory:
    def __init__(self) -> None:
        self.groups: dict[str, GroupRecord] = {}  # the latest of each name
        self.earlier: list[GroupRecord] = []  # groups whose name was used again
        self._of_jobs: dict[str, GroupRecord] = {}  # by uid of the Job
        self._without_group: dict[str, dict[str, str]] = {}  # by the name of a group: its pods and their phases

    def everything(self) -> list[GroupRecord]:
        return [*self.earlier, *self.groups.values()]

    def parts(self, group_key: str) -> list[GroupRecord]:
        """The groups inside a group of groups, on all levels."""
        found: dict[str, GroupRecord] = {}
        above = {group_key} if group_key.endswith(COMPOSITE_SUFFIX) else set()
        while above:
            below = {name: one for name, one in self.groups.items() if one.parent in above and name not in found}
            found |= below
            above = set(below)
        return list(found.values())

    def of_job(self, job: Job) -> GroupRecord | None:
        return self._of_jobs.get(job.metadata.uid)

    def noted(self, group: PodGroup, at: float) -> None:
        """A group was created or changed."""
        group_key = key(group)
        record = self.groups.get(group_key)
        if record is None or record.uid != group.metadata.uid:
            record = self.groups[group_key] = self._new_record(group, record, at)
            for pod_key, phase in self._without_group.pop(group_key, {}).items():
                self._note_pod(record, pod_key, phase)
        record.queue = group.spec.queue or names.DEFAULT_QUEUE
        record.minimum = max(1, group.spec.min_member)
        if record.admitted is None and group.status.phase not in ("", "Pending"):
            record.admitted = at
        if any(c.type == STARVING and c.reason not in _NOT_STARVED for c in group.status.conditions):
            record.starved = True
        if isinstance(group, UpstreamGroup):
            record.parent = group.parent
            if group.is_composite:
                record.minimum, record.parts_run = 1, group.status.phase == "Running"
        self._check_started(record, at)

    def _new_record(self, group: PodGroup, before: GroupRecord | None, at: float) -> GroupRecord:
        owner = next((o for o in group.metadata.owner_references if o.controller), None)
        owner_uid = "" if owner is None else owner.uid
        if before is not None and owner is not None and owner.kind == "Job" and before.owner_uid == owner_uid:
            before.uid, before.deleted = group.metadata.uid, None
            return before
        if before is not None:
            self.earlier.append(before)
        record = GroupRecord(
            key=key(group), uid=group.metadata.uid, submitted=at,
            owner="" if owner is None else f"{owner.kind} {owner.name}", owner_uid=owner_uid,
        )  # fmt: skip
        if owner is not None and owner.kind == "Job":
            self._of_jobs[owner_uid] = record
        return record

    def deleted(self, group: PodGroup, at: float) -> None:
        record = self.groups.get(key(group))
        if record is not None:
            record.deleted = at
            self._without_group[key(group)] = dict.fromkeys(record.running, "Running")

    def reserved_for(self, group_key: str) -> None:
        if group_key in self.groups:
            self.groups[group_key].starved = True

    # -- pods -----------------------------------------------------------------------------------------------

    def pod_seen(self, group_key: str, pod_key: str, phase: str, at: float) -> None:
        """A pod of a group is in this phase now."""
        record = self.groups.get(group_key)
        if record is None or record.deleted is not None:
            self._without_group.setdefault(group_key, {})[pod_key] = phase
        if record is not None:
            self._note_pod(record, pod_key, phase)
            self._check_started(record, at)

    def _note_pod(self, record: GroupRecord, pod_key: str, phase: str) -> None:
        record.had_pods = True
        record.running.discard(pod_key)
        if phase == "Running":
            record.running.add(pod_key)
        elif phase == "Succeeded":
            record.succeeded.add(pod_key)

    def _check_started(self, record: GroupRecord, at: float) -> None:
        if record.started is None and record.present >= record.minimum:
            record.started = at
