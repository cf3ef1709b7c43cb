"""A Stromboli process that we start, watch and end: what a benchmark measures."""

from __future__ import annotations

import asyncio
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

_RUN: Final = "from stromboli.console.main import main; main()"
_PATIENCE: Final = 30.0  # seconds to finish what is under way


class Child:
    """`stromboli <arguments>`, in this interpreter's environment. Its log goes to a file that ends with it."""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)
        self._process: asyncio.subprocess.Process | None = None
        self._cpu_before = 0.0
        self.started_at = 0.0  # by time.monotonic
        self.peak_mib = 0.0  # once it has ended
        self.cpu_seconds = 0.0

    async def start(self) -> None:
        self._log = tempfile.NamedTemporaryFile(prefix="stromboli-", suffix=".log")  # noqa: SIM115
        self._cpu_before = _cpu_of_children()
        self.started_at = time.monotonic()
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _RUN, *self._arguments,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=self._log.fileno(),
            start_new_session=True,
        )  # fmt: skip

    @property
    def ended(self) -> bool:
        return self._process is not None and self._process.returncode is not None

    def last_words(self) -> str:
        """The last line of its log."""
        lines = Path(self._log.name).read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line for line in reversed(lines) if line.strip()), "it said nothing")

    async def stop(self) -> None:
        """In an orderly way if it can, and in any case."""
        if self._process is None:
            return
        if self._process.returncode is None:
            self.peak_mib = _peak_mib(self._process.pid)
            self._process.terminate()
            try:
                await asyncio.wait_for(self._process.wait(), _PATIENCE)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()
        self.cpu_seconds = _cpu_of_children() - self._cpu_before
        self._log.close()


def _peak_mib(pid: int) -> float:
    """The most memory a running process ever had.

    Not from its resource usage where that can be helped: there, Linux counts what *we* had when we started it.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / (
            (1 << 20) if sys.platform == "darwin" else 1024
        )
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmHWM:")), 0.0)


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
