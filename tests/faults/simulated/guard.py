"""What a run may not use: real clocks, threads, sockets, random numbers and sleeps fail in our code while a world runs.

Libraries may ask for the time, for log records and metrics; they get the virtual one. The collector of garbage belongs
to the interpreter, which runs many worlds: it stays off inside of one, and the objects of one are not frozen.

Histories are the same on all versions of Python, so `asyncio.wait_for` is that of 3.12 and later. The one of 3.11 is a
task more, and whoever waits with it hears of an event later than others.
"""

from __future__ import annotations

import asyncio
import gc
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, tzinfo
from typing import Any, TypeVar
from unittest import mock

from stromboli.kube.runtime import garbage_collection

_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns", "thread_time",
           "process_time", "clock_gettime")  # fmt: skip
_NUMBERS = ((os, ("urandom",)), (uuid, ("uuid1", "uuid4")), (secrets, ("token_bytes", "token_hex", "token_urlsafe")),
            (random, ("random", "randint", "randrange", "choice", "choices", "shuffle", "sample", "uniform", "gauss",
                      "expovariate", "betavariate", "getrandbits")))  # fmt: skip

T = TypeVar("T")


class Forbidden(AssertionError):
    """Something real was used in a simulated world."""


async def wait_for(awaited: Awaitable[T], timeout: float | None) -> T:
    async with asyncio.timeout(timeout):
        return await awaited


@contextmanager
def nothing_real(now: Callable[[], float]) -> Iterator[list[str]]:
    """Yields what was used nevertheless."""
    found: list[str] = []

    def refuse(name: str) -> None:
        frame = sys._getframe(2)
        module = str(frame.f_globals.get("__name__"))
        if module.startswith("stromboli."):
            found.append(f"{module}, line {frame.f_lineno}: {name}")
            raise Forbidden(found[-1])

    def clock(name: str) -> Callable[..., Any]:
        def read(*arguments: Any) -> Any:
            refuse(f"time.{name}")
            return int(now() * 1e9) if name.endswith("_ns") else now()

        return read

    def never(name: str) -> Callable[..., Any]:
        def use(*arguments: Any, **options: Any) -> Any:
            found.append(name)
            raise Forbidden(name)

        return use

    def numbers(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def draw(*arguments: Any, **options: Any) -> Any:
            refuse(name)
            return real(*arguments, **options)

        return draw

    class Seeded(random.Random):
        def __init__(self, seed: Any = None) -> None:
            if seed is None:
                refuse("Random() without a seed")
            super().__init__(seed)

    class Dated(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> Any:
            refuse("datetime.now")
            return datetime.fromtimestamp(now(), tz)

    patches = [mock.patch.object(time, name, clock(name)) for name in _CLOCKS]
    patches += [
        mock.patch.object(time, "sleep", never("time.sleep")),
        mock.patch.object(threading.Thread, "start", never("a thread")),
        mock.patch.object(socket.socket, "connect", never("a socket")),
        mock.patch.object(socket.socket, "bind", never("a socket")),
        mock.patch.object(socket, "getaddrinfo", never("a socket")),
        mock.patch.object(subprocess.Popen, "__init__", never("another program")),
        mock.patch.object(asyncio, "wait_for", wait_for),
        mock.patch.multiple(garbage_collection, collect_if_due=lambda: None, freeze_current_objects=lambda: None),
    ]
    patches += [
        mock.patch.object(module, name, numbers(f"{module.__name__}.{name}", getattr(module, name)))
        for module, names in _NUMBERS
        for name in names
    ]
    patches += [
        mock.patch.object(module, "datetime", Dated)
        for name, module in list(sys.modules.items())
        if name.startswith("stromboli.") and getattr(module, "datetime", None) is datetime
    ]
    patches += [
        mock.patch.object(module, "Random", Seeded)
        for name, module in list(sys.modules.items())
        if name.startswith("stromboli.") and getattr(module, "Random", None) is random.Random
    ]
    was_enabled = gc.isenabled()
    gc.disable()
    for patch in patches:
        patch.start()
    try:
        yield found
    finally:
        for patch in reversed(patches):
            with suppress(RuntimeError):
                patch.stop()
        if was_enabled:
            gc.enable()
