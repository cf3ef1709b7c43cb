"""A job is admitted only if the ResourceQuotas of its namespace leave enough for all pods that it must start with.

The API server refuses each pod that exceeds a quota. Without this plugin a gang of which only a part may be created is
admitted all the same: its pods wait for the rest, and what it was promised stays idle.

What counts as used, for each entry of `hard`: what the status of the quota says, or what the pods of the namespace
request that the scheduler knows, whichever is more (a scenario has nobody who writes that status); and what admitted
jobs will create still. A quota with scopes counts only some pods, and the pods do not exist yet: it is left out, and so
are entries about anything but requests and the number of pods, such as limits or Services.

This is no opinion about room: a job that has enough quota is admitted if other plugins agree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from stromboli.api import ResourceQuota
from stromboli.api.quantity import QuantityError, amount
from stromboli.cluster import PODS, Job, Status, Task
from stromboli.scheduling.callbacks import Refusal, Vote
from stromboli.scheduling.explanation import Code
from stromboli.scheduling.plugin import Plugin
from stromboli.scheduling.session import Session

_NUMBER_OF_PODS: Final = "pods"
_NAMES: Final = {"pods": _NUMBER_OF_PODS, "count/pods": _NUMBER_OF_PODS}
_REQUESTS: Final = "requests."
_BASICS: Final = ("cpu", "memory", "ephemeral-storage")  # a quota may name these without the prefix
_ENDED: Final = frozenset({Status.SUCCEEDED, Status.FAILED})

Amounts = dict[str, int]  # by resource, with the number of pods


class Resourcequota(Plugin):
    name = "resourcequota"

    def open(self, session: Session) -> None:
        self._session = session
        # By namespace, in the order of names.
        self._quotas = {
            name: quotas
            for name, info in session.namespaces.items()
            if (quotas := [one for _, quota in sorted(info.quotas.items()) if (one := _Quota(quota)).limits])
        }
        if self._quotas:
            self._columns = [(name, column) for name, column in session.axis.by_name() if column != PODS]
            self._requested: dict[str, Amounts] = {}  # by namespace: by pods that exist
            self._promised: dict[str, Amounts] = {}  # and by those that will, of admitted jobs
            session.add_job_enqueueable(self._fits)
            session.add_job_enqueued(self._note)

    def _fits(self, job: Job) -> Vote | Refusal:
        needed = self._missing(job) if self._quotas.get(job.namespace) else {}
        for quota in self._quotas.get(job.namespace, ()) if needed else ():
            for resource, hard, written in quota.limits:
                need = needed.get(resource, 0)
                used = max(written, self._requests(job.namespace).get(resource, 0))
                promised = self._promises(job.namespace).get(resource, 0)
                if need and used + promised + need > hard:
                    return Refusal(
                        Code.NAMESPACE_OVER_QUOTA,
                        resource="" if resource == _NUMBER_OF_PODS else resource,
                        need=need, have=used, total=hard, subject=quota.key, kept=promised,
                    )  # fmt: skip
        return Vote.ABSTAIN

    def _note(self, job: Job) -> None:
        if self._quotas.get(job.namespace):
            _add(self._promises(job.namespace), self._missing(job))

    def _missing(self, job: Job) -> Amounts:
        """What the pods of a job's minimum request that do not exist yet."""
        if job.min_resources is None:
            return {}
        there: Amounts = {}
        for task in _existing(job.tasks.values()):
            _add(there, self._amounts(task))
        minimum = {name: int(job.min_resources[column]) for name, column in self._columns}
        minimum[_NUMBER_OF_PODS] = job.min_available
        return {name: short for name, need in minimum.items() if (short := need - there.get(name, 0)) > 0}

    def _requests(self, namespace: str) -> Amounts:
        known = self._requested.get(namespace)
        if known is None:
            known = self._requested[namespace] = {}
            for task in self._pods_of(namespace):
                _add(known, self._amounts(task))
        return known

    def _promises(self, namespace: str) -> Amounts:
        """To jobs that were admitted before, and in this session."""
        known = self._promised.get(namespace)
        if known is None:
            known = self._promised[namespace] = {}
            for job in self._session.jobs:
                if job.namespace == namespace and job.phase not in ("Pending", "Completed"):
                    _add(known, self._missing(job))
        return known

    def _pods_of(self, namespace: str) -> Iterator[Task]:
        for job in self._session.jobs:
            if job.namespace == namespace:
                yield from _existing(job.tasks.values())
        for node in self._session.nodes.nodes:
            others = (task for task in node.tasks.values() if task.job is None and task.namespace == namespace)
            yield from _existing(others)

    def _amounts(self, task: Task) -> Amounts:
        return {name: int(task.request[column]) for name, column in self._columns} | {_NUMBER_OF_PODS: 1}


class _Quota:
    def __init__(self, quota: ResourceQuota) -> None:
        self.key = f"{quota.metadata.namespace}/{quota.metadata.name}"
        # (resource, how much is allowed, how much is used as far as its status says)
        self.limits = (
            []
            if quota.spec.has_scopes
            else [
                (resource, hard, _amount(name, quota.status.used.get(name, 0)) or 0)
                for name, written in sorted(quota.spec.hard.items())
                if (resource := _resource_of(name)) and (hard := _amount(name, written)) is not None
            ]
        )


def _resource_of(entry: str) -> str:
    """What an entry of a quota counts in the requests of pods; "" if it counts something else."""
    if entry in _NAMES or entry in _BASICS:
        return _NAMES.get(entry, entry)
    return entry.removeprefix(_REQUESTS) if entry.startswith(_REQUESTS) and entry != "requests.storage" else ""


def _amount(entry: str, written: str | int | float) -> int | None:
    try:
        return amount(entry, written)
    except QuantityError:
        return None


def _existing(tasks: Iterable[Task]) -> Iterator[Task]:
    return (task for task in tasks if task.status not in _ENDED and not task.stands_for)


def _add(to: Amounts, amounts: Mapping[str, int]) -> None:
    for name, number in amounts.items():
        to[name] = to.get(name, 0) + number
