"""A configuration file that may change while the process runs.

The file's content is read about once a second. Notifications of the file system would be faster but miss the cases that
matter: a ConfigMap is updated by switching a symbolic link two directories up, editors replace the file with a new one,
and network file systems send no notifications.

A change counts when two reads in a row agree, so that a file which is just being written is not taken for a (valid, but
shorter) configuration. A content that cannot be used is refused once, and the configuration in force stays. It also
stays while the file does not exist.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

from stromboli.errors import UserError
from stromboli.files import LARGEST_SETTING, read_input

from .logs import Log

S = TypeVar("S")

_log = Log("configuration")


class ConfigurationFile(Generic[S]):
    """`current` is the configuration in force. `load(text, where)` returns a configuration or raises UserError."""

    def __init__(
        self,
        path: Path | None,
        load: Callable[[str, str], S],
        *,
        built_in: Callable[[], S],
        interval: float = 1.0,
    ) -> None:
        """Loads the file. At the start there is no configuration to keep, so a bad file is an error. Without a path,
        the built-in configuration is in force for good."""
        self._path = path
        self._load = load
        self._interval = interval
        self._missing = False
        if path is None:
            self.current = built_in()
            return
        try:
            self._in_force = self._last_seen = read_input(path, LARGEST_SETTING)
        except OSError as error:
            raise UserError(f"{path}: cannot be read: {error.strerror}") from error
        self.current = self._parsed(self._in_force)

    async def run(self, on_change: Callable[[S], None], on_refused: Callable[[str], None]) -> None:
        """Watch the file until cancelled. `on_change` gets a new configuration, `on_refused` the reason why not."""
        if self._path is None:
            await asyncio.Event().wait()
        before = self._last_seen
        while True:
            await asyncio.sleep(self._interval)
            content = await asyncio.to_thread(self._read)
            if content is None:
                continue
            settled, before = content == before, content
            if settled and content != self._last_seen:
                await self._consider(content, on_change, on_refused)

    async def _consider(
        self, content: bytes, on_change: Callable[[S], None], on_refused: Callable[[str], None]
    ) -> None:
        self._last_seen = content
        if content == self._in_force:  # a refused change was reverted
            _log.info("configuration file matches the configuration in force again", file=str(self._path))
            return
        try:
            # In a thread: importing a plugin that is named for the first time takes a while.
            configuration = await asyncio.to_thread(self._parsed, content)
        except UserError as error:
            _log.error("configuration refused; the old one stays in force", file=str(self._path), reason=str(error))
            on_refused(str(error))
            return
        self.current = configuration
        self._in_force = content
        _log.info("configuration changed", file=str(self._path))
        on_change(configuration)

    def _read(self) -> bytes | None:
        """The content of the file; None if it cannot be read, which is logged once."""
        assert self._path is not None
        try:
            content = read_input(self._path, LARGEST_SETTING)
        except (OSError, UserError) as error:
            if not self._missing:
                reason = error.strerror if isinstance(error, OSError) else str(error)
                _log.warning("configuration file cannot be read", file=str(self._path), reason=reason)
            self._missing = True
            return None
        if self._missing:
            _log.info("configuration file can be read again", file=str(self._path))
        self._missing = False
        return content

    def _parsed(self, content: bytes) -> S:
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{self._path}: is not UTF-8 text") from error
        return self._load(text, str(self._path))
