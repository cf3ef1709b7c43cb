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

from stromboli.api import Job, JobVolume, ObjectMeta, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod
from stromboli.api.validation.conversion import convert
from stromboli.controllers.changes import Create, Objects, OwnedObject
from stromboli.controllers.job.plugins.containers import with_volume
from stromboli.controllers.pod_owners import owner_reference_to


def check_volumes(job: Job) -> None:
    for index, volume in enumerate(job.spec.volumes):
        if volume.volume_claim is not None:
            convert(volume.volume_claim, PersistentVolumeClaimSpec, at=f"spec.volumes[{index}].volumeClaim")


def volume_claims(job: Job) -> Iterator[OwnedObject]:
    for index, volume in enumerate(job.spec.volumes):
        claim = volume.volume_claim
        if claim is not None:
            yield _owned_claim(_claim_name(job, index, volume), claim)


def simulated_claims(job: Job, objects: Objects) -> Iterator[Create]:
    """The claims of a job that do not exist yet, as typed objects: a simulation has no other."""
    for index, volume in enumerate(job.spec.volumes):
        name = _claim_name(job, index, volume)
        known = objects.get(PersistentVolumeClaim, f"{job.metadata.namespace}/{name}")
        if volume.volume_claim is not None and known is None:
            meta = ObjectMeta(name=name, namespace=job.metadata.namespace, owner_references=[owner_reference_to(job)])
            spec = convert(volume.volume_claim, PersistentVolumeClaimSpec)
            yield Create(PersistentVolumeClaim(metadata=meta, spec=spec))


def with_volumes(pod: Pod, job: Job) -> Pod:
    if not job.spec.volumes:
        return pod
    for index, volume in enumerate(job.spec.volumes):
        source = {"claimName": _claim_name(job, index, volume)}
        pod = with_volume(pod, {"name": f"volume-{index}", "persistentVolumeClaim": source}, volume.mount_path)
    return pod


def _owned_claim(name: str, claim: dict[str, Any]) -> OwnedObject:
    return OwnedObject("v1", "PersistentVolumeClaim", name, lambda: {"spec": claim}, create_only=True)


def _claim_name(job: Job, index: int, volume: JobVolume) -> str:
    return volume.volume_claim_name or f"{job.metadata.name}-volume-{index}"
