"""The jobs of a run, as rows of the page: all that there ever were, also those that are gone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from stromboli.api import Job, Pod, PodGroup, key
from stromboli.api.pod_requests import pod_requests
from stromboli.cluster import JobKey
from stromboli.page import Amounts, JobRow, JobState, Span, merged_spans
from stromboli.simulation.engine import Engine
from stromboli.simulation.group_history import GroupRecord
from stromboli.simulation.journal import Journal

Section = dict[str, Any]


class JobNames:
    """What each group is called. Two groups may have had one name after the other; then the later ones are numbered."""

    def __init__(self, journal: Journal) -> None:
        self._pods = journal.pods
        self.records: dict[str, GroupRecord] = {}  # in the order of submission, by the name that is shown
        self._of_group: dict[str, list[tuple[float, str]]] = defaultdict(list)
        counted: dict[str, int] = defaultdict(int)
        for record in sorted(journal.groups.everything(), key=lambda record: (record.submitted, record.key)):
            if not record.counts:
                continue
            counted[record.shown_name] += 1
            number = counted[record.shown_name]
            name = record.shown_name if number == 1 else f"{record.shown_name} #{number}"
            self.records[name] = record
            self._of_group[record.key].append((record.submitted, name))

    def of_pod(self, pod: str, at: float) -> str:
        """The job of a pod at a time; the pod itself if it has none."""
        record = self._pods.get(pod)
        names = [name for since, name in self._of_group.get(record.podGroup if record else "", ()) if since <= at]
        return names[-1] if names else pod


def job_rows(engine: Engine, report: Section, names: JobNames, spans: Sequence[Span]) -> list[JobRow]:
    spans_of: dict[str, list[Span]] = defaultdict(list)
    for span in spans:
        spans_of[span.job].append(span)
    pods_of: dict[str, list[str]] = defaultdict(list)
    for pod in report["pods"]:
        pods_of[names.of_pod(pod, engine.end)].append(pod)
    return [_row(engine, report, name, record, spans_of[name], pods_of[name]) for name, record in names.records.items()]


def _row(engine: Engine, report: Section, name: str, record: GroupRecord, spans: list[Span], pods: list[str]) -> JobRow:
    phases: dict[str, int] = {}
    for pod in pods:
        phase = report["pods"][pod]["phase"]
        phases[phase] = phases.get(phase, 0) + 1
    kind, _, owner = record.owner.partition(" ")
    job = engine.world.store.get(Job, f"{record.key.partition('/')[0]}/{owner}") if kind == "Job" else None
    state = _state(phases, record, job)
    reason, message = _reason(engine, report, record, pods) if state == "waiting" else ("", "")
    ended = max((span.end for span in spans if span.end is not None), default=record.deleted)
    return JobRow(
        key=name,
        kind=kind or "PodGroup",
        group=record.key,
        queue=record.queue,
        phase=job.status.state.phase if job is not None and job.status.state.phase else state.capitalize(),
        state=state,
        submitted=record.submitted,
        admitted=record.admitted,
        started=record.started,
        ended=ended if state not in ("waiting", "running") else None,
        waited=record.waited(engine.end),
        minimum=record.minimum,
        pods=dict(sorted(phases.items())),
        requests=_requests(engine, spans, pods),
        runs=merged_spans(spans),
        evictions=sum(span.outcome == "Evicted" for span in spans),
        reason=reason,
        message=message,
        notes=_notes(engine, record, message) if state == "waiting" else [],
    )


def _state(phases: dict[str, int], record: GroupRecord, job: Job | None) -> JobState:
    if phases.get("Running"):
        return "running"
    if phases.get("Pending"):
        return "waiting"
    if job is not None and job.status.state.phase in ("Failed", "Aborted", "Terminated"):
        return "failed"
    if phases.get("Failed"):
        return "failed"
    if phases.get("Succeeded"):
        return "succeeded"
    return "gone" if phases or record.deleted is not None else "waiting"


def _reason(engine: Engine, report: Section, record: GroupRecord, pods: list[str]) -> tuple[str, str]:
    why = engine.cycle.reasons.get(JobKey(record.key))
    if why is not None:
        return why.code, why.message
    said = [report["pods"][pod] for pod in pods if report["pods"][pod]["phase"] == "Pending"]
    return (said[0]["reason"], said[0]["message"]) if said else ("", "")


def _notes(engine: Engine, record: GroupRecord, message: str) -> list[str]:
    """What the conditions of the group say beyond its reason."""
    group = engine.world.store.get(PodGroup, record.key)
    if group is None:
        return []
    texts = [condition.message for condition in group.status.conditions if condition.status == "True"]
    return list(dict.fromkeys(text for text in texts if text and text != message))


def _requests(engine: Engine, spans: list[Span], pods: list[str]) -> Amounts:
    known = {span.pod: span.amounts for span in spans}
    total: Amounts = {}
    for name in pods:
        pod = engine.world.store.get(Pod, name)
        amounts = known.get(name) or (pod_requests(pod.spec) if pod is not None and key(pod) == name else {})
        for resource, amount in amounts.items():
            total[resource] = total.get(resource, 0) + amount
    return dict(sorted(total.items()))
