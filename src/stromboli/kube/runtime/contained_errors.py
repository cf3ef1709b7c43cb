"""What a live process says about errors that it contained: a log line and a metric, the same for all its parts.

An object that fails again every few minutes would fill the log. So each kind of error on each object is logged once,
with its traceback and the recording that reproduces it, and counted every time.
"""

from __future__ import annotations

from typing import Final

from stromboli.containment import ContainedError, ObjectRef, contained_error

from .logs import Log
from .metrics import ProcessMetrics

MOST_REMEMBERED: Final = 10_000  # kinds of errors; after that all are logged again


class ErrorReporter:
    def __init__(self, part: str, metrics: ProcessMetrics | None) -> None:
        """`part`: the component of the process, as in other metrics. Without `metrics` nothing is counted."""
        self._part = part
        self._metrics = metrics
        self._log = Log(part)
        self._said: set[tuple[ObjectRef, str, str]] = set()

    def is_new(self, error: ContainedError) -> bool:
        """Whether it has not been logged yet."""
        return error.signature not in self._said

    def report(self, error: ContainedError, *, seconds: float, recording: str = "") -> None:
        """`seconds`: for how long the object is put aside. `recording`: the file that reproduces the error."""
        if self._metrics is not None:
            self._metrics.contained(self._part, error.subject.kind)
        if not self.is_new(error):
            return
        if len(self._said) >= MOST_REMEMBERED:
            self._said.clear()
        self._said.add(error.signature)
        self._log.error(
            "an error while one object was handled; it is put aside, and all others go on. Please report "
            + ("it to the author of the plugin" if error.of_plugin else "this bug"),
            kind=error.subject.kind,
            object=error.subject.key,
            error=error.error,
            text=error.text,
            where=error.where,
            seconds=seconds,
            recording=recording or "none",
            traceback=error.traceback,
        )

    def contain(self, error: Exception, ref: ObjectRef) -> None:
        """Report an error on an object that is left out until it changes, or until the next attempt."""
        self.report(contained_error(error, ref), seconds=0.0)

    def put_aside(self, number: int) -> None:
        """So many objects are put aside now."""
        if self._metrics is not None:
            self._metrics.put_aside(self._part, number)
