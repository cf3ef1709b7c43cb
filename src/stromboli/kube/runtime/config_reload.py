"""A configuration file that may change while the process runs.

The file is looked at about once a second, and what counts is its content. Notifications of the file system would be
quicker and would miss the cases that matter: a ConfigMap is swapped by turning a symbolic link two directories up,
editors put a new file in the old one's place, and network file systems notify nobody.

A change is believed once it was read twice alike, so that a file caught while being written is not taken for a (valid,
but shorter) configuration. A content that cannot be used is refused once, and the configuration in force stays; so it
does while there is no file.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from stromboli.errors import UserError

from .logs import Log

S = TypeVar("S")

_log = Log("configuration")


class ConfigurationFile(Generic[S]):
    """`current` is the configuration in force. `load(text, where)` makes one, or raises UserError."""

    def __init__(
        self,
        path: Path | None,
        load: Callable[[str, str], S],
        *,
        built_in: Callable[[], S],
        every: float = 1.0,
    ) -> None:
        """Loads it: at the start there is nothing to fall back on, so a bad file is an error. Without a path, the
        built-in configuration is in force for good."""
        self._path = path
        self._load = load
        self._every = every
        self._missing = False
        if path is None:
            self.current = built_in()
            return
        try:
            self._in_force = self._judged = path.read_bytes()
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        self.current = self._parsed(self._in_force)

    async def run(self, on_change: Callable[[S], None], on_refused: Callable[[str], None]) -> None:
        """Watch the file until cancelled. `on_change` gets a new configuration, `on_refused` a sentence."""
        if self._path is None:
            await asyncio.Event().wait()
        before = self._judged
        while True:
            await asyncio.sleep(self._every)
            content = await asyncio.to_thread(self._read)
            if content is None:
                continue
            settled, before = content == before, content
            if settled and content != self._judged:
                await self._judge(content, on_change, on_refused)

    async def _judge(self, content: bytes, on_change: Callable[[S], None], on_refused: Callable[[str], None]) -> None:
        self._judged = content
        if content == self._in_force:  # somebody took a refused change back
            _log.info("configuration is again the one in force", file=str(self._path))
            return
        try:
            # In a thread: a plugin named for the first time is imported, and that takes its time.
            configuration = await asyncio.to_thread(self._parsed, content)
        except UserError as error:
            _log.error("configuration refused, the old one stays", file=str(self._path), reason=str(error))
            on_refused(str(error))
            return
        self.current = configuration
        self._in_force = content
        _log.info("configuration changed", file=str(self._path))
        on_change(configuration)

    def _read(self) -> bytes | None:
        """What is in the file now; None if that cannot be read, which is said once."""
        assert self._path is not None
        try:
            content = self._path.read_bytes()
        except OSError as error:
            if not self._missing:
                _log.warning(
                    "configuration cannot be read, the one in force stays", file=str(self._path), reason=error.strerror
                )
            self._missing = True
            return None
        if self._missing:
            _log.info("configuration can be read again", file=str(self._path))
        self._missing = False
        return content

    def _parsed(self, content: bytes) -> S:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{self._path}: is not text in UTF-8") from error
        return self._load(text, str(self._path))
