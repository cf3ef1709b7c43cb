"""How a pretended provisioner makes the volumes of a class, from the annotations `sim.stromboli.io/*` of the class.

The simulator uses this in virtual time and `hollow-nodes --provision-volumes` in real time. It takes
`sim.stromboli.io/provision` (0 s if not given) to make a volume, and `sim.stromboli.io/provision-fails` says when it
gives up instead:

    always          it never makes a volume
    2               the first two attempts for each claim fail
    node-1,node-2   attempts on these nodes fail
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from stromboli.api import names
from stromboli.api.errors import ApiError
from stromboli.api.kinds.storage import PersistentVolumeClaim
from stromboli.api.pod_timing import annotated_duration

ALWAYS = "always"
ATTEMPTS: Final = "sim.stromboli.io/provision-attempts"
"""On a claim: how many attempts have failed."""


@dataclass(frozen=True, slots=True)
class Provisioning:
    seconds: float = 0.0
    failures: int = 0  # how many attempts for a claim fail; -1: all
    failing_nodes: frozenset[str] = frozenset()

    def fails(self, node: str, attempt: int) -> bool:
        """Whether this attempt (from 0) for a claim, on this node, fails."""
        return self.failures < 0 or attempt < self.failures or node in self.failing_nodes


def provisioning(annotations: Mapping[str, str], *, field: str = "metadata.annotations") -> Provisioning:
    """Raises ApiError for an annotation that cannot be parsed."""
    seconds = annotated_duration(annotations, names.SIM_PROVISION, field=field) or 0.0
    fails = annotations.get(names.SIM_PROVISION_FAILS)
    if fails is None:
        return Provisioning(seconds)
    if fails == ALWAYS:
        return Provisioning(seconds, failures=-1)
    if fails.isascii() and fails.isdigit():
        return Provisioning(seconds, failures=int(fails))
    nodes = [name.strip() for name in fails.split(",")]
    if not all(nodes):
        raise ApiError(
            f"{field}[{names.SIM_PROVISION_FAILS}]",
            f'must be "always", a number of attempts, or names of nodes separated by commas, not "{fails}"',
        )
    return Provisioning(seconds, failing_nodes=frozenset(nodes))


def failed_attempts(claim: PersistentVolumeClaim) -> int:
    written = claim.metadata.annotations.get(ATTEMPTS, "0")
    return int(written) if written.isascii() and written.isdigit() else 0
