"""The status of a Deployment: how many pods of which template, and whether a rollout goes on.

`kubectl rollout status` waits until all replicas are updated, no others are left, and all are available. The condition
Progressing says how far that is. When nothing has changed for `progressDeadlineSeconds`, it is False, and nothing else
follows: the controller goes on trying.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec.structs import replace

from stromboli.api import Deployment, DeploymentCondition, DeploymentStatus
from stromboli.api.timestamps import parse_timestamp

from .sets import Sets, surge_and_unavailable

AVAILABLE, PROGRESSING = "Available", "Progressing"
COMPLETE, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_CREATED, _UPDATED, _FOUND = "NewReplicaSetCreated", "ReplicaSetUpdated", "FoundNewReplicaSet"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"


@dataclass(frozen=True, slots=True)
class Present:
    deployment: Deployment
    sets: Sets
    now: float
    stamp: str  # the time as objects hold it
    has_created: bool = False  # a new set, just now


def status_of(present: Present) -> DeploymentStatus:
    deployment, sets = present.deployment, present.sets
    every, new = sets.every, sets.new
    wanted = sum(one.spec.replicas for one in every)
    available = sum(one.status.available_replicas for one in every)
    status = DeploymentStatus(
        observed_generation=deployment.metadata.generation,
        replicas=sum(one.status.replicas for one in every),
        updated_replicas=0 if new is None else new.status.replicas,
        ready_replicas=sum(one.status.ready_replicas for one in every),
        available_replicas=available,
        unavailable_replicas=max(0, wanted - available),
        conditions=list(deployment.status.conditions),
        collision_count=deployment.status.collision_count,
    )
    least = deployment.spec.replicas - surge_and_unavailable(deployment)[1]
    enough = available >= least
    _set(
        status, present, AVAILABLE, "True" if enough else "False",
        "MinimumReplicasAvailable" if enough else "MinimumReplicasUnavailable",
        f"{available} pods are available; at least {least} must be.",
    )  # fmt: skip
    _tell_progress(status, present)
    return status


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    wanted = deployment.spec.replicas
    return (
        wanted == status.updated_replicas == status.replicas == status.available_replicas
        and status.observed_generation >= deployment.metadata.generation
    )


def deadline_of(deployment: Deployment, status: DeploymentStatus) -> float | None:
    """When the rollout has lasted too long; None if that cannot happen."""
    known, limit = condition(status, PROGRESSING), deployment.spec.progress_deadline_seconds
    if deployment.spec.paused or limit is None or known is None or known.reason in (COMPLETE, TIMED_OUT):
        return None
    since = known.last_update_time or known.last_transition_time
    return None if since is None else parse_timestamp(since) + limit


def condition(status: DeploymentStatus, kind: str) -> DeploymentCondition | None:
    return next((one for one in status.conditions if one.type == kind), None)


def _tell_progress(status: DeploymentStatus, present: Present) -> None:
    deployment = present.deployment
    known = condition(status, PROGRESSING)
    reason = "" if known is None else known.reason
    if deployment.spec.progress_deadline_seconds is None:
        return
    if deployment.spec.paused:
        if reason not in (_PAUSED, COMPLETE):
            _set(status, present, PROGRESSING, "Unknown", _PAUSED, "The Deployment is paused.")
        return
    if reason == _PAUSED:
        _set(status, present, PROGRESSING, "Unknown", _RESUMED, "The Deployment goes on.")
        return
    new = present.sets.new
    if present.has_created:
        _set(status, present, PROGRESSING, "True", _CREATED, "There is a new ReplicaSet for the present template.")
        return
    if reason == COMPLETE and new is not None and status.updated_replicas == status.replicas:
        return
    if is_complete(deployment, status) and new is not None:
        message = f"All pods are of ReplicaSet {new.metadata.name} and available."
        _set(status, present, PROGRESSING, "True", COMPLETE, message)
    elif known is None and new is not None:
        _set(status, present, PROGRESSING, "True", _FOUND, f"ReplicaSet {new.metadata.name} has the present template.")
    elif _has_progressed(deployment.status, status) or (reason == COMPLETE and new is not None):
        message = f"{status.updated_replicas} of {deployment.spec.replicas} pods have the present template."
        _set(status, present, PROGRESSING, "True", _UPDATED, message, always=True)
    else:
        deadline = deadline_of(deployment, status)
        if deadline is not None and present.now >= deadline:
            message = f"Nothing has changed for {deployment.spec.progress_deadline_seconds} seconds."
            _set(status, present, PROGRESSING, "False", TIMED_OUT, message)


def _has_progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    return (
        after.updated_replicas > before.updated_replicas
        or after.replicas - after.updated_replicas < before.replicas - before.updated_replicas
        or after.ready_replicas > before.ready_replicas
        or after.available_replicas > before.available_replicas
    )


def _set(
    status: DeploymentStatus,
    present: Present,
    kind: str,
    value: str,
    reason: str,
    message: str,
    *,
    always: bool = False,
) -> None:
    """Write a condition if it says something else than before, or `always`."""
    known = condition(status, kind)
    if known is not None and (known.status, known.reason) == (value, reason) and not always:
        return
    since = known.last_transition_time if known is not None and known.status == value else present.stamp
    made = DeploymentCondition(
        type=kind, status=value, reason=reason, message=message, last_update_time=present.stamp,
        last_transition_time=since,
    )  # fmt: skip
    status.conditions = [made if one is known else one for one in status.conditions]
    if known is None:
        status.conditions.append(replace(made))
