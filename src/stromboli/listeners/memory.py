"""Memory goes back to the system after a crowd of connections.

The parts of a connection refer to each other, and our processes collect such garbage by hand and rarely. And the C
library keeps freed memory between memory that is still in use; asked to, it gives whole pages back.
"""

from __future__ import annotations

import ctypes
import gc


def give_back_memory(*, also_old: bool = False) -> None:
    """Takes some milliseconds. A system without `malloc_trim` needs none. `also_old`: also of connections that were
    open for long; this takes longer in a large cluster."""
    gc.collect(2 if also_old else 1)
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return


def forget_frames(error: BaseException) -> None:
    """An error that was handled keeps the frames it went through, and these the connection and its buffers, until the
    next collection of garbage that is as old as they are: up to an hour."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            one.__traceback__ = None
            pending += [one.__context__, one.__cause__]
