"""Errors of the server itself (5xx), which are nobody's fault who asked.

The next attempt may succeed, so a pod whose bind ended so is tried again at once, and not after the pauses of a pod
that was refused. But a server in trouble must not be asked as fast as it fails. So after several errors in a row, of
all requests together, one request at a time is sent, with pauses that grow until one succeeds.
"""

from __future__ import annotations

import asyncio
from typing import Final

TOLERATED: Final = 8  # errors in a row that change nothing
FIRST_PAUSE: Final = 0.1  # seconds; doubles with each further error
LONGEST_PAUSE: Final = 5.0


class ServerErrors:
    def __init__(self) -> None:
        self._in_a_row = 0
        self._one_at_a_time = asyncio.Lock()

    async def turn(self) -> None:
        """Wait until a request may be sent."""
        if self._in_a_row < TOLERATED:
            return
        async with self._one_at_a_time:
            above = self._in_a_row - TOLERATED
            if above >= 0:
                await asyncio.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(above, 10)))

    def failed(self) -> None:
        self._in_a_row += 1

    def answered(self) -> None:
        """Whatever it said: a refusal is an answer, too."""
        self._in_a_row = 0
