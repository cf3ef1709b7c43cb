"""Selects the kernels: compiled ones for large clusters, NumPy for small ones.

Both place identically. Importing Numba takes about a second, which is too much for a scenario of three nodes.
`STROMBOLI_KERNEL=numba` or `numpy` forces one.
"""

from __future__ import annotations

import os
from typing import Any

BIG_CLUSTER = 256  # nodes; from here on the compiled kernels are worth their import


def choose_kernels(nodes: int) -> Any:
    """The module with `score_rows` and `place`."""
    forced = os.environ.get("STROMBOLI_KERNEL", "auto")
    if forced == "numba" or (forced != "numpy" and nodes >= BIG_CLUSTER):
        from . import kernels

        return kernels
    from . import kernels_numpy

    return kernels_numpy
