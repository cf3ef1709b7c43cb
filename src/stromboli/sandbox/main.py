"""What the process of a sandbox does. The first line of its input says what to run; `launch` has the words.

outer process ──unshare, fork──▶ first process of the sandbox ──fork──▶ the program
     │ waits                          │ obeys and answers
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from typing import Any, NoReturn

from .file_view import CannotMount, FileView, Mount
from .namespaces import adopt_orphans, die_with_parent, mount, set_host_name, unshare
from .supervisor import Supervisor

_ORDERS, _ANSWERS = 0, 1


def main() -> NoReturn:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C is for who gives the orders
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    if sys.argv[1:] == ["--probe"]:
        _probe()
    spec = json.loads(_first_line())
    if not spec["isolated"]:
        adopt_orphans()
        Supervisor(spec, _ORDERS, _ANSWERS, is_first_process=False).run()
        os._exit(0)
    die_with_parent()
    try:
        unshare()
    except OSError as error:
        _refuse(str(error))
    lives, alive = os.pipe()
    first = os.fork()
    if first:
        os.close(lives)
        os.write(alive, b"1")
        os.close(_ORDERS)
        os.close(_ANSWERS)
        os.waitpid(first, 0)
        os._exit(0)
    die_with_parent()
    os.close(alive)
    if not os.read(lives, 1):  # the outer process died before it could be noticed
        os._exit(137)
    _run_isolated(spec)


def _run_isolated(spec: dict[str, Any]) -> NoReturn:
    try:
        supervisor = Supervisor(spec, _ORDERS, _ANSWERS, is_first_process=True)
        FileView(spec["staging"]).make([Mount(**one) for one in spec["mounts"]])
        with contextlib.suppress(OSError):  # inside some containers only the machine's own is allowed
            mount("proc", "/proc", "proc")
        set_host_name(spec["host_name"])
    except (CannotMount, OSError) as error:
        _refuse(str(error))
    supervisor.run()
    os._exit(0)


def _first_line() -> bytes:
    """Byte by byte: what follows is for the supervisor."""
    line = bytearray()
    while byte := os.read(_ORDERS, 1):
        if byte == b"\n":
            return bytes(line)
        line += byte
    os._exit(137)


def _refuse(problem: str) -> NoReturn:
    os.write(_ANSWERS, json.dumps({"cannot": problem}).encode() + b"\n")
    os._exit(0)


def _probe() -> NoReturn:
    """Says why a sandbox cannot be isolated here; nothing if it can."""
    try:
        unshare()
        first = os.fork()
        if not first:
            FileView("/").make([])
            os._exit(0)
        if os.waitpid(first, 0)[1]:
            raise OSError("the system does not let this user mount anything")
    except OSError as error:
        os.write(_ANSWERS, str(error).encode())
    os._exit(0)
