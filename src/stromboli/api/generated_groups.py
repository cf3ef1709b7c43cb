"""Groups that nobody wrote.

Every pod is scheduled as part of a PodGroup. For pods that name none, the PodGroup controller makes one per owner (or
per pod) and names it after the owner's uid. Such a group states nothing a user said: its pods exist already, so
there is nothing to hold back or to promise before they are created, and it is no gang that must be kept whole.
"""

from __future__ import annotations

from stromboli.api.kinds.batch import PodGroup
from stromboli.api.kinds.metadata import OwnerReference

GENERATED_PREFIX = "podgroup-"


def generated_name(owner: OwnerReference) -> str:
    # A reference without a uid is to an owner that only a scenario mentions: there is no more than its name.
    return GENERATED_PREFIX + (owner.uid or f"{owner.kind}-{owner.name}".lower())


def is_generated(group: PodGroup) -> bool:
    """Whether the group was made for pods without one, rather than by a user or a Job."""
    return any(group.metadata.name == generated_name(owner) for owner in group.metadata.owner_references)
