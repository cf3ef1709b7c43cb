"""The report of a run as a page: one file that opens in any browser."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal

from stromboli.api import Job
from stromboli.api.quantity import format_duration
from stromboli.insight import Picture
from stromboli.insight.inspection import take_picture, with_cycle
from stromboli.insight.page_rows import namespace_rows, node_rows, queue_rows
from stromboli.page import Document, Eviction, Mark, Span, self_contained
from stromboli.simulation.engine import Engine
from stromboli.simulation.virtual_time import START, microseconds, to_seconds, wall_clock

from .page_jobs import JobNames, job_rows
from .page_moves import migrations
from .page_series import build_series

Section = dict[str, Any]


def page_report(engine: Engine, report: Section, title: str, topology_keys: Sequence[str] = ()) -> bytes:
    """`report` is the JSON report of the same run. `topology_keys`: labels of nodes that make domains, by the
    configuration of the scheduler."""
    return self_contained(build_document(engine, report, title, topology_keys))


def build_document(engine: Engine, report: Section, title: str, topology_keys: Sequence[str] = ()) -> Document:
    names = JobNames(engine.journal)
    spans = _spans(engine, names)
    jobs = job_rows(engine, report, names, spans)
    picture = _picture(engine, topology_keys)
    nodes = node_rows(picture)
    return Document(
        title=title,
        clock="virtual",
        start=to_seconds(START),
        end=engine.end,
        facts=_facts(report, len(jobs)),
        resources=sorted(picture.capacity),
        series=build_series(engine, jobs),
        queues=queue_rows(picture, jobs),
        namespaces=namespace_rows(picture),
        jobs=jobs,
        nodes=nodes,
        spans=spans,
        marks=_marks(engine, names),
        evictions=_evictions(engine, names),
        migrations=migrations(engine.journal.events, names, spans, nodes, engine.end),
    )


def _picture(engine: Engine, topology_keys: Sequence[str]) -> Picture:
    """At the end of the run. What queues deserve is known from the last cycle."""
    jobs = engine.world.store.list(Job)
    now = wall_clock(microseconds(engine.end))
    picture = take_picture(engine.cluster, jobs, now, topology_keys=topology_keys)
    return with_cycle(picture, engine.cycle)


def _spans(engine: Engine, names: JobNames) -> list[Span]:
    return [
        Span(
            key=str(number),
            pod=present.name,
            job=names.of_pod(present.name, to_seconds(present.since)),
            node=present.node,
            start=to_seconds(present.since),
            end=None if present.until is None else to_seconds(present.until),
            outcome=present.outcome,
            backfill=present.backfill,
            amounts={name: amount for name, amount in present.amounts.items() if amount and name != "pods"},
        )
        for number, present in enumerate(engine.world.meter.pod_history)
    ]


_OPENS: dict[str, Literal["reserved", "locked", "held"]] = {
    "Reserved": "reserved", "Locked": "locked", "ReservationAvailable": "held",
}  # fmt: skip
_CLOSES = {
    "Unreserved": "reserved", "Unlocked": "locked", "ReservationPending": "held", "ReservationSucceeded": "held",
    "ReservationExpired": "held", "ReservationFailed": "held",
}  # fmt: skip


def _marks(engine: Engine, names: JobNames) -> list[Mark]:
    """From the events that open and close them."""
    marks: list[Mark] = []
    is_open: dict[tuple[str, str, str], int] = {}  # kind, object and node; the position of the mark
    for event in engine.journal.events:
        opened, closed = _OPENS.get(event.type), _CLOSES.get(event.type)
        kind = opened or closed
        if kind is None:
            continue
        position = is_open.pop((kind, event.object, event.node), None)
        if position is not None:
            marks[position] = _ended(marks[position], event.t)
        if opened is not None:
            is_open[opened, event.object, event.node] = len(marks)
            owner = names.of_pod(event.object, event.t) if opened == "reserved" else event.object
            marks.append(Mark(key=str(len(marks)), node=event.node, kind=opened, owner=owner, start=event.t))
    return [mark for mark in marks if mark.end is None or mark.end > mark.start]


def _ended(mark: Mark, at: float) -> Mark:
    return Mark(key=mark.key, node=mark.node, kind=mark.kind, owner=mark.owner, start=mark.start, end=at)


def _evictions(engine: Engine, names: JobNames) -> list[Eviction]:
    journal = engine.journal
    return [
        Eviction(
            key=str(number), time=event.t, pod=event.object, job=names.of_pod(event.object, event.t),
            queue=journal.queue_of(journal.pods[event.object]), node=event.node, reason=event.reason,
            message=event.message,
        )
        for number, event in enumerate(event for event in journal.events if event.type == "Evicted")
    ]  # fmt: skip


def _facts(report: Section, jobs: int) -> list[tuple[str, str]]:
    summary = report["summary"]
    phases = Counter(pod["phase"] for pod in report["pods"].values())
    facts = [("Simulated", format_duration(report["end"])), ("Jobs", str(jobs))]
    facts += [(f"Pods {phase.lower()}", str(count)) for phase, count in sorted(phases.items())]
    wait = summary["wait"]
    if wait["mean"] is not None:
        facts += [("Mean wait", format_duration(wait["mean"])), ("95% waited at most", format_duration(wait["p95"]))]
    facts += [(f"Used of {name}", f"{part:.0%}") for name, part in summary["utilisation"].items() if name != "pods"]
    facts += [
        ("Evictions", str(summary["evictions"])),
        ("Core-seconds lost", f"{summary['workLost']:g}"),
        ("Jobs that starved", str(summary["starved"])),
    ]
    return facts
