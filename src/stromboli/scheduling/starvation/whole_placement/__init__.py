"""Jobs placed as a whole on nodes that are still to drain; those that must be close together in one domain."""

from .whole_placement import Attempt, place_as_a_whole

__all__ = ["Attempt", "place_as_a_whole"]
