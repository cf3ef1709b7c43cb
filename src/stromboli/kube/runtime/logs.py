"""Structured logging to standard error: one line for each record, as text for people or as JSON for programs.

    2030-01-01T00:00:00.000Z INFO scheduler: bound gang=team/a pods=3 seconds=0.012
    {"time":"2030-01-01T00:00:00.000Z","level":"info","logger":"scheduler","message":"bound","gang":"team/a",…}

The message says what happened and never varies; what varies is in fields, so that people and queries find it. `Log`
takes both. Records of libraries, which have no fields, come out in the same format.

A record is one line whatever it contains: a name with a line break in it must not look like a second record.
"""

from __future__ import annotations

import json
import logging
import math
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Final

from stromboli.containment import plugin_failure
from stromboli.errors import UserError

Field = str | int | float | bool | None

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

SILENCE: Final = 60.0  # seconds between two lines with one message about one namespace
_MOST_SUBJECTS: Final = 10_000

_ROOT: Final = "stromboli"
_NEEDS_NO_QUOTES: Final = re.compile(r'[^\s"=]+')


class Log:
    """The logger of one part of the program: `log.info("bound", gang="team/a", pods=3)`."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(f"{_ROOT}.{name}")

    def debug(self, message: str, /, **fields: Field) -> None:
        self._logger.debug(message, extra={"fields": fields})

    def info(self, message: str, /, **fields: Field) -> None:
        self._logger.info(message, extra={"fields": fields})

    def warning(self, message: str, /, **fields: Field) -> None:
        self._logger.warning(message, extra={"fields": fields})

    def error(self, message: str, /, **fields: Field) -> None:
        self._logger.error(message, extra={"fields": fields})

    def exception(self, message: str, /, **fields: Field) -> None:
        """An error, with the traceback of the exception that is being handled, and whose plugin it is in."""
        error = sys.exception()
        failure = None if error is None else plugin_failure(error)
        if failure is not None:
            fields["failure"] = str(failure)
        self._logger.exception(message, extra={"fields": fields})


class LimitedLog:
    """Warnings about objects of tenants: one line a minute for each namespace and message, and then how many there
    were. Who writes a million objects that cannot be handled must not hide what the log says about others."""

    def __init__(self, log: Log, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._clock = clock
        self._said: dict[tuple[str, str], tuple[float, int]] = {}  # when there was a line, and how many had none since

    def warning(self, message: str, namespace: str, /, **fields: Field) -> None:
        now, about = self._clock(), (namespace, message)
        since, unsaid = self._said.get(about, (-math.inf, 0))
        if now - since < SILENCE:
            self._said[about] = (since, unsaid + 1)
            return
        if len(self._said) >= _MOST_SUBJECTS:
            self._said.clear()
        self._said[about] = (now, 0)
        more = {"more_since_the_last_line": unsaid} if unsaid else {}
        self._log.warning(message, **fields, **more)


def configure_logging(level: str, format: str) -> None:
    """Log records of `level` and above to standard error in this format. A second call replaces the first."""
    if level not in LEVELS:
        raise UserError(f"log level {_quoted(level)} is not one of {', '.join(LEVELS)}")
    if format not in FORMATS:
        raise UserError(f"log format {_quoted(format)} is not one of {', '.join(FORMATS)}")
    handler = logging.StreamHandler()
    handler.setFormatter(TextFormatter() if format == "text" else JsonFormatter())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)


class TextFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head = f"{_moment(record)} {record.levelname} {_name(record)}: {_on_one_line(record.getMessage())}"
        return " ".join([head, *(f"{name}={_text(value)}" for name, value in _fields(record).items())])


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        head: dict[str, Field] = {
            "time": _moment(record),
            "level": record.levelname.lower(),
            "logger": _name(record),
            "message": record.getMessage(),
        }
        # Twice: first for the order, then because a field must not replace one of these.
        return json.dumps({**head, **_fields(record), **head}, separators=(",", ":"), default=str)


def _fields(record: logging.LogRecord) -> dict[str, Field]:
    fields: dict[str, Field] = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[0] is not None:
        fields["traceback"] = logging.Formatter().formatException(record.exc_info)
    return fields


def _moment(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, tz=UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{_ROOT}.")


def _text(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    text = str(value)
    return text if text.isprintable() and _NEEDS_NO_QUOTES.fullmatch(text) else _quoted(text)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _on_one_line(text: str) -> str:
    return text if text.isprintable() else _quoted(text)[1:-1]
