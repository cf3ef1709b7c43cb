"""The JobFlow controller: it creates each Job of a flow when the Jobs that it depends on are far enough.

A pass over a JobFlow asks three questions.

    1. Which Jobs are there, and which have been?   `flow_status`
    2. Which may be created now?                    those whose targets have completed, or answer the probes (`probes`)
    3. What remains?                                once all have completed, `jobRetainPolicy` may say that they go

The name of a Job follows from the flow and its template, so each is created once, whoever asks for it how often. A Job
that was deleted before it ended is created again. Once a Job has failed, no other one is created.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

from msgspec.structs import replace

from stromboli.api import ApiError, Flow, Job, JobFlow, JobTemplate, KObject, key, validate
from stromboli.controllers.changes import Change, Create, Delete, FromTemplate, Notify, Objects, Probe, Update
from stromboli.controllers.pod_index import PodIndex
from stromboli.controllers.pod_owners import controlling_reference, is_finished, is_terminating, refers_to_job_flow
from stromboli.controllers.work_queue import WorkQueue

from .flow_jobs import flows_of, job_name, new_job
from .flow_status import COMPLETED, FAILED, SUCCEED, recorded_phases, status_of
from .probes import PERIOD, ProbeAnswers, has_reached, is_talked_to, pods_of, talks, tasks_meant

RETRY: Final = 10.0  # seconds after which a Job that could not be created is tried again


class JobFlowController:
    observes: ClassVar = (JobFlow, JobTemplate, Job)

    def __init__(self, pods: PodIndex, *, scheduler_name: str, validates: bool) -> None:
        """`scheduler_name`: flows with Jobs for others are left alone. `validates`: no rule of an API server has
        validated the objects."""
        self._pods = pods
        self._scheduler_name = scheduler_name
        self._validates = validates
        self._flows = WorkQueue()
        self._by_template: dict[str, set[str]] = {}  # keys of JobFlows, by the keys of templates that they name
        self._tried: dict[str, dict[str, float]] = {}  # by JobFlow and Job: when it was created last
        self._said: dict[str, dict[str, str]] = {}  # by JobFlow and flow: the last warning
        self._answers = ProbeAnswers()

    def observe(self, before: KObject | None, after: KObject | None) -> None:
        for version in (before, after):
            if isinstance(version, JobFlow):
                self._flows.add(key(version))
            elif isinstance(version, JobTemplate):
                self._flows.add_all(sorted(self._by_template.get(key(version), ())))
            elif isinstance(version, Job) and (owner := _owner(version)):
                self._flows.add(owner)
        if isinstance(before, JobFlow):
            for template in _templates(before):
                self._by_template.get(template, set()).discard(key(before))
        if isinstance(after, JobFlow):
            for template in _templates(after):
                self._by_template.setdefault(template, set()).add(key(after))
        elif isinstance(before, JobFlow):
            self._tried.pop(key(before), None)
            self._said.pop(key(before), None)
            self._answers.forget(key(before))

    def probe_answered(self, probe: Probe, *, answered: bool, now: float) -> None:
        self._answers.note(probe, answered=answered, now=now)
        self._flows.add(key(probe.object))

    def next_due(self, now: float) -> float | None:
        return self._flows.next_due(now)

    def reconcile(self, objects: Objects, now: float) -> list[Change]:
        changes: list[Change] = []
        for flow_key in self._flows.take(now):
            job_flow = objects.get(JobFlow, flow_key)
            if job_flow is None or job_flow.metadata.deletion_timestamp is not None:
                continue
            of_this = self._visit(job_flow, objects, now)
            if any(not isinstance(change, Probe) for change in of_this):
                self._flows.add(flow_key)
            changes += of_this
        return changes

    def _visit(self, job_flow: JobFlow, objects: Objects, now: float) -> list[Change]:
        self._flows.set_due(key(job_flow), None)
        flows = flows_of(job_flow)
        templates = {flow.name: objects.get(JobTemplate, template_key(job_flow, flow)) for flow in flows}
        if any(one is not None and self._is_foreign(one) for one in templates.values()):
            return []
        if self._validates and (error := _error_in(job_flow)):
            return self._say(job_flow, "Invalid", error)
        found = {
            flow.name: objects.get(Job, f"{job_flow.metadata.namespace}/{_name(job_flow, flow)}") for flow in flows
        }
        jobs = {job.metadata.name: job for job in found.values() if job is not None and _belongs(job, job_flow)}
        if job_flow.status.state.phase == SUCCEED:
            return self._clean_up(job_flow, jobs.values())
        return self._go_on(job_flow, templates, found, jobs, now)

    def _go_on(
        self,
        job_flow: JobFlow,
        templates: Mapping[str, JobTemplate | None],
        found: Mapping[str, Job | None],
        jobs: Mapping[str, Job],
        now: float,
    ) -> list[Change]:
        """`found`: by flow, the Jobs with their names; `jobs`: by name, those of them that are its own."""
        flows = flows_of(job_flow)
        changes: list[Change] = []
        seen = recorded_phases(job_flow)
        for name in jobs:
            if name not in seen:
                changes.append(Notify(job_flow, "Created", f"created the Job {name}"))
        status = status_of(job_flow, [_name(job_flow, flow) for flow in flows], jobs, now)
        if status.state.phase != FAILED:
            phases = seen | {name: job.status.state.phase for name, job in jobs.items()}
            for flow in flows:
                if _name(job_flow, flow) in jobs or phases.get(_name(job_flow, flow)) == COMPLETED:
                    continue
                if (foreign := found[flow.name]) is not None:
                    said = f"the Job {foreign.metadata.name} belongs to somebody else"
                    changes += self._say(job_flow, "ForeignJob", said, flow.name)
                else:
                    changes += self._advance(job_flow, flow, templates[flow.name], jobs, phases, now)
        if status != job_flow.status:
            changes.append(Update(replace(job_flow, status=status)))
        return changes

    def _advance(
        self,
        job_flow: JobFlow,
        flow: Flow,
        template: JobTemplate | None,
        jobs: Mapping[str, Job],
        phases: Mapping[str, str],
        now: float,
    ) -> list[Change]:
        """Create a Job that does not exist, or find out whether it may be created."""
        ready, changes = self._is_ready(job_flow, flow, jobs, phases, now)
        if not ready:
            return changes
        if template is None:
            return self._say(job_flow, "NoTemplate", f"there is no JobTemplate {flow.name}", flow.name)
        tried = self._tried.setdefault(key(job_flow), {})
        again = tried.get(flow.name, now - RETRY) + RETRY
        if now < again:
            self._look_again(job_flow, again)
            return []
        try:
            job = new_job(job_flow, flow, template)
        except ApiError as error:
            return self._say(job_flow, "InvalidJob", f"the Job of flow {flow.name} is invalid: {error}", flow.name)
        tried[flow.name] = now
        self._look_again(job_flow, now + RETRY)
        patch = {} if flow.patch is None else flow.patch.job_spec
        return [Create(job, FromTemplate(template, patch))]

    def _is_ready(
        self, job_flow: JobFlow, flow: Flow, jobs: Mapping[str, Job], phases: Mapping[str, str], now: float
    ) -> tuple[bool, list[Change]]:
        """Whether all that it depends on is far enough, and whom to ask about that."""
        if flow.depends_on is None:
            return True, []
        ready, changes = True, list[Change]()
        for target in flow.depends_on.targets:
            name = job_name(job_flow, target)
            if phases.get(name) == COMPLETED:
                continue
            job = jobs.get(name)
            if job is None or flow.depends_on.probe is None:
                return False, []
            far_enough, asked = self._is_far_enough(job_flow, flow, job, now)
            ready = ready and far_enough
            changes += asked
        return ready, changes

    def _is_far_enough(self, job_flow: JobFlow, flow: Flow, job: Job, now: float) -> tuple[bool, list[Change]]:
        assert flow.depends_on is not None
        assert flow.depends_on.probe is not None
        probe = flow.depends_on.probe
        tasks = tasks_meant(probe, job)
        if not tasks:
            return False, []
        for task in tasks:
            statuses = [one for one in probe.task_status_list if one.task_name in ("", task.name)]
            if not all(has_reached(one, job, task) for one in statuses):
                return False, []
        asked: list[Change] = []
        ready = True
        for task in tasks:
            if not is_talked_to(probe, task):
                continue
            pods = [one for one in pods_of(task, self._pods.of_job(job)) if not is_finished(one)]
            if not pods or any(pod.status.phase != "Running" or is_terminating(pod) for pod in pods):
                ready = False
                continue
            for question in talks(job_flow, probe, task, pods):
                if not self._answers.has_answered(question):
                    ready = False
                    asked += self._ask(job_flow, question, now)
        return ready, asked

    def _ask(self, job_flow: JobFlow, question: Probe, now: float) -> list[Change]:
        at = self._answers.next_attempt(question)
        if now < at:
            self._look_again(job_flow, at)
            return []
        self._answers.note(question, answered=False, now=now)
        self._look_again(job_flow, now + PERIOD)
        return [question]

    def _clean_up(self, job_flow: JobFlow, jobs: Iterable[Job]) -> list[Change]:
        if job_flow.spec.job_retain_policy != "delete":
            return []
        return [
            Delete(job, reason="all Jobs of its JobFlow have completed")
            for job in jobs
            if job.metadata.deletion_timestamp is None
        ]

    def _look_again(self, job_flow: JobFlow, at: float) -> None:
        known = self._flows.due(key(job_flow))
        self._flows.set_due(key(job_flow), at if known is None else min(known, at))

    def _say(self, job_flow: JobFlow, reason: str, message: str, flow: str = "") -> list[Change]:
        """A warning, once. `flow`: which of its flows it is about."""
        said = self._said.setdefault(key(job_flow), {})
        if said.get(flow) == message:
            return []
        said[flow] = message
        return [Notify(job_flow, reason, message, warning=True)]

    def _is_foreign(self, template: JobTemplate) -> bool:
        return template.spec.scheduler_name != self._scheduler_name


def template_key(job_flow: JobFlow, flow: Flow) -> str:
    return f"{job_flow.metadata.namespace}/{flow.name}"


def _templates(job_flow: JobFlow) -> list[str]:
    return [template_key(job_flow, flow) for flow in job_flow.spec.flows]


def _name(job_flow: JobFlow, flow: Flow) -> str:
    return job_name(job_flow, flow.name)


def _belongs(job: Job, job_flow: JobFlow) -> bool:
    reference = controlling_reference(job.metadata)
    return reference is not None and reference.uid == job_flow.metadata.uid


def _owner(job: Job) -> str:
    """The key of the JobFlow that controls a Job; "" if none does."""
    reference = controlling_reference(job.metadata)
    if reference is None or not refers_to_job_flow(reference):
        return ""
    return f"{job.metadata.namespace}/{reference.name}"


def _error_in(job_flow: JobFlow) -> str:
    try:
        validate(job_flow)
    except ApiError as error:
        return f"{error.field}: {error.message}"
    return ""
