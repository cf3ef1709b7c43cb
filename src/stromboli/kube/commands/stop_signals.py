"""What SIGINT and SIGTERM do to a command that runs until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def on_stop_signals(stop: Callable[[], None]) -> None:
    """The first signal stops in order; a second one ends the process as usual."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def on_first_signal() -> None:
        for number in signals:
            loop.remove_signal_handler(number)
        stop()

    for number in signals:
        loop.add_signal_handler(number, on_first_signal)
