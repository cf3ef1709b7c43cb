"""Text from elsewhere on a terminal.

Names in a manifest, messages of an API server and arguments may hold control characters. A terminal obeys them: it
moves the cursor, hides lines or sets its title. So everything that people read is printed with them escaped.
"""

from __future__ import annotations

import unicodedata

_DIRECTIONS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
"""They turn around the text that follows."""


def printable(text: str) -> str:
    """The text with control characters as `\\x1b`; equal if it has none."""
    if text.isprintable():
        return text
    return "".join(_escaped(character) if _is_control(character) else character for character in text)


def _is_control(character: str) -> bool:
    return character in _DIRECTIONS or unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp")


def _escaped(character: str) -> str:
    return f"\\x{ord(character):02x}" if ord(character) < 0x100 else f"\\u{ord(character):04x}"
