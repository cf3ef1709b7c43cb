"""Selects the kernels: compiled ones for large clusters and where they are loaded already, NumPy for the rest.

Both place identically, and the compiled ones are faster on clusters of any size. But importing Numba takes about a
second, which is too much for a scenario of three nodes. A process that runs for long loads them before its first cycle
(`warm_up`), and a simulation that turns out to be long loads them then. `STROMBOLI_KERNEL=numba` or `numpy` forces one.
"""

from __future__ import annotations

import os
import sys
from typing import Any

BIG_CLUSTER = 256  # nodes; from here on the compiled kernels are worth their import


def load_compiled_kernels() -> None:
    """From now on, sessions of any size use the compiled kernels, unless others are forced."""
    choose_kernels(BIG_CLUSTER)


def choose_kernels(nodes: int) -> Any:
    """The module with `score_rows` and `place`."""
    forced = os.environ.get("STROMBOLI_KERNEL", "auto")
    loaded = f"{__package__}.kernels" in sys.modules
    if forced == "numba" or (forced != "numpy" and (loaded or nodes >= BIG_CLUSTER)):
        from . import kernels

        return kernels
    from . import kernels_numpy

    return kernels_numpy
