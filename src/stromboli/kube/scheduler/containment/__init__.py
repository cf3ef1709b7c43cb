"""What the scheduler's process remembers from one cycle to the next: who is put aside, and who had no turn."""

from .live_containment import LiveContainment

__all__ = ["LiveContainment"]
