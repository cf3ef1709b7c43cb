"""Numbers of pods that may be percentages of others."""

from __future__ import annotations

from stromboli.api.kinds.apps import Amount


def resolved(amount: Amount | None, of: int, *, round_up: bool) -> int:
    """A number of pods: the number itself, or a percentage of others. What cannot be read is 0."""
    text = str(0 if amount is None else amount)
    digits = text.removesuffix("%")
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 9:
        return 0
    if digits == text:
        return int(digits)
    return -(-int(digits) * of // 100) if round_up else int(digits) * of // 100
