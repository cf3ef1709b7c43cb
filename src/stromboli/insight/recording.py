"""A recording of the scheduler: what it was given, and what it decided.

A cycle is a function of the events, the time and the configuration. So a file with these reproduces every decision, on
another machine and long after, byte for byte. It has one JSON document on each line:

    {"start": {"format": 1, "version": …, "schedulerName": …}}   a scheduler started; its cluster state is empty
    {"configuration": "…"}                                        in force from here on
    {"reset": true}                                               the cluster state was dropped, and is built again
    {"events": […]}                                               events that were applied, without a cycle
    {"now": …, "events": […], "decisions": […]}                   events, and the cycle that followed

A cycle of a live process has more inputs, if they are not empty: "putAside" (objects on which errors happened), "first"
(by action, the jobs that the cycle before did not get to) and "cut" (actions that ran out of time, and after how many
turns). Environment variables, commands and the like are left out: nothing that schedules reads them, and they may be
secret.

A process may be killed at any time, so the last line of each process may be incomplete. Such a line is skipped, if the
file ends there or a new start follows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

import msgspec

from stromboli.api import KINDS, KObject
from stromboli.api.upstream import as_written
from stromboli.cluster import (
    Applied,
    BindFailed,
    ClusterEvent,
    Deleted,
    EvictFailed,
    JobKey,
    NodesMeasured,
    ReservationWriteFailed,
    UngateFailed,
)
from stromboli.containment import ObjectRef
from stromboli.errors import UserError
from stromboli.scheduling.containment import Aside, CycleInputs
from stromboli.scheduling.decisions import Decision, Reserve

from .secrets import without_secrets

FORMAT: Final = 1
LONGEST_START: Final = 1 << 16  # bytes of the first line; a file with a longer one is something else
LONGEST_LINE: Final = 512 << 20  # the one with all objects of a cluster
_LAST_TIME: Final = 253_402_300_799.0  # the end of the year 9999
_KINDS: Final[dict[str, type[KObject]]] = {kind.__name__: kind for kind in KINDS.values()}


class RecordingError(UserError):
    """A file that is not a recording, or is damaged."""


class Start(msgspec.Struct, rename="camel"):
    format: int
    version: str
    scheduler_name: str


class _PutAside(msgspec.Struct):
    kind: str
    key: str
    error: str
    entirely: bool = False


class _Line(msgspec.Struct):
    start: Start | None = None
    configuration: str | None = None
    reset: bool = False
    now: float | None = None
    events: list[dict[str, msgspec.Raw]] = msgspec.field(default_factory=list)
    decisions: msgspec.Raw = msgspec.Raw(b"")
    put_aside: list[_PutAside] = msgspec.field(default_factory=list, name="putAside")
    first: dict[str, list[str]] = msgspec.field(default_factory=dict)
    cut: dict[str, int] = msgspec.field(default_factory=dict)


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
    inputs: CycleInputs = field(default_factory=CycleInputs)
    cut: dict[str, int] = field(default_factory=dict)


# -- writing ----------------------------------------------------------------------------------------------------------


def start_line(version: str, scheduler_name: str) -> bytes:
    return _encoded(start=Start(FORMAT, version, scheduler_name))


def configuration_line(text: str) -> bytes:
    return _encoded(configuration=text)


def reset_line() -> bytes:
    return _encoded(reset=True)


def events_line(events: Iterable[ClusterEvent]) -> bytes:
    return _encoded(events=[_event(event) for event in events])


def cycle_line(
    now: float,
    events: Iterable[ClusterEvent],
    decisions: Iterable[Decision],
    inputs: CycleInputs | None = None,
    cut: Mapping[str, int] | None = None,
) -> bytes:
    more: dict[str, Any] = {"cut": cut} if cut else {}
    if inputs is not None and inputs.put_aside:
        more["putAside"] = [
            _PutAside(ref.kind, ref.key, aside.error, aside.entirely) for ref, aside in inputs.put_aside.items()
        ]
    if inputs is not None and inputs.first:
        more["first"] = inputs.first
    return _encoded(
        now=now, **more, events=[_event(event) for event in events],
        decisions=msgspec.Raw(encode_decisions(decisions)),
    )  # fmt: skip


def encode_decisions(decisions: Iterable[Decision]) -> bytes:
    return msgspec.json.encode([_decision(one) for one in decisions])


def _decision(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Reserve):
        decision = replace(decision, reservation=without_secrets(decision.reservation))
    return {"type": type(decision).__name__, **msgspec.to_builtins(decision)}


def _encoded(**fields: Any) -> bytes:
    return msgspec.json.encode(fields) + b"\n"


def _event(event: ClusterEvent) -> dict[str, msgspec.Raw]:
    match event:
        case Applied(obj) | Deleted(obj):
            name = "applied" if isinstance(event, Applied) else "deleted"
            written = as_written(obj)
            return {"kind": _raw(type(written).__name__), name: _raw(without_secrets(written))}
        case BindFailed():
            return {"bindFailed": _raw(event)}
        case EvictFailed():
            return {"evictFailed": _raw(event)}
        case ReservationWriteFailed():
            return {"reservationWriteFailed": _raw(event)}
        case UngateFailed():
            return {"ungateFailed": _raw(event)}
        case NodesMeasured():
            return {"nodesMeasured": _raw(event)}


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
            if step.decisions is not None and (step.now is None or not 0 <= step.now <= _LAST_TIME):
                raise KeyError("now")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError):
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
        inputs=CycleInputs(
            {ObjectRef(one.kind, one.key): Aside(one.error, one.entirely) for one in line.put_aside},
            {action: [JobKey(job) for job in jobs] for action, jobs in line.first.items()},
        ),
        cut=line.cut,
    )


def _decoded(event: dict[str, msgspec.Raw]) -> ClusterEvent:
    if "kind" in event:
        kind = _KINDS[msgspec.json.decode(event["kind"], type=str)]
        if "applied" in event:
            return Applied(msgspec.json.decode(event["applied"], type=kind))
        return Deleted(msgspec.json.decode(event["deleted"], type=kind))
    if "bindFailed" in event:
        return msgspec.json.decode(event["bindFailed"], type=BindFailed)
    if "nodesMeasured" in event:
        return msgspec.json.decode(event["nodesMeasured"], type=NodesMeasured)
    if "ungateFailed" in event:
        return msgspec.json.decode(event["ungateFailed"], type=UngateFailed)
    if "reservationWriteFailed" in event:
        return msgspec.json.decode(event["reservationWriteFailed"], type=ReservationWriteFailed)
    return msgspec.json.decode(event["evictFailed"], type=EvictFailed)
