"""Jobs: from a list of tasks to pods, and through all that may happen to them.

One pass over a job asks four questions in turn.

    1. Is there an order?      a Command, or a policy whose happening has lasted long enough      job_policy
    2. Where does it lead?     the phase, a retry, a new version                                  job_state.obey
    3. Which pods must go?     outdated, ordered to restart, surplus, or running where none may
    4. What follows?           the phase by counting; the group; the pods that are missing        job_group, job_pods

The answers depend on the objects alone, so a pass that is repeated, or cut short and repeated by another
process, goes on where the first one was. What is remembered besides is small, and losing it is harmless:
since when something has been the case (a policy's delay starts again), and which pods went without being
asked to (their places are filled again, but no policy answers).

Jobs that came to rest are not looked at again before one of their objects is a different one or a time has
come.
"""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from stromboli.api import Command, Job, Pod, PodGroup, PriorityClass, key
from stromboli.controllers.changes import Change, Create, Delete, Notify, Objects, Update
from stromboli.controllers.commands import commands_for
from stromboli.controllers.deletion_tracker import Departures
from stromboli.controllers.pod_owners import PodIndex, controlling_reference, is_finished, is_leaving, refers_to_job
from stromboli.controllers.refusals import Refusals, pardoned

from .action_requests import Memory, order_of_command, order_of_policies
from .pod_decoration import dresser, furnish
from .pod_group import admits_pods, drop_group, find_group, is_outdated, keep_group
from .pods import belongs_to, members_among, missing_pods, version_of
from .state_machine import KILLING_PHASES, PENDING, RESTARTING, obey, retry_limit, synchronise
from .status import finished_at, take_census, with_counts, with_phase


class JobController:
    def __init__(self, refusals: Refusals, *, furnishes: bool) -> None:
        """`furnishes`: whether pods get what the job's volumes and plugins say. A simulated pod has no use for it."""
        self._refusals = refusals
        self._furnishes = furnishes
        self._departures = Departures()
        self._memories: dict[str, Memory] = {}
        self._priority_classes: list[PriorityClass] = []

    def pod_gone(self, pod: Pod, now: float, *, evicted: bool) -> None:
        reference = controlling_reference(pod.metadata)
        if reference is None or not refers_to_job(reference) or not self._departures.is_news(pod):
            return
        if evicted or not is_finished(pod):
            memory = self._memories.setdefault(f"{pod.metadata.namespace}/{reference.name}", Memory())
            memory.gone[pod.metadata.name] = (pod, now)

    def undone(self, job: Job) -> None:
        """Call it when a change of the job, asked for in the last pass, was not made."""
        memory = self._memories.get(key(job))
        if memory is not None:
            memory.take_back()

    def next_due(self, now: float) -> float | None:
        dues = [memory.due for memory in self._memories.values() if memory.due is not None]
        return min((due for due in dues if due > now), default=None)

    def reconcile(self, objects: Objects, pods: PodIndex, now: float) -> list[Change]:
        self._departures.forget_gone(objects)
        self._notice_priority_classes(objects)
        commands = commands_for("Job", objects)
        changes: list[Change] = [Delete(command, reason="the command is being obeyed") for command in commands.values()]
        memories: dict[str, Memory] = {}
        for job in objects.list(Job):
            job_key = key(job)
            memory = memories[job_key] = self._memories.get(job_key) or Memory()
            memory.answered = None
            if job.metadata.deletion_timestamp is not None:
                continue
            why = self._refusals.why_not(job)
            if why:
                changes += self._refusals.of_job(job, why, now)
                if job_key in commands:
                    changes.append(Notify(job, "CommandRefused", f"The job is invalid: {why}", warning=True))
            else:
                changes += self._attend(job, pods.of_job(job), commands.get(job_key), memory, objects, now)
        self._memories = memories
        return changes

    def _attend(
        self, job: Job, claiming: list[Pod], command: Command | None, memory: Memory, objects: Objects, now: float
    ) -> list[Change]:
        """`claiming` are the pods that name the job as their owner, rightly or not."""
        group = find_group(job, objects)
        if command is None and not memory.gone and _unchanged(memory, job, group, claiming, now):
            return []
        pods = [pod for pod in claiming if belongs_to(job, pod)]
        memory.at_rest = None
        memory.due = None
        expiry = _expiry(job)
        if expiry is not None and expiry <= now:
            return [Delete(job, reason="its time to live after finishing is over")]
        changes = self._keep(job, pods, group, command, memory, objects, now)
        if expiry is not None:
            memory.due = expiry
        if not changes:
            memory.at_rest = (job, group, claiming)
        # Somebody else's pod may have the name. Then the job is not at rest: it looks again until the name is free.
        possible = [change for change in changes if not (isinstance(change, Create) and _exists(change, objects))]
        return possible + _complaint(job, _name_taken(changes, objects), memory)

    def _keep(
        self,
        job: Job,
        pods: list[Pod],
        group: PodGroup | None,
        command: Command | None,
        memory: Memory,
        objects: Objects,
        now: float,
    ) -> list[Change]:
        changes: list[Change] = []
        status = job.status
        if not status.state.phase:
            status = with_phase(status, PENDING, now=now)
        status = pardoned(status)

        order = order_of_policies(job, status.state.phase, pods, group, memory, now)
        if command is not None:
            order, refusals = order_of_command(job, status.state.phase, command)
            changes += refusals
        targets: frozenset[str] = frozenset()
        if order is not None and (outcome := obey(status.state.phase, order.action)) is not None:
            changes.append(Notify(job, "ExecuteAction", f"{order.message}: {order.action}."))
            memory.start_afresh()
            targets = order.targets
            status = with_phase(
                replace(
                    status,
                    retry_count=status.retry_count + outcome.counts_as_retry,
                    version=status.version + outcome.new_version,
                ),
                outcome.phase,
                now=now,
                reason=order.reason,
                message=order.message,
            )

        acting = replace(job, status=status)
        doomed = dict(_doomed(acting, pods, targets))
        staying = [pod for pod in pods if pod.metadata.name not in doomed and not is_leaving(pod)]
        census = take_census(job, staying, terminating=len(pods) - len(staying))
        verdict = synchronise(job, status.state.phase, census, retry_count=status.retry_count)
        if verdict.phase != status.state.phase:
            status = with_phase(status, verdict.phase, now=now, message=verdict.message)
        status = with_counts(status, job, census)
        if self._furnishes and status.state.phase not in KILLING_PHASES:
            missing, marks = furnish(job)
            changes += missing
            status = replace(status, controlled_resources=marks)
        after = replace(job, status=status)

        if status != job.status:
            changes.append(Update(after))
        for pod in pods:
            if pod.metadata.name in doomed and not is_leaving(pod):
                self._departures.expect(pod)
                changes.append(Delete(pod, reason=doomed[pod.metadata.name]))
        return changes + self._group_and_new_pods(after, pods, group, objects)

    def _group_and_new_pods(self, job: Job, pods: list[Pod], group: PodGroup | None, objects: Objects) -> list[Change]:
        """For a job as it will be."""
        phase = job.status.state.phase
        if phase in KILLING_PHASES:
            return drop_group(group)
        if phase == RESTARTING:
            return drop_group(group) if group is not None and is_outdated(job, group) else []
        changes = keep_group(job, group, objects)
        if group is not None and not is_outdated(job, group) and admits_pods(group):
            dress = dresser(job) if self._furnishes else _as_it_is
            changes += [Create(dress(pod), task) for task, pod in missing_pods(job, pods)]
        return changes

    def _notice_priority_classes(self, objects: Objects) -> None:
        """Priorities decide what a group asks for, so that no job is at rest when one has changed."""
        present = list(objects.list(PriorityClass))
        if not _same(present, self._priority_classes):
            self._priority_classes = present
            for memory in self._memories.values():
                memory.at_rest = None


def _as_it_is(pod: Pod) -> Pod:
    return pod


def _exists(change: Create, objects: Objects) -> bool:
    return objects.get(type(change.object), key(change.object)) is not None


def _name_taken(changes: list[Change], objects: Objects) -> str:
    """The name of the first pod that cannot be made because another has its name and stays; "" if there is none."""
    for change in changes:
        if isinstance(change, Create) and isinstance(change.object, Pod):
            other = objects.get(Pod, key(change.object))
            if other is not None and not is_leaving(other):
                return change.object.metadata.name
    return ""


def _complaint(job: Job, name: str, memory: Memory) -> list[Change]:
    """Said once: nobody else would tell the user what the job waits for."""
    if name == memory.taken_name:
        return []
    memory.taken_name = name
    if not name:
        return []
    said = f"Pod {name} cannot be created: another pod has that name. Delete it, or give the job another name."
    return [Notify(job, "FailedCreate", said, warning=True)]


def _unchanged(memory: Memory, job: Job, group: PodGroup | None, pods: list[Pod], now: float) -> bool:
    if memory.at_rest is None or (memory.due is not None and memory.due <= now):
        return False
    known_job, known_group, known_pods = memory.at_rest
    return known_job is job and known_group is group and _same(known_pods, pods)


def _same(left: list[Pod] | list[PriorityClass], right: list[Pod] | list[PriorityClass]) -> bool:
    return len(left) == len(right) and all(a is b for a, b in zip(left, right, strict=True))


def _expiry(job: Job) -> float | None:
    ended = finished_at(job)
    patience = job.spec.ttl_seconds_after_finished
    return None if ended is None or patience is None else ended + patience


def _doomed(job: Job, pods: list[Pod], targets: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The names of the pods that must go, each with the reason, for a job as it is after its order."""
    phase = job.status.state.phase
    if phase in KILLING_PHASES:
        yield from ((pod.metadata.name, f"its Job is {phase}") for pod in pods if not is_finished(pod))
        return
    placed = {member.pod.metadata.name for member in members_among(job, pods)}
    # A job that has no retry left ends now. What its last pods ended with is what its user will want to read.
    keeps_finished = job.status.retry_count >= retry_limit(job)
    version = job.status.version
    for pod in pods:
        name = pod.metadata.name
        if version_of(pod.metadata, otherwise=version) != version:
            if not (keeps_finished and is_finished(pod)):
                yield name, "its Job was restarted"
        elif name in targets:
            yield name, "its Job restarts it"
        elif name not in placed:
            yield name, "its Job was scaled down"
