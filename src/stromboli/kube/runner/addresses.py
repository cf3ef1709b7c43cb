"""Addresses of this machine for pods and services: each gets one of 127.0.0.0/8, which needs no settings on Linux.

An address follows from the uid, so that it is the same after a restart. If two uids lead to one address, the later one
gets the next that is free.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Collection
from typing import Final

LOCALHOST: Final = "127.0.0.1"
_SIZE: Final = 250 << 16  # 127.1.0.0 to 127.250.255.255


class Addresses:
    def __init__(self, *, many: bool = sys.platform == "linux") -> None:
        """`many`: the machine answers at all addresses of 127.0.0.0/8, not only at 127.0.0.1."""
        self._many = many
        self._by_uid: dict[str, str] = {}
        self._taken: set[str] = set()

    def of(self, uid: str) -> str:
        if not self._many:
            return LOCALHOST
        if uid not in self._by_uid:
            number = int.from_bytes(hashlib.blake2b(uid.encode(), digest_size=8).digest(), "big") % _SIZE
            while _address(number) in self._taken:
                number = (number + 1) % _SIZE
            self._by_uid[uid] = _address(number)
            self._taken.add(self._by_uid[uid])
        return self._by_uid[uid]

    def keep(self, uids: Collection[str]) -> None:
        """Forget the addresses of all others."""
        for uid in [uid for uid in self._by_uid if uid not in uids]:
            self._taken.discard(self._by_uid.pop(uid))


def _address(number: int) -> str:
    return f"127.{1 + (number >> 16)}.{number >> 8 & 255}.{number & 255}"
