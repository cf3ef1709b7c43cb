"""Kinds that an API server may have or not, whatever is installed."""

from .optional_kinds import served_optional_kinds, watch_optional_kinds

__all__ = ["served_optional_kinds", "watch_optional_kinds"]
