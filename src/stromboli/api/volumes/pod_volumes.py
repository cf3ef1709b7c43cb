"""What a pod's volumes mean for where it can run: its claims, and volumes of drivers inside its spec.

A generic ephemeral volume is a claim that is created for the pod, named after the pod and the volume, and owned by the
pod.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stromboli.api.kinds.pods import Pod


@dataclass(frozen=True, slots=True)
class PodVolumes:
    claims: tuple[str, ...] = ()  # keys, each once, in the order of the spec
    ephemeral: tuple[str, ...] = ()  # those of them that are created for the pod
    inline: tuple[tuple[str, str], ...] = ()  # (driver, name) of CSI volumes without a claim
    only: str = ""  # the claim, if it is all that the pod has, as most pods with claims do


NO_VOLUMES = PodVolumes()


def pod_volumes(pod: Pod) -> PodVolumes:
    claims: dict[str, None] = {}
    ephemeral: list[str] = []
    inline: list[tuple[str, str]] = []
    namespace, pod_name = pod.metadata.namespace, pod.metadata.name
    for volume in pod.spec.volumes:
        name = volume.get("name", "")
        if (source := volume.get("persistentVolumeClaim")) is not None:
            claims[f"{namespace}/{_text(source, 'claimName')}"] = None
        elif volume.get("ephemeral") is not None:
            own = f"{namespace}/{ephemeral_claim_name(pod_name, name)}"
            claims[own] = None
            ephemeral.append(own)
        elif (source := volume.get("csi")) is not None:
            inline.append((_text(source, "driver"), str(name)))
    if not claims and not inline:
        return NO_VOLUMES
    has_more = len(claims) != 1 or ephemeral or inline or pod.spec.resource_claims
    return PodVolumes(tuple(claims), tuple(ephemeral), tuple(inline), "" if has_more else next(iter(claims)))


def ephemeral_claim_name(pod: str, volume: object) -> str:
    return f"{pod}-{volume}"


def _text(source: Any, field: str) -> str:
    return str(source.get(field, "")) if isinstance(source, dict) else ""
