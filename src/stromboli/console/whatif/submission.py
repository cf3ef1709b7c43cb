"""What happens if a job is submitted now.

The objects are created on a copy of the cluster, and the copy goes on in virtual time until the job starts. The same
copy without the job says which evictions happen anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from stromboli.api import Job, KObject, Namespace, Pod, PodGroup, ReplicaSet, key
from stromboli.api.upstream import shown_key
from stromboli.cluster import Cluster, JobKey
from stromboli.cluster.object_fields import group_of
from stromboli.insight import JobExplanation, State, explain, inspect
from stromboli.insight.inspection import load
from stromboli.scheduling.configuration import Configuration
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.registry import Registry
from stromboli.simulation.rehearsal import Outcome, Rehearsal

from .counterfactuals import FAR_SECONDS, NOW_SECONDS


@dataclass(frozen=True, slots=True)
class Eviction:
    pod: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Plan:
    job: str
    refused: str = ""  # why the object is not accepted
    starts_now: bool = False
    expected_start: float | None = None
    placements: dict[str, str] = field(default_factory=dict)  # nodes by pod, at its start
    evictions: list[Eviction] = field(default_factory=list)  # that do not happen without it
    explanation: JobExplanation | None = None  # why it does not start now
    assumptions: list[str] = field(default_factory=list)


def submitted_jobs(objects: Sequence[KObject], state: State) -> list[str]:
    """What of these is a job: everything that brings pods, and each group once, also one that exists and gets more
    pods. Groups inside a composite one are a job together, as far as they must start together."""
    everything = [*state.objects, *objects]
    cluster, _ = load(replace(state, objects=everything))
    cluster.snapshot()
    known = {key(obj) for obj in everything if isinstance(obj, Job | PodGroup)}
    found: dict[str, None] = {}
    for obj in objects:
        if isinstance(obj, Job | ReplicaSet):
            found[key(obj)] = None
        elif (group := _group_of(obj, cluster)) is not None:
            found[shown_key(cluster.upstream.job_of(group), known)] = None
        elif isinstance(obj, Pod):
            found[key(obj)] = None
    return list(found)


def _group_of(obj: KObject, cluster: Cluster) -> JobKey | None:
    """The group that is a job or part of one; None for a composite one whose groups start one by one."""
    if isinstance(obj, Pod):
        return group_of(obj)
    if not isinstance(obj, PodGroup):
        return None
    group = JobKey(key(obj))
    plan = cluster.upstream.plans.get(group)
    is_job = plan is None or plan.leaves or plan.trouble
    return group if is_job else None


def plan_submission(
    state: State,
    objects: Sequence[KObject],
    job: str,
    registry: Registry,
    configuration: Configuration,
    *,
    is_live: bool = False,
) -> Plan:
    """`is_live`: the objects are those of an API server, which creates nothing in a namespace that does not exist."""
    if is_live and (missing := _missing_namespace(state, objects, job)):
        create = f"kubectl create namespace {missing}"
        return Plan(job, refused=f"There is no namespace {missing}; create it first, with: {create}")

    def rehearse(submitted: Sequence[KObject], seconds: float) -> tuple[Outcome, Rehearsal]:
        rehearsal = Rehearsal(
            state.objects, state.now, registry, configuration,
            scheduler_name=state.scheduler_name, submitted=submitted,
        )  # fmt: skip
        return rehearsal.run(job, seconds=seconds), rehearsal

    soon, copy = rehearse(objects, NOW_SECONDS)
    if soon.refused:
        return Plan(job, refused=soon.refused)
    final, why = soon, None
    if soon.started is None:
        later = State(copy.objects, copy.now)
        why = explain(later, Scheduler(configuration, registry), job)
        final, _ = rehearse(objects, FAR_SECONDS)
    duration = (final.started or final.ended) - state.now
    anyway, _ = rehearse([], duration)
    without = {event.object for event in anyway.evictions}
    return Plan(
        job=job,
        starts_now=soon.started is not None,
        expected_start=final.started,
        placements=final.placements,
        evictions=[
            Eviction(event.object, event.reason, event.message)
            for event in final.evictions
            if event.object not in without
        ],
        explanation=why,
        assumptions=_assumptions(state, Scheduler(configuration, registry)),
    )


def _missing_namespace(state: State, objects: Sequence[KObject], job: str) -> str:
    """ "" if it exists, if it is among the manifests, or if nobody may list namespaces."""
    known = {obj.metadata.name for obj in state.objects if isinstance(obj, Namespace)}
    coming = {obj.metadata.name for obj in objects if isinstance(obj, Namespace)}
    namespace = job.partition("/")[0]
    return namespace if known and namespace not in known | coming else ""


def _assumptions(state: State, scheduler: Scheduler) -> list[str]:
    jobs = [job for job in inspect(state, scheduler).picture.jobs if job.pods.running]
    known = sum(job.ends is not None for job in jobs)
    found = ["no other job is submitted", "evicted pods stop at once"]
    if jobs and known == len(jobs):
        found.append("all running jobs end when they say")
    elif known:
        found.append(f"{known} of {len(jobs)} running jobs end when they say, and the others run on")
    elif jobs:
        found.append("all running jobs run on, because none says when it ends")
    return found
