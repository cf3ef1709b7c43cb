"""Memory goes back to the system after a crowd of connections.

The parts of a connection refer to each other, and our processes collect such garbage by hand and rarely. And the C
library keeps freed memory between memory that is still in use; asked to, it gives whole pages back.
"""

from __future__ import annotations

import ctypes
import gc


def give_back_memory() -> None:
    """Takes some milliseconds. A system without `malloc_trim` needs none."""
    gc.collect(1)  # only what is young, so it takes no longer in a large cluster
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
