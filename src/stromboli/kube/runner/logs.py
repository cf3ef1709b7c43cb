"""What the processes of containers wrote: one file for each container of each pod."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any, Final

_PIECE: Final = 1 << 16
_FOLLOW_SECONDS: Final = 0.2


def log_file(folder: Path, uid: str, container: str) -> Path:
    return folder / uid / f"{container}.log"


class ProcessLogs:
    """Answers `kubectl logs`: whole, the last lines, the first bytes, or as they are written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    async def read(self, pod: Mapping[str, Any], container: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        path = log_file(self._folder, pod["metadata"]["uid"], container)
        follows = query.get("follow") in ("true", "1")
        while follows and not path.exists():
            await asyncio.sleep(_FOLLOW_SECONDS)
        if not path.exists():
            return
        with path.open("rb") as file:
            left = _number(query, "limitBytes")
            lines = _number(query, "tailLines")
            if lines is not None:
                await _seek_tail(file, lines)
            while left is None or left > 0:
                piece = file.read(_PIECE if left is None else min(left, _PIECE))
                if piece:
                    left = None if left is None else left - len(piece)
                    yield piece
                elif follows and not (path.parent / f"{container}.done").exists():
                    await asyncio.sleep(_FOLLOW_SECONDS)
                else:
                    rest = file.read(_PIECE)  # written between the last read and the end of the process
                    if not rest:
                        return
                    yield rest


def _number(query: Mapping[str, str], name: str) -> int | None:
    text = query.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 15 else None


async def _seek_tail(file: Any, lines: int) -> None:
    """Move to the beginning of the last lines. The file is read backwards, and one piece of it is kept at a time: a
    line may be as long as the file."""
    end = position = file.seek(0, 2)
    while position > 0 and lines > 0:
        size = min(_PIECE, position)
        position -= size
        file.seek(position)
        piece = file.read(size)
        # The break at the end of the file ends the last line, and begins none.
        at = piece.rfind(b"\n", 0, size - 1 if position + size == end else size)
        while at >= 0 and lines > 1:
            lines -= 1
            at = piece.rfind(b"\n", 0, at)
        if at >= 0:
            file.seek(position + at + 1)
            return
        await asyncio.sleep(0)
    file.seek(0 if lines else end)
