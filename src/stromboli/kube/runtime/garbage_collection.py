"""When the cyclic garbage collector runs: by hand, between cycles.

Left to itself it walks through everything that is known of the cluster, again and again, while objects arrive: that
takes longer than decoding them, and holds up the event loop for tenths of a second. Hardly anything of ours forms
cycles. So it is switched off before the first list, what the cluster consists of is set apart once it is known, and
every two seconds only what has come since is looked at, after a cycle. What slips through is looked for once an hour.
"""

from __future__ import annotations

import gc
import time
from typing import Final

SWEEP_EVERY: Final = 2.0  # seconds; most of what is new is gone by itself until then
OLDER_EVERY: Final = 30  # sweeps
ALL_EVERY: Final = 3600.0  # seconds

_sweeps = 0
_swept_at = 0.0
_all_at = 0.0


def take_charge() -> None:
    """At the start of a process."""
    gc.disable()


def set_apart() -> None:
    """What is there now will stay, mostly: it is not looked at again."""
    global _all_at
    gc.freeze()
    _all_at = time.monotonic()


def sweep() -> None:
    """After a cycle; most times there is nothing to do."""
    global _sweeps, _swept_at, _all_at
    now = time.monotonic()
    if now - _swept_at < SWEEP_EVERY:
        return
    _swept_at = now
    _sweeps += 1
    if now - _all_at > ALL_EVERY:
        _all_at = now
        gc.collect()
    elif _sweeps % OLDER_EVERY == 0:
        gc.collect(1)
    else:
        gc.collect(0)
