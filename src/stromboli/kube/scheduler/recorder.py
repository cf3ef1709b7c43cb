"""Appends what the scheduler is given and decides to a file, or a single cycle in which an error happened.

Each line is written at once, by one call, so a process that is killed loses at most its last line. A file that cannot
be written (the disk is full) must not stop the scheduler: the recording ends, and the log says so.
"""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from stromboli import __version__
from stromboli.api import ApiError
from stromboli.cluster import Cluster, ClusterEvent
from stromboli.errors import UserError
from stromboli.files import new_private_file, open_for_append
from stromboli.insight.recording import configuration_line, cycle_line, events_line, reset_line, start_line
from stromboli.kube.runtime import Log
from stromboli.scheduling.configuration import Configuration, configuration_text
from stromboli.scheduling.containment import CycleInputs, NotContained, run_contained
from stromboli.scheduling.cycle import Scheduler
from stromboli.scheduling.decisions import Decision

_log = Log("recorder")

MOST_FILES: Final = 20  # with errors, of one process
REST: Final = 60.0  # seconds between two of them


class Recorder:
    """Not for several threads at once: the thread that decides calls it."""

    def __init__(self, path: Path, scheduler_name: str) -> None:
        self.path = path
        self._configuration: Configuration | None = None  # the one that was recorded last
        try:
            self._file: int | None = open_for_append(path)
            self._end_torn_line()
        except UserError as error:
            raise UserError(f"--record {error}") from None
        except OSError as error:
            raise UserError(f"--record {path}: {error.strerror}.") from None
        self._write(start_line(__version__, scheduler_name))

    def _end_torn_line(self) -> None:
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if size and os.pread(self._file, 1, size - 1) != b"\n":
            os.write(self._file, b"\n")

    def cycle(
        self,
        configuration: Configuration,
        now: float,
        events: Sequence[ClusterEvent],
        decisions: Sequence[Decision],
        inputs: CycleInputs | None = None,
        cut: Mapping[str, int] | None = None,
    ) -> None:
        if self._file is None:
            return
        if configuration is not self._configuration:
            self._configuration = configuration
            self._write(configuration_line(configuration_text(configuration)))
        self._write(cycle_line(now, events, decisions, inputs, cut))

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
        written = 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
        except OSError as error:
            if written:
                with suppress(OSError):  # a device has no size
                    os.ftruncate(self._file, os.fstat(self._file).st_size - written)
            _log.error("the recording ends, because it cannot be written", file=str(self.path), reason=error.strerror)
            self.close()


class ErrorRecordings:
    """A file for a cycle in which a new kind of error happened, made from the objects that exist. Not for every one: to
    decide a cycle again takes as long as the first time."""

    def __init__(self, folder: Path | None, scheduler_name: str, clock: Callable[[], float] = time.monotonic) -> None:
        """Without a folder, one for temporary files is made with the first of them."""
        self._folder = folder
        self._scheduler_name = scheduler_name
        self._clock = clock
        self._written = 0
        self._last = -REST

    def write(self, objects: Sequence[ClusterEvent], scheduler: Scheduler, now: float, inputs: CycleInputs) -> str:
        """The path; empty if none was written. Errors here must not be more harmful than those that they are about."""
        if self._written >= MOST_FILES or self._clock() - self._last < REST:
            return ""
        self._last = self._clock()
        try:
            return self._write(objects, scheduler, now, inputs)
        except Exception as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            folder = self._folder or tempfile.gettempdir()
            _log.warning("the cycle with the error cannot be recorded", folder=str(folder), reason=reason)
            return ""

    def _write(self, objects: Sequence[ClusterEvent], scheduler: Scheduler, now: float, inputs: CycleInputs) -> str:
        cluster = Cluster(scheduler_name=self._scheduler_name)
        for event in objects:
            with suppress(ApiError, ValueError):
                cluster.apply(event)
        cluster.snapshot()
        again = Scheduler(scheduler.configuration, scheduler.registry)
        decisions: Sequence[Decision] = ()
        with suppress(NotContained):
            decisions = run_contained(again, cluster, now, inputs).decisions
        lines = [
            start_line(__version__, self._scheduler_name), configuration_line(configuration_text(again.configuration)),
            events_line(objects), cycle_line(now, [], decisions, inputs),
        ]  # fmt: skip
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="stromboli-errors-"))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path = self._folder / f"error-{self._written + 1}-{secrets.token_hex(8)}.jsonl"
        new_private_file(path, b"".join(lines))
        self._written += 1
        return str(path)
