"""PodGroups that the PodGroup controller generates.

Every pod is scheduled as part of a PodGroup. For pods that name none, the PodGroup controller creates one per owner (or
per pod) and names it after the owner's uid. No user asked for such a group: its pods exist already, so no resources
have to be reserved before they are created, and it is not a gang.
"""

from __future__ import annotations

from .kinds.batch import PodGroup
from .kinds.metadata import OwnerReference

GENERATED_PREFIX = "podgroup-"


def generated_group_name(owner: OwnerReference) -> str:
    # A reference without a uid is to an owner that exists only in a scenario: only its kind and name are known.
    return GENERATED_PREFIX + (owner.uid or f"{owner.kind}-{owner.name}".lower())


def is_generated_group(group: PodGroup) -> bool:
    """Whether the group was generated for pods without one, rather than created by a user or for a Job."""
    return any(group.metadata.name == generated_group_name(owner) for owner in group.metadata.owner_references)
