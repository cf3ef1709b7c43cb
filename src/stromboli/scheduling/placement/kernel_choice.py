"""Which kernels run: compiled ones for big clusters, NumPy for small ones.

Both place identically, so the choice is about time only: importing Numba costs about a second, which a scenario of
three nodes should not pay. `STROMBOLI_KERNEL=numba` or `numpy` forces one.
"""

from __future__ import annotations

import os
from typing import Any

BIG_CLUSTER = 256  # nodes from which compiled kernels are worth their import


def choose_kernels(nodes: int) -> Any:
    """The module whose `score_rows` and `place` to call."""
    wish = os.environ.get("STROMBOLI_KERNEL", "auto")
    if wish == "numba" or (wish != "numpy" and nodes >= BIG_CLUSTER):
        from . import kernels

        return kernels
    from . import kernels_numpy

    return kernels_numpy
