"""Turns of those who have shown no token.

A client may send many requests in one piece, without waiting for the answers. A listener that answers them one after
the other never waits for anything, so nothing else in the process would run until the last one is answered. So every
request lets the event loop go round once. And a connection without a token gets its second and later requests answered
at a fixed pace, which all such connections of a listener share, in turn: whoever has no token cannot keep the process
busy. The first request of a connection does not wait for this pace: probes come on new connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

_PACE: Final = 0.001  # seconds between two requests: about 25 µs of work each


class Turns:
    """Of the connections of one listener."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def next(self) -> asyncio.Future[None]:
        """Is done when it is one's turn. Cancel it if nobody waits for it any more."""
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if self._timer is None:
            self._start_timer()
        return turn

    def _start_timer(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(_PACE, self._give)

    def _give(self) -> None:
        self._timer = None
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                break
        if self._waiting:
            self._start_timer()
