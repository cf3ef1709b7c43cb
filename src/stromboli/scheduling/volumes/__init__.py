"""Volumes: pods that bring claims.

A pod with a claim can run only where the volume of the claim can be reached. If there is no volume yet, the claim waits
for its first pod: the scheduler chooses the node, and with it a volume or the place where one is made. The bind waits
until the claims of all pods that were placed together are bound. Meanwhile their room is taken.

`claim_states` says what is known of a claim, `provisioning` where its volume could be made, `choices` which existing
volumes tasks take in this session, `chosen_nodes` whether the nodes that volumes are made for can still be used,
`claims_first` that volumes are made before pods are evicted for them, and `settlement` what becomes of binds that wait.
`rules` reads the arguments of the plugin `predicates`, which has the filters (`plugins/node_filters`).
"""

from .choices import VolumeChoices
from .claim_states import ClaimStates
from .provisioning import can_provision
from .settlement import open_volumes, settle_volumes
from .volume_checks import VolumeRules, read_volume_rules, volume_rules

__all__ = [
    "ClaimStates",
    "VolumeChoices",
    "VolumeRules",
    "can_provision",
    "open_volumes",
    "read_volume_rules",
    "settle_volumes",
    "volume_rules",
]
