"""A program in a sandbox of its own, as seen from the event loop: start it, send it signals, run commands beside it.

What happens inside is in `stromboli.sandbox`. Its process reads orders from a pipe that we hold, so it dies with us.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

from stromboli.sandbox.file_view import Mount
from stromboli.sandbox.program import Limits

_SOURCE: Final = Path(__file__).parents[3]
_COMMAND: Final = (
    sys.executable,
    "-I",  # what users set for their own Python is not ours
    "-S",
    "-c",
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from stromboli.sandbox.main import main; main()",
    str(_SOURCE),
)
_ANSWER_LIMIT: Final = 1 << 20


class CannotRun(Exception):
    """Says why a container cannot be a process here."""


@dataclass(frozen=True, slots=True)
class Spec:
    """What a sandbox is to run, and what it looks like from inside."""

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    folder: str = ""
    limits: Limits = field(default_factory=Limits)
    isolated: bool = True
    staging: Path = Path()
    mounts: Sequence[Mount] = ()
    host_name: str = ""

    def line(self) -> bytes:
        values = asdict(self) | {"log": str(self.log), "staging": str(self.staging)}
        return json.dumps(values).encode() + b"\n"


@dataclass(frozen=True, slots=True)
class Ended:
    code: int
    signal: int = 0


@dataclass(frozen=True, slots=True)
class Executed:
    code: int
    output: str
    timed_out: bool = False


class SandboxProcess:
    """Use `launch`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._executed: dict[int, asyncio.Future[Executed]] = {}
        self._number = 0
        self._reading = asyncio.create_task(self._read())

    @classmethod
    async def launch(cls, spec: Spec) -> SandboxProcess:
        """Returns once the program runs. Raises CannotRun."""
        process = await asyncio.create_subprocess_exec(
            *_COMMAND,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            start_new_session=True,
            limit=_ANSWER_LIMIT,
            env={},
        )
        assert process.stdin is not None
        process.stdin.write(spec.line())
        made = cls(process)
        try:
            await asyncio.shield(made._started)
        except CannotRun:
            await made.wait()
            raise
        except asyncio.CancelledError:
            await made.close()
            raise
        return made

    async def wait(self) -> Ended:
        return await asyncio.shield(self._ended)

    @property
    def has_ended(self) -> bool:
        return self._ended.done()

    def send_signal(self, number: int) -> None:
        self._order(signal=int(number))

    def kill(self) -> None:
        """The sandbox, with everything that was started in it."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    async def close(self) -> None:
        """Kill it, and wait until the system has forgotten it."""
        self.kill()
        await self.wait()
        await asyncio.sleep(0)  # its transport is closed in the next round of the event loop

    async def execute(self, command: Sequence[str], seconds: float) -> Executed:
        """Run a command in the sandbox, beside the program."""
        self._number += 1
        done: asyncio.Future[Executed] = asyncio.get_running_loop().create_future()
        if self._ended.done():
            return Executed(137, "the container has ended")
        self._executed[self._number] = done
        self._order(execute=list(command), number=self._number, seconds=seconds)
        return await done

    def _order(self, **order: Any) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(OSError, RuntimeError):  # it may have ended
            self._process.stdin.write(json.dumps(order).encode() + b"\n")

    async def _read(self) -> None:
        assert self._process.stdout is not None
        ended, problem = Ended(137, 9), ""
        async for line in self._process.stdout:
            answer = json.loads(line)
            if "started" in answer:
                self._started.set_result(None)
            elif "executed" in answer:
                done = self._executed.pop(answer["executed"])
                if not done.done():
                    done.set_result(Executed(answer["code"], answer["output"], answer["timed_out"]))
            elif "cannot" in answer:
                problem = answer["cannot"]
            else:
                ended = Ended(answer["ended"], answer["signal"])
        self.kill()
        await self._process.wait()
        if not self._started.done():
            self._started.set_exception(CannotRun(problem or "its sandbox ended at once"))
            self._started.exception()  # whoever launched it may be gone
        for done in self._executed.values():
            if not done.done():
                done.set_result(Executed(137, "the container has ended"))
        self._ended.set_result(ended)


async def why_not_isolated() -> str:
    """Why this system does not let us make namespaces; "" if it does."""
    process = await asyncio.create_subprocess_exec(
        *_COMMAND, "--probe", stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, env={}
    )
    said, _ = await process.communicate()
    return said.decode(errors="replace")
