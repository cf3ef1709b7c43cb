"""What users read about claims and volumes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stromboli.api.quantity import format_duration

# -- why a pod can run nowhere ----------------------------------------------------------------------------------------


def claim_missing(claim: str) -> str:
    return f"Claim {claim} does not exist; create it, or correct the name in the pod."


def claim_deleted(claim: str) -> str:
    return f"Claim {claim} is being deleted; create it again once it is gone."


def claim_of_another(claim: str, pod: str) -> str:
    return f"Claim {claim} was not created for pod {pod}, whose ephemeral volume has that name; delete or rename it."


def claim_lost(claim: str, volume: str) -> str:
    return f"Claim {claim} has lost its volume: {volume} does not exist any more. Create the claim again."


def claim_binding(claim: str, volume: str) -> str:
    return f"Claim {claim} is not bound yet: it names volume {volume}, and the volume controller must complete it."


def class_missing(claim: str, class_name: str) -> str:
    return f"Claim {claim} is not bound, and its storage class {class_name} does not exist; create the class."


def claim_unbound(claim: str, class_name: str) -> str:
    where = f"of storage class {class_name} " if class_name else "without a storage class "
    return (
        f"Claim {claim} {where}is not bound to a volume, and binding it does not depend on this pod. The pod starts "
        "when a provisioner or an administrator has bound it."
    )


def claim_in_use(claim: str, pod: str, user: str) -> str:
    return f"Claim {claim} is for one pod at a time (ReadWriteOncePod): {pod} waits until {user} is gone."


def resource_claims_unsupported(pod: str) -> str:
    return (
        f"Pod {pod} has resource claims, and dynamic resource allocation is not supported; request devices in "
        "`resources`, or use another scheduler for this pod."
    )


# -- binds that wait for volumes --------------------------------------------------------------------------------------


def waiting_for_volumes(claims: Iterable[str], nodes: Iterable[str]) -> str:
    """`nodes`: that are kept for the pods meanwhile."""
    # Not sets: names mostly come in order, and what is in order is sorted faster.
    listed, kept = sorted(dict.fromkeys(claims)), sorted(dict.fromkeys(nodes))
    return f"Waiting for the volumes of {_some(listed)}; {_some(kept)} {_is(kept)} kept for the pod meanwhile."


def each_waits_for_volume(claims: Iterable[str], nodes: Iterable[str]) -> list[str]:
    """`waiting_for_volumes` for many pods, with one claim and one node each."""
    return [
        f"Waiting for the volumes of {claim}; {node} is kept for the pod meanwhile."
        for claim, node in zip(claims, nodes, strict=True)
    ]


def volumes_first(claims: Iterable[str], nodes: Iterable[str]) -> str:
    """`nodes`: for which they are made."""
    listed, there = sorted(dict.fromkeys(claims)), sorted(dict.fromkeys(nodes))
    return f"Waiting for the volumes of {_some(listed)}, made for {_some(there)}. Once they exist, pods give way there."


def volumes_not_made(pod: str) -> str:
    return f"the volumes of pod {pod} could not be made"


def waiting_for_mates(node: str) -> str:
    return f"Waiting for the volumes of pods that must start together with this one; {node} is kept meanwhile."


def node_is_gone(node: str) -> str:
    return f"node {node} does not exist any more"


def node_not_ready(node: str) -> str:
    return f"node {node} is not ready"


def node_too_small(node: str) -> str:
    return f"node {node} no longer has what the pod requests"


def node_cordoned(node: str) -> str:
    return f"node {node} was cordoned"


def node_tainted(node: str, taint: str) -> str:
    return f"node {node} has the taint {taint}, which the pod does not tolerate"


def node_not_selected(node: str) -> str:
    return f"node {node} no longer matches the pod's node selector or affinity"


def claim_gone(claim: str) -> str:
    return f"claim {claim} was deleted or has lost its volume"


def volume_gone(claim: str, volume: str) -> str:
    return f"volume {volume} of claim {claim} does not exist any more"


def volume_taken(claim: str, volume: str) -> str:
    return f"volume {volume}, chosen for claim {claim}, went to another claim"


def volume_elsewhere(claim: str, volume: str, node: str) -> str:
    return f"volume {volume} of claim {claim} cannot be reached from {node}"


def provisioner_gave_up(claim: str) -> str:
    return f"the provisioner gave up on claim {claim}"


def volumes_late(claims: Sequence[str], seconds: float) -> str:
    return f"{_some(sorted(claims))} got no volume in {format_duration(seconds)}"


def mate_failed() -> str:
    return "a pod that must start together with this one gave up its place"


def place_given_back(node: str, why: str) -> str:
    return f"Gave up the place on {node}: {why}."


def place_taken(node: str, why: str) -> str:
    return f"Gave up the place on {node} while its volumes were made. {why}"


def volumes_refused(pod: str, node: str, why: str, times: int, others: int, when: str) -> str:
    """As `reasons.bind_refused`."""
    also = f" So did {others} more pods of the job." if others else ""
    often = f", for the {times}th time" if times > 3 else ""
    return f"Pod {pod} cannot have its volumes on {node}{often}: {why.rstrip('.')}.{also} {when}"


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _is(names: Sequence[str]) -> str:
    return "is" if len(names) == 1 else "are"
