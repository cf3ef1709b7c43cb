"""A recording of the scheduler: what it was given, and what it decided.

A cycle is a function of the events, the time and the configuration. So a file with these reproduces every decision, on
another machine and long after, byte for byte. It has one JSON document on each line:

    {"start": {"format": 1, "version": …, "schedulerName": …}}   a scheduler started; its cluster state is empty
    {"configuration": "…"}                                        in force from here on
    {"reset": true}                                               the cluster state was dropped, and is built again
    {"events": […]}                                               events that were applied, without a cycle
    {"now": …, "events": […], "decisions": […]}                   events, and the cycle that followed

A process may be killed at any time, so the last line of each process may be incomplete. Such a line is skipped, if the
file ends there or a new start follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from stromboli.api import KINDS, KObject
from stromboli.cluster import Applied, BindFailed, ClusterEvent, Deleted, EvictFailed, ReservationWriteFailed, TaskKey
from stromboli.errors import UserError
from stromboli.scheduling.decisions import Decision

FORMAT: Final = 1
_KINDS: Final[dict[str, type[KObject]]] = {kind.__name__: kind for kind in KINDS.values()}


class RecordingError(UserError):
    """A file that is not a recording, or is damaged."""


class Start(msgspec.Struct, rename="camel"):
    format: int
    version: str
    scheduler_name: str


class _Line(msgspec.Struct):
    start: Start | None = None
    configuration: str | None = None
    reset: bool = False
    now: float | None = None
    events: list[dict[str, msgspec.Raw]] = msgspec.field(default_factory=list)
    decisions: msgspec.Raw = msgspec.Raw(b"")


@dataclass(frozen=True, slots=True)
class Step:
    """A line of a recording. `decisions` are the bytes that were recorded; None if no cycle was run."""

    number: int  # of the line, from 1
    start: Start | None = None
    configuration: str | None = None
    reset: bool = False
    now: float | None = None
    events: list[ClusterEvent] = field(default_factory=list)
    decisions: bytes | None = None


# -- writing ----------------------------------------------------------------------------------------------------------


def start_line(version: str, scheduler_name: str) -> bytes:
    return _encoded(start=Start(FORMAT, version, scheduler_name))


def configuration_line(text: str) -> bytes:
    return _encoded(configuration=text)


def reset_line() -> bytes:
    return _encoded(reset=True)


def events_line(events: Iterable[ClusterEvent]) -> bytes:
    return _encoded(events=[_event(event) for event in events])


def cycle_line(now: float, events: Iterable[ClusterEvent], decisions: Iterable[Decision]) -> bytes:
    return _encoded(
        now=now, events=[_event(event) for event in events], decisions=msgspec.Raw(encode_decisions(decisions))
    )


def encode_decisions(decisions: Iterable[Decision]) -> bytes:
    return msgspec.json.encode([{"type": type(one).__name__, **msgspec.to_builtins(one)} for one in decisions])


def _encoded(**fields: Any) -> bytes:
    return msgspec.json.encode(fields) + b"\n"


def _event(event: ClusterEvent) -> dict[str, msgspec.Raw]:
    match event:
        case Applied(obj) | Deleted(obj):
            name = "applied" if isinstance(event, Applied) else "deleted"
            return {"kind": _raw(type(obj).__name__), name: _raw(obj)}
        case BindFailed():
            return {"bindFailed": _raw(event)}
        case EvictFailed():
            return {"evictFailed": _raw(event)}
        case ReservationWriteFailed():
            return {"reservationWriteFailed": _raw(event)}


def _raw(value: Any) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


# -- reading ----------------------------------------------------------------------------------------------------------


def read_steps(lines: Iterable[bytes], where: str) -> Iterator[Step]:
    """The lines of a file, in order. Raises RecordingError for one that is damaged in the middle."""
    torn = 0
    started = False
    for number, text in enumerate(lines, start=1):
        if not text.strip():
            continue
        try:
            step = _step(number, msgspec.json.decode(text, type=_Line))
        except (msgspec.DecodeError, UnicodeDecodeError, KeyError):
            if number == 1:
                raise RecordingError(f"{where}: is not a recording; one is written with --record") from None
            if torn:
                raise RecordingError(f"{where}, line {torn}: is damaged") from None
            torn = number
            continue
        if torn and step.start is None:
            raise RecordingError(f"{where}, line {torn}: is damaged")
        torn = 0
        if not started and step.start is None:
            raise RecordingError(f"{where}: is not a recording; one is written with --record")
        started = True
        if step.start is not None and step.start.format != FORMAT:
            raise RecordingError(f"{where}: has format {step.start.format}; this version reads format {FORMAT}")
        yield step
    if not started:
        raise RecordingError(f"{where}: is empty")


def _step(number: int, line: _Line) -> Step:
    return Step(
        number=number,
        start=line.start,
        configuration=line.configuration,
        reset=line.reset,
        now=line.now,
        events=[_decoded(event) for event in line.events],
        decisions=bytes(line.decisions) or None,
    )


def _decoded(event: dict[str, msgspec.Raw]) -> ClusterEvent:
    if "kind" in event:
        kind = _KINDS[msgspec.json.decode(event["kind"], type=str)]
        if "applied" in event:
            return Applied(msgspec.json.decode(event["applied"], type=kind))
        return Deleted(msgspec.json.decode(event["deleted"], type=kind))
    if "bindFailed" in event:
        return msgspec.json.decode(event["bindFailed"], type=BindFailed)
    if "reservationWriteFailed" in event:
        return ReservationWriteFailed(msgspec.json.decode(event["reservationWriteFailed"])["reservation"])
    failed = msgspec.json.decode(event["evictFailed"])
    return EvictFailed(TaskKey(failed["task"]))
