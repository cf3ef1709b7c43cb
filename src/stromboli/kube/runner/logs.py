"""What the programs of containers wrote: one file for each run of each container of each pod.

    <folder>/<uid of the pod>/<container>/<number of the run>.log      `Output` of the sandbox writes it
                                          <number of the run>.done     it has ended

Only the last two runs are kept, as kubelets do.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Final

from stromboli.api.timestamps import parse_timestamp

_PIECE: Final = 1 << 16
_FOLLOW_SECONDS: Final = 0.2
_TIME_LENGTH: Final = 30  # 2026-01-31T12:00:00.123456789Z
_KIND_AT: Final = _TIME_LENGTH + 8
_TEXT_AT: Final = _KIND_AT + 2


def log_file(folder: Path, uid: str, container: str, run: int) -> Path:
    return folder / uid / container / f"{run}.log"


def begin_log(folder: Path, uid: str, container: str, run: int) -> Path:
    """The file of a new run. Those of all runs but the last one are removed."""
    path = log_file(folder, uid, container, run)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    for old in range(run - 2, -1, -1):
        if not (found := log_file(folder, uid, container, old)).exists():
            break
        found.unlink()
        found.with_suffix(".done").unlink(missing_ok=True)
    path.touch(mode=0o600)
    return path


def end_log(path: Path) -> None:
    path.with_suffix(".done").touch()


def note(path: Path, text: str) -> None:
    """Why there is no log of a program."""
    at = time.strftime("%Y-%m-%dT%H:%M:%S.000000000Z", time.gmtime())
    path.write_bytes(f"{at} stderr F {text}\n".encode())
    end_log(path)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What `kubectl logs` asks for."""

    follows: bool
    has_times: bool
    since: float  # seconds since the epoch
    lines: int | None
    size: int | None

    @classmethod
    def of(cls, query: Mapping[str, str], now: float) -> _Wanted:
        since = 0.0
        seconds = _number(query, "sinceSeconds")
        if seconds is not None:
            since = now - seconds
        elif query.get("sinceTime"):
            with contextlib.suppress(ValueError):
                since = parse_timestamp(query["sinceTime"])
        return cls(
            query.get("follow") in ("true", "1"),
            query.get("timestamps") in ("true", "1"),
            since,
            _number(query, "tailLines"),
            _number(query, "limitBytes"),
        )


class ProcessLogs:
    """Answers `kubectl logs`: of this run or the one before it, whole or in part, or as it is written."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock

    async def read(self, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        """Raises LookupError if there is no such log."""
        wanted = _Wanted.of(query, self._clock())
        if query.get("previous") in ("true", "1"):
            path: Path | None = self._previous(pod, container)
        else:
            path = await self._current(pod, container, follows=wanted.follows)
        if not wanted.follows and (path is None or path.stat().st_size == 0):
            _refuse_if_waiting(pod, container)
        if path is None:
            return
        left = wanted.size
        with path.open("rb") as file:
            first = _seek_first(file)
            if wanted.lines is not None:
                await _seek_tail(file, wanted.lines, first)
            async for piece in _texts(file, path.with_suffix(".done"), wanted):
                if left is not None:
                    piece = piece[:left]
                    left -= len(piece)
                if piece:
                    yield piece
                if left == 0:
                    return

    def _runs(self, pod: Mapping[str, Any], container: str) -> list[int]:
        folder = self._folder / pod["metadata"]["uid"] / container
        return sorted(int(path.stem) for path in folder.glob("*.log") if path.stem.isdigit())

    async def _current(self, pod: Mapping[str, Any], container: str, *, follows: bool) -> Path | None:
        while not (runs := self._runs(pod, container)):
            if not follows:
                return None
            await asyncio.sleep(_FOLLOW_SECONDS)
        return log_file(self._folder, pod["metadata"]["uid"], container, runs[-1])

    def _previous(self, pod: Mapping[str, Any], container: str) -> Path:
        status = pod.get("status") or {}
        known = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
        own: Mapping[str, Any] = next((one for one in known if one.get("name") == container), {})
        run = int(own.get("restartCount") or 0)
        if not (own.get("lastState") and (own.get("state") or {}).get("waiting")):
            run -= 1  # in a pause, the one before is the last one
        path = log_file(self._folder, pod["metadata"]["uid"], container, run)
        if run < 0 or not path.exists():
            name = pod["metadata"]["name"]
            raise LookupError(f'previous terminated container "{container}" in pod "{name}" not found')
        return path


async def _texts(file: BinaryIO, done: Path, wanted: _Wanted) -> AsyncIterator[bytes]:
    """The text of the records from here on."""
    rest = b""
    begins = True  # whether the next record begins a line
    while True:
        ended = done.exists()  # before the read: nothing is written after that
        data = file.read(_PIECE)
        if data:
            # Not splitlines: a progress bar writes carriage returns, which end no record.
            *records, rest = (rest + data).split(b"\n")
            parts = []
            for record in records:
                if not wanted.since or _second(record) >= wanted.since:
                    parts.append(record[: _TIME_LENGTH + 1] if wanted.has_times and begins else b"")
                    parts.append(record[_TEXT_AT:] + (b"\n" if _ends_line(record) else b""))
                begins = _ends_line(record)
            if text := b"".join(parts):
                yield text
        elif wanted.follows and not ended:
            await asyncio.sleep(_FOLLOW_SECONDS)
        else:
            return


def _refuse_if_waiting(pod: Mapping[str, Any], container: str) -> None:
    """As kubelets do. Raises LookupError."""
    status = pod.get("status") or {}
    for one in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        waiting = (one.get("state") or {}).get("waiting")
        if one.get("name") == container and waiting and not one.get("lastState"):
            name, reason = pod["metadata"]["name"], waiting.get("reason", "")
            raise LookupError(f'container "{container}" in pod "{name}" is waiting to start: {reason}')


def _ends_line(record: bytes) -> bool:
    return record[_KIND_AT : _KIND_AT + 1] == b"F"


def _second(record: bytes) -> float:
    try:
        return parse_timestamp(record[:_TIME_LENGTH].decode())
    except ValueError:
        return float("inf")


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 15 else None


def _seek_first(file: BinaryIO) -> int:
    """Move to the first whole record, and say where it is: the beginning of a long log is a hole."""
    first = 0
    if hasattr(os, "SEEK_DATA"):
        with contextlib.suppress(OSError):  # an empty file
            first = os.lseek(file.fileno(), 0, os.SEEK_DATA)
    file.seek(first)
    if first:
        file.readline()
    return file.tell()


async def _seek_tail(file: BinaryIO, lines: int, first: int) -> None:
    """Move to the beginning of the last lines. The file is read backwards, a piece at a time: a line may be as long as
    the file. A record that does not end a line belongs to the next one."""
    end = file.seek(0, 2)
    if lines == 0 or end == 0:
        return
    found = 0
    later = end  # where the record after the one that is looked at begins
    for start in _starts(file, end, first):
        file.seek(start + _KIND_AT)
        if file.read(1) == b"F" or later == end:
            found += 1
            if found > lines:
                file.seek(later)
                return
        later = start
        if start % 97 == 0:
            await asyncio.sleep(0)
    file.seek(first)


def _starts(file: BinaryIO, end: int, first: int) -> Iterator[int]:
    """Where the records begin, from the last one on."""
    position = end
    while position > first:
        size = min(_PIECE, position - first)
        position -= size
        file.seek(position)
        piece = file.read(size)
        # The break at the end of the file ends the last record, and begins none.
        at = piece.rfind(b"\n", 0, size - 1 if position + size == end else size)
        while at >= 0:
            yield position + at + 1
            at = piece.rfind(b"\n", 0, at)
    yield first
