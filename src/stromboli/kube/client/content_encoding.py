"""Bodies of responses within limits, also if they are compressed.

We ask for no compression, but a proxy may compress all the same. What it sends is decoded as RFC 1952 says: a body may
consist of several members, and one that breaks off is an error, never a shorter body. A few bytes can stand for a
gigabyte, so decoding stops at a limit.
"""

from __future__ import annotations

import zlib
from typing import Final

MIB: Final = 1 << 20
LARGEST_BODY: Final = 128 * MIB  # of one response, decoded; a page of a list is read in smaller parts if it is larger
LARGEST_PIECE: Final = 16 * MIB  # that one read from the network may become in a stream
LARGEST_HEAD: Final = MIB  # the status line and all headers
LARGEST_ERROR: Final = MIB  # the body of a refused watch
_STEP: Final = MIB  # zlib doubles its buffer when it is full, so it gets small ones
_WINDOWS: Final = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}


class BodyTooLarge(OSError):
    """There is more of a response than we read."""


class BrokenEncoding(OSError):
    """A body that is not what its header says, or that breaks off."""


class ContentDecoder:
    def __init__(self, encoding: str) -> None:
        """Raises BrokenEncoding for an encoding that we did not ask for and do not know."""
        window = _WINDOWS.get(encoding.strip().lower())
        if window is None:
            raise BrokenEncoding
        self._window = window
        self._member = zlib.decompressobj(window)
        self._is_empty = True

    def decode(self, data: bytes, most: int) -> bytes:
        """What the data stands for. Raises BodyTooLarge if that is more than `most` bytes."""
        pieces, size = [], 0
        has_more = bool(data)
        self._is_empty = self._is_empty and not has_more
        while has_more:
            if self._member.eof:
                self._member = zlib.decompressobj(self._window)
            step = min(most - size + 1, _STEP)
            try:
                piece = self._member.decompress(data, step)
            except zlib.error:
                raise BrokenEncoding from None
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise BodyTooLarge
            data = self._member.unused_data or self._member.unconsumed_tail
            # All data may be read while some of what it stands for is still to come.
            has_more = bool(data) or (len(piece) == step and not self._member.eof)
        return b"".join(pieces)

    def finish(self) -> None:
        """Nothing follows. Raises BrokenEncoding if something should."""
        if not self._is_empty and not self._member.eof:
            raise BrokenEncoding


def decoder_for(encoding: str | None) -> ContentDecoder | None:
    """None if the body is as it was sent."""
    return None if encoding is None or encoding.strip().lower() in ("", "identity") else ContentDecoder(encoding)
