"""Appends what the scheduler is given and decides to a file.

Each line is written at once, by one call, so a process that is killed loses at most its last line. A file that cannot
be written (the disk is full) must not stop the scheduler: the recording ends, and the log says so.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from stromboli import __version__
from stromboli.cluster import ClusterEvent
from stromboli.errors import UserError
from stromboli.insight.recording import configuration_line, cycle_line, events_line, reset_line, start_line
from stromboli.kube.runtime import Log
from stromboli.scheduling.configuration import Configuration, configuration_text
from stromboli.scheduling.decisions import Decision

_log = Log("recorder")


class Recorder:
    """Not for several threads at once: the thread that decides calls it."""

    def __init__(self, path: Path, scheduler_name: str) -> None:
        self._path = path
        self._configuration: Configuration | None = None  # the one that was recorded last
        try:
            self._file: int | None = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            self._end_torn_line()
        except OSError as error:
            raise UserError(f"--record {path}: {error.strerror}.") from None
        self._write(start_line(__version__, scheduler_name))

    def _end_torn_line(self) -> None:
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def cycle(
        self, configuration: Configuration, now: float, events: Sequence[ClusterEvent], decisions: Sequence[Decision]
    ) -> None:
        if self._file is None:
            return
        if configuration is not self._configuration:
            self._configuration = configuration
            self._write(configuration_line(configuration_text(configuration)))
        self._write(cycle_line(now, events, decisions))

    def events(self, events: Sequence[ClusterEvent]) -> None:
        """Events that were applied without a cycle."""
        if self._file is not None and events:
            self._write(events_line(events))

    def reset(self) -> None:
        """The cluster state is built again."""
        if self._file is not None:
            self._write(reset_line())

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _write(self, line: bytes) -> None:
        if self._file is None:
            return
        try:
            written = 0
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            _log.error("the recording ends, because it cannot be written", file=str(self._path), reason=error.strerror)
            self.close()
