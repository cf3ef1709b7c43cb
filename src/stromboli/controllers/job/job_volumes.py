"""`spec.volumes` of a Job: volume claims that all its containers mount.

    volumes:
    - {mountPath: /data, volumeClaimName: corpus}                     an existing claim
    - {mountPath: /scratch, volumeClaim: {accessModes: […], …}}       a claim created for the job, as <job>-volume-<n>

A claim that is created for a job is owned by it and deleted with it. Its name follows from the job's name, so that the
user's spec need not be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from stromboli.api import ApiError, Job, ObjectMeta, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod
from stromboli.api.validation.conversion import convert
from stromboli.controllers.changes import Create, Objects, OwnedObject
from stromboli.controllers.job.plugins.containers import with_volume
from stromboli.controllers.pod_owners import owner_reference_to


class _Volume(msgspec.Struct, rename="camel"):
    mount_path: str = ""
    volume_claim_name: str = ""
    volume_claim: dict[str, Any] | None = None


def check_volumes(job: Job) -> None:
    for index, volume in enumerate(_volumes(job)):
        if not volume.mount_path.startswith("/"):
            raise ApiError(f"spec.volumes[{index}].mountPath", "must be an absolute path")
        if bool(volume.volume_claim_name) == (volume.volume_claim is not None):
            raise ApiError(f"spec.volumes[{index}]", "must have either a volumeClaimName or a volumeClaim")
        if volume.volume_claim is not None:
            convert(volume.volume_claim, PersistentVolumeClaimSpec, at=f"spec.volumes[{index}].volumeClaim")


def volume_claims(job: Job) -> Iterator[OwnedObject]:
    for index, volume in enumerate(_volumes(job)):
        claim = volume.volume_claim
        if claim is not None:
            yield _owned_claim(_claim_name(job, index, volume), claim)


def simulated_claims(job: Job, objects: Objects) -> Iterator[Create]:
    """The claims of a job that do not exist yet, as typed objects: a simulation has no other."""
    for index, volume in enumerate(_volumes(job) if job.spec.volumes else ()):
        name = _claim_name(job, index, volume)
        known = objects.get(PersistentVolumeClaim, f"{job.metadata.namespace}/{name}")
        if volume.volume_claim is not None and known is None:
            meta = ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=[owner_reference_to(job)])
            spec = convert(volume.volume_claim, PersistentVolumeClaimSpec)
            yield Create(PersistentVolumeClaim(metadata=meta, spec=spec))


def with_volumes(pod: Pod, job: Job) -> Pod:
    if not job.spec.volumes:
        return pod
    for index, volume in enumerate(_volumes(job)):
        source = {"claimName": _claim_name(job, index, volume)}
        pod = with_volume(pod, {"name": f"volume-{index}", "persistentVolumeClaim": source}, volume.mount_path)
    return pod


def _owned_claim(name: str, claim: dict[str, Any]) -> OwnedObject:
    return OwnedObject("v1", "PersistentVolumeClaim", name, lambda: {"spec": claim}, create_only=True)


def _claim_name(job: Job, index: int, volume: _Volume) -> str:
    return volume.volume_claim_name or f"{job.metadata.name}-volume-{index}"


def _volumes(job: Job) -> list[_Volume]:
    try:
        return msgspec.convert(job.spec.volumes, list[_Volume])
    except msgspec.ValidationError as error:
        raise ApiError("spec.volumes", str(error)) from None
