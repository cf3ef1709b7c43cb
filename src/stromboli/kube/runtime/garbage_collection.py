"""Runs Python's cyclic garbage collector by hand, between cycles.

Run automatically, it walks through everything we know about the cluster again and again while objects arrive. That
takes longer than decoding them and blocks the event loop for tenths of a second. Few of our objects form reference
cycles. So automatic collection is disabled before the first list, and the cluster's objects are frozen once they are
known. From then on a collection runs at most every two seconds, after a cycle, over new objects only; once an hour a
full collection finds what these missed.
"""

from __future__ import annotations

import gc
import time
from typing import Final

COLLECT_EVERY: Final = 2.0  # seconds; reference counting frees most new objects before that
OLDER_GENERATION_EVERY: Final = 30  # collections
FULL_EVERY: Final = 3600.0  # seconds

_collections = 0
_collected_at = 0.0
_full_at = 0.0


def disable_automatic_collection() -> None:
    """Call at the start of a process."""
    gc.disable()


def freeze_current_objects() -> None:
    """Exclude all current objects from collections: most of them stay for good."""
    global _full_at
    gc.freeze()
    _full_at = time.monotonic()


def collect_if_due() -> None:
    """Call after every cycle; most calls do nothing."""
    global _collections, _collected_at, _full_at
    now = time.monotonic()
    if now - _collected_at < COLLECT_EVERY:
        return
    _collected_at = now
    _collections += 1
    if now - _full_at > FULL_EVERY:
        _full_at = now
        gc.collect()
    elif _collections % OLDER_GENERATION_EVERY == 0:
        gc.collect(1)
    else:
        gc.collect(0)
