"""Memory goes back to the system after a crowd of connections.

Their buffers are freed, but the C library keeps what lies between memory that is still in use. Asked to, it gives whole
pages back.
"""

from __future__ import annotations

import ctypes
import gc


def give_back_memory() -> None:
    """Takes some milliseconds. A system without `malloc_trim` needs none."""
    gc.collect(0)  # connections and their TLS refer to each other
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):
        return
