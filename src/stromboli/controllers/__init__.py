"""Controllers: they compare objects with what those objects ask for and return the changes that are missing.

They do no input or output themselves. `ControllerManager` runs all of them; a caller gives it objects and the time
and applies the returned changes. `job` holds the Job controller, the other modules hold one controller each or what
several share.
"""

from __future__ import annotations

from .changes import Change, Create, Delete, EnsureOwned, Notify, Objects, OwnedObject, Probe, Update
from .commands import next_commands
from .job import PodLimits
from .manager import ControllerManager
from .pod_owners import controlling_reference, is_terminating, owner_reference_to, refers_to_job
from .queue_locks import RELOCK_PERIOD, LockRules, QueueLocks
from .reservations import DEFAULT_RETENTION
from .volume_provisioner import VolumeProvisioner

__all__ = [
    "DEFAULT_RETENTION",
    "RELOCK_PERIOD",
    "Change",
    "ControllerManager",
    "Create",
    "Delete",
    "EnsureOwned",
    "LockRules",
    "Notify",
    "Objects",
    "OwnedObject",
    "PodLimits",
    "Probe",
    "QueueLocks",
    "Update",
    "VolumeProvisioner",
    "controlling_reference",
    "is_terminating",
    "next_commands",
    "owner_reference_to",
    "refers_to_job",
]
