"""When the cyclic garbage collector runs: by hand, between cycles.

Left to itself it walks through everything that is known of the cluster, again and again, while objects arrive: that
takes longer than decoding them, and holds up the event loop for tenths of a second. Hardly anything of ours forms
cycles. So it is switched off before the first list; what the cluster consists of is set apart once it is known; and
what comes and goes is looked at after each cycle, where it is little.
"""

from __future__ import annotations

import gc
from typing import Final

SET_APART_EVERY: Final = 60  # sweeps

_sweeps = 0


def take_charge() -> None:
    """At the start of a process."""
    gc.disable()


def set_apart() -> None:
    """What is there now will stay: it is not looked at again."""
    gc.collect()
    gc.freeze()


def sweep() -> None:
    """After a cycle."""
    global _sweeps
    _sweeps += 1
    if _sweeps % SET_APART_EVERY == 0:
        set_apart()
    else:
        gc.collect(1)
