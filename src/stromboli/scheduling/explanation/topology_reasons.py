"""What users read about groups whose pods must be close together."""

from __future__ import annotations

from stromboli.cluster.topology import Closeness


def bounds(closeness: Closeness) -> str:
    """The domains that a hard group may be in, as in "no {rack}"."""
    if closeness.label_key:
        return f"domain by the label {closeness.label_key}"
    if closeness.highest_tier_name:
        return f"domain up to the tier {closeness.highest_tier_name}"
    if closeness.highest_tier is not None:
        return f"domain up to tier {closeness.highest_tier}"
    return "domain"


def no_domain(closeness: Closeness) -> str:
    return f"No {bounds(closeness)} would be enough for all pods that must start together, even if it were empty."
