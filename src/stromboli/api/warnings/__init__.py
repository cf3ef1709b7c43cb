"""What a valid object says that its author cannot have meant. A simulation and the controllers warn about it."""

from __future__ import annotations

from stromboli.api.kinds import KObject

from .fields_without_effect import fields_without_effect, no_effect_message
from .fractional_bytes import fractional_bytes_in, fractional_bytes_message

NO_EFFECT = "NoEffect"
FRACTIONAL_BYTES = "FractionalBytes"


def warnings_about(obj: KObject) -> dict[str, str]:
    """The warnings about an object: sentences by the reason of their event."""
    found = {NO_EFFECT: no_effect_message(obj), FRACTIONAL_BYTES: fractional_bytes_message(obj)}
    return {reason: message for reason, message in found.items() if message}


__all__ = ["FRACTIONAL_BYTES", "NO_EFFECT", "fields_without_effect", "fractional_bytes_in", "warnings_about"]
