"""What happens while the server refuses our credentials.

A token that has expired or was revoked is refused for every request, and a process has a dozen loops that send some.
Each would retry and log as fast as the server answers. So the first refusal is logged, and from then on requests wait:
one at a time is sent, with growing pauses, until one is accepted. The credentials are read again before each (see
reloaded_credentials.py).
"""

from __future__ import annotations

import asyncio
import logging
from typing import Final

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0  # seconds; doubles with each refusal
LONGEST_PAUSE: Final = 30.0


class Login:
    def __init__(self) -> None:
        self.problem: str | None = None
        """Why the server does not accept us; None if it does, as far as is known."""
        self._refusals = 0  # in a row; those of requests that were sent together count once
        self._sent = 0  # requests that were sent one at a time
        self._counted = -1  # the value of that at the last refusal
        self._one_at_a_time = asyncio.Lock()

    async def turn(self) -> None:
        """Wait until a request may be sent."""
        if not self._refusals:
            return
        async with self._one_at_a_time:
            if self._refusals:
                await asyncio.sleep(min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._refusals - 1, 10)))
                self._sent += 1

    def refused(self, server: str, message: str) -> None:
        if self._sent != self._counted:
            self._refusals, self._counted = self._refusals + 1, self._sent
        if self.problem is None:
            self.problem = f"{server} refuses the credentials: {message}"
            log.error("%s; requests wait until it accepts them, and the kubeconfig is read again", self.problem)

    def accepted(self) -> None:
        if self._refusals:
            self._refusals, self.problem = 0, None
            log.warning("the API server accepts the credentials again")
