"""The first process of a sandbox. It starts the program, moves its output into the log, starts other commands beside it
(probes, hooks, what people type), and ends when the program has.

When it ends, the kernel kills all that is left in the sandbox, whatever it did to get away. Where there are no
namespaces, it adopts what loses its parent, and kills all its descendants itself.

It obeys lines of JSON and answers with such lines. Who gives the orders holds the other end of a pipe: when that is
closed, by whatever killed the one who held it, the program is killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from .program import CannotStart, Limits, Output, start

_READ: Final = 1 << 16
_MOST_OUTPUT: Final = 4 << 10
"""So much of what a command prints is reported."""
_KILL_ROUNDS: Final = 100


@dataclass(slots=True)
class _Command:
    """One that runs beside the program."""

    number: int
    process: int
    pipe: int
    deadline: float
    output: bytes = b""
    timed_out: bool = False


class Supervisor:
    def __init__(self, spec: Mapping[str, Any], orders: int, answers: int, *, is_first_process: bool) -> None:
        """Opens the log, so it is called before anything is mounted, which may hide it. Raises OSError."""
        self._spec = spec
        self._log = os.open(spec["log"], os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._orders = orders
        self._answers = answers
        self._is_first_process = is_first_process
        self._environment: dict[str, str] = spec["environment"]
        self._folder: str = spec.get("folder", "")
        self._limits = Limits(**spec.get("limits", {}))
        self._selector = selectors.DefaultSelector()
        self._rest = b""
        self._program = 0
        self._ended: int | None = None  # its wait status
        self._outputs: list[Output] = []
        self._commands: dict[int, _Command] = {}  # by process

    def run(self) -> None:
        """Until the program has ended, or nobody gives orders any more."""
        wakes, woken = os.pipe()
        for end in (wakes, woken):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._selector.register(wakes, selectors.EVENT_READ, lambda: self._reap(wakes))
        self._selector.register(self._orders, selectors.EVENT_READ, self._obey)
        try:
            if self._start():
                while self._ended is None:
                    self._step()
                self._finish()
        finally:
            self.kill_all()

    # -- the program --------------------------------------------------------------------------------------------------

    def _start(self) -> bool:
        pipes = {name: os.pipe() for name in ("stdout", "stderr")}
        try:
            self._program = start(
                self._spec["command"],
                self._environment,
                self._folder,
                self._limits,
                pipes["stdout"][1],
                pipes["stderr"][1],
            )
        except CannotStart as problem:
            self._answer(cannot=str(problem))
            return False
        finally:
            for _, written in pipes.values():
                os.close(written)
        for name, (read, _) in pipes.items():
            output = Output(name, read, self._log)
            self._outputs.append(output)
            self._selector.register(read, selectors.EVENT_READ, lambda one=output: self._pump(one))
        self._answer(started=self._program)
        return True

    def _pump(self, output: Output) -> None:
        if not output.pump():
            self._selector.unregister(output.pipe)

    def _finish(self) -> None:
        self.kill_all()  # one that goes on writing would have no end
        for output in self._outputs:
            output.drain()
        assert self._ended is not None
        killed_by = os.WTERMSIG(self._ended) if os.WIFSIGNALED(self._ended) else 0
        code = 128 + killed_by if killed_by else os.WEXITSTATUS(self._ended)
        self._answer(ended=code, signal=killed_by)

    # -- the loop -----------------------------------------------------------------------------------------------------

    def _step(self) -> None:
        deadlines = [one.deadline for one in self._commands.values() if not one.timed_out]
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        for key, _ in self._selector.select(timeout):
            if self._selector.get_map().get(key.fd) == key:  # what came before may have closed it
                key.data()
        now = time.monotonic()
        for one in self._commands.values():
            if one.deadline <= now and not one.timed_out:
                one.timed_out = True
                _signal_group(one.process, signal.SIGKILL)

    def _reap(self, wakes: int) -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(wakes, _READ):
                pass
        while True:
            try:
                process, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if process == 0:
                return
            if process == self._program:
                self._ended = status
            elif process in self._commands:
                self._end_command(self._commands.pop(process), status)

    def _obey(self) -> None:
        data = os.read(self._orders, _READ)
        if not data:  # nobody is there any more
            self.kill_all()
            os._exit(137)
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            order = json.loads(line)
            if "signal" in order:
                _signal_group(self._program, order["signal"])
            elif "execute" in order:
                self._execute(order["number"], order["execute"], order["seconds"])

    def _answer(self, **answer: Any) -> None:
        data = json.dumps(answer).encode() + b"\n"
        with contextlib.suppress(BrokenPipeError):
            while data:
                data = data[os.write(self._answers, data) :]

    # -- commands beside the program ----------------------------------------------------------------------------------

    def _execute(self, number: int, command: list[str], seconds: float) -> None:
        read, written = os.pipe()
        try:
            process = start(command, self._environment, self._folder, self._limits, written, written)
        except CannotStart as problem:
            os.close(read)
            self._answer(executed=number, code=126, output=str(problem), timed_out=False)
            return
        finally:
            os.close(written)
        one = _Command(number, process, read, time.monotonic() + seconds)
        self._commands[process] = one
        self._selector.register(read, selectors.EVENT_READ, lambda: self._collect(one))

    def _collect(self, one: _Command) -> None:
        data = os.read(one.pipe, _READ)
        if not data:
            self._selector.unregister(one.pipe)
        one.output = (one.output + data)[-_MOST_OUTPUT:]

    def _end_command(self, one: _Command, status: int) -> None:
        os.set_blocking(one.pipe, False)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(one.pipe, _READ):
                one.output = (one.output + data)[-_MOST_OUTPUT:]
        with contextlib.suppress(KeyError):
            self._selector.unregister(one.pipe)
        os.close(one.pipe)
        code = 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        output = one.output.decode(errors="replace")
        self._answer(executed=one.number, code=code, output=output, timed_out=one.timed_out)

    # -- the end ------------------------------------------------------------------------------------------------------

    def kill_all(self) -> None:
        """Nothing that this sandbox started goes on."""
        if self._is_first_process:
            assert os.getpid() == 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)  # all in the sandbox but ourselves
            return
        for _ in range(_KILL_ROUNDS):
            processes = list(_descendants(os.getpid()))
            for process in processes:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(process, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            if not processes:
                return
            time.sleep(0.005)


def _signal_group(process: int, number: int) -> None:
    """The whole session: a shell may have started others."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process, number)


def _descendants(process: int) -> Iterator[int]:
    """All that are not only waited for any more, by /proc; on other systems none can be found."""
    children: dict[int, list[int]] = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if not name.isdigit():
            continue
        with contextlib.suppress(OSError, ValueError), open(f"/proc/{name}/stat", "rb") as file:
            state, parent = file.read().rpartition(b")")[2].split()[:2]
            if state != b"Z":
                children.setdefault(int(parent), []).append(int(name))
    stack = [process]
    while stack:
        for child in children.get(stack.pop(), ()):
            yield child
            stack.append(child)
