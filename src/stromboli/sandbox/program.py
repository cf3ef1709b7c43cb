"""One program in a sandbox: started with its limits; its output is written with times, as container runtimes do.

A line of the log is `<time> <stdout or stderr> <F or P> <text>`. P says that the line of the program goes on in the
next line of the log: what a program writes without a line break is not kept in memory. Of a log that is longer than
MOST_LOG the beginning is given back to the system, so a program that writes without end does not fill the disk.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from .namespaces import punch_hole

PIECE: Final = 16 << 10
MOST_LOG: Final = 64 << 20
_BLOCK: Final = 4096
CANNOT_START: Final = 128
"""The exit code that kubelets report for a container that could not be started."""


@dataclass(frozen=True, slots=True)
class Limits:
    """0 and "": no limit."""

    address_space: int = 0  # bytes
    cores: int = 0
    first_core: int = 0
    """Programs with different numbers share no core, as long as there are enough."""
    group: str = ""
    """The file of a control group in which the process is entered."""
    user: int | None = None
    users_group: int | None = None
    groups: Sequence[int] = field(default=())


class CannotStart(Exception):
    """Says why the program cannot be started."""


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    limits: Limits,
    output: int,
    errors: int,
) -> int:
    """Returns the process. It leads a session of its own. Raises CannotStart."""
    told, tells = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(told)
        try:
            _become(command, environment, folder, limits, output, errors)
        except BaseException as error:
            os.write(tells, _why(command[0], folder, error).encode()[:4096])
        os._exit(CANNOT_START)
    os.close(tells)
    with os.fdopen(told, "rb") as pipe:
        problem = pipe.read()  # ends when the program runs, because exec closes the pipe
    if problem:
        os.waitpid(process, 0)
        raise CannotStart(problem.decode(errors="replace"))
    return process


def _become(
    command: Sequence[str], environment: Mapping[str, str], folder: str, limits: Limits, output: int, errors: int
) -> None:
    os.setsid()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (errors, 2)):
        os.dup2(source, target)
    if limits.group:
        with open(limits.group, "w", encoding="utf-8") as group:
            group.write("0")
    _limit(limits)
    if folder:
        os.chdir(folder)
    os.execvpe(command[0], list(command), dict(environment))


def _limit(limits: Limits) -> None:
    if sys.platform == "linux" and limits.cores:
        allowed = sorted(os.sched_getaffinity(0))
        first = limits.first_core % len(allowed)
        os.sched_setaffinity(0, (allowed[first:] + allowed[:first])[: limits.cores])
    if limits.address_space:
        resource.setrlimit(resource.RLIMIT_AS, (limits.address_space, limits.address_space))
    if limits.groups:
        os.setgroups(list(limits.groups))
    if limits.users_group is not None and limits.users_group != os.getegid():
        os.setgid(limits.users_group)
    if limits.user is not None and limits.user != os.geteuid():
        os.setuid(limits.user)


def _why(program: str, folder: str, error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        if folder and not os.path.isdir(folder):
            return f"its workingDir {folder} does not exist on this machine"
        return f"there is no program {program} on this machine"
    if isinstance(error, OSError):
        return f"cannot start {program}: {error.strerror}"
    return f"cannot start {program}: {error}"


class Output:
    """What comes out of one pipe, on its way into the log."""

    def __init__(self, name: str, pipe: int, log: int) -> None:
        self.pipe = pipe
        self._name = name.encode()
        self._log = log
        self._until_trimmed = MOST_LOG // 8
        self._rest = b""

    def pump(self) -> bool:
        """Move what is there. Returns whether more can come."""
        try:
            data = os.read(self.pipe, 4 * PIECE)
        except BlockingIOError:
            return True
        if not data:
            return False
        at = _now()
        *lines, rest = (self._rest + data).split(b"\n")
        records = [record for line in lines for record in self._records(at, line, b"F")]
        while len(rest) >= PIECE:
            records.append(self._record(at, rest[:PIECE], b"P"))
            rest = rest[PIECE:]
        self._rest = rest
        if records:
            text = b"".join(records)
            _write_all(self._log, text)
            self._until_trimmed -= len(text)
            if self._until_trimmed < 0:
                self._until_trimmed = MOST_LOG // 8
                _trim(self._log)
        return True

    def drain(self) -> None:
        """What is in the pipe now; nobody waits for those who hold it open."""
        os.set_blocking(self.pipe, False)
        with contextlib.suppress(OSError):
            while self._has_more() and self.pump():
                pass
        if self._rest:
            _write_all(self._log, self._record(_now(), self._rest, b"P"))
            self._rest = b""

    def _has_more(self) -> bool:
        return bool(select.select([self.pipe], [], [], 0)[0])

    def _records(self, at: bytes, line: bytes, last: bytes) -> list[bytes]:
        pieces = [line[start : start + PIECE] for start in range(0, len(line), PIECE)] or [b""]
        return [*(self._record(at, piece, b"P") for piece in pieces[:-1]), self._record(at, pieces[-1], last)]

    def _record(self, at: bytes, text: bytes, kind: bytes) -> bytes:
        return b"%b %b %b %b\n" % (at, self._name, kind, text)


def _now() -> bytes:
    nanoseconds = time.time_ns()
    seconds, rest = divmod(nanoseconds, 1_000_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(seconds))}.{rest:09d}Z".encode()


def _trim(log: int) -> None:
    surplus = (os.fstat(log).st_size - MOST_LOG) // _BLOCK * _BLOCK
    if surplus > 0:
        with contextlib.suppress(OSError):  # there it grows
            punch_hole(log, surplus)


def _write_all(file: int, data: bytes) -> None:
    """A full disk costs lines of the log; it does not stop the program."""
    with contextlib.suppress(OSError):
        while data:
            data = data[os.write(file, data) :]
