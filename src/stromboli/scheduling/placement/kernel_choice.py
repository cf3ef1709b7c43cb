"""Selects the kernels: compiled ones for large clusters and where they are loaded already, NumPy for the rest.

Both place identically, and the compiled ones are faster on clusters of any size. But importing Numba and loading the
machine code takes half a second of a processor, which is too much for a scenario of three nodes. A process that runs
for long loads them anyway, before its first cycle if that pays at once, else in a thread of its own (`warm_up`), and a
simulation that turns out to be long loads them then. `STROMBOLI_KERNEL=numba` or `numpy` forces one.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

BIG_CLUSTER = 256  # nodes; from here on the compiled kernels are worth their import
BIG_BACKLOG = 200_000  # nodes × pods; from here on they save more in one cycle than it takes to load them

_loading_thread: int | None = None


def load_compiled_kernels() -> None:
    """From now on, sessions of any size use the compiled kernels, unless others are forced."""
    choose_kernels(BIG_CLUSTER)


def choose_kernels(nodes: int) -> Any:
    """The module with `score_rows` and `place`."""
    forced = os.environ.get("STROMBOLI_KERNEL", "auto")
    if forced == "numba" or (forced != "numpy" and (_are_loaded() or nodes >= BIG_CLUSTER)):
        from . import kernels

        return kernels
    from . import kernels_numpy

    return kernels_numpy


def need_compiled(nodes: int, pods: int) -> bool:
    """Whether a first cycle with so many pods is over sooner if it waits for the compiled kernels."""
    return nodes >= BIG_CLUSTER or nodes * pods >= BIG_BACKLOG


@contextmanager
def loading_kernels() -> Iterator[None]:
    """Use the compiled kernels in this thread, and in others not before the end of the block: they would wait."""
    global _loading_thread
    _loading_thread = get_ident()
    try:
        yield
    finally:
        _loading_thread = None


def _are_loaded() -> bool:
    if _loading_thread is not None:
        return _loading_thread == get_ident()
    return f"{__package__}.kernels" in sys.modules
