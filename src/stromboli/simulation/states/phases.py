"""How far an object is: what counts as progress when it changes.

Messages change from cycle to cycle, because they say how long something waits. If that were progress, no run would end.
"""

from __future__ import annotations

from stromboli.api import Job, KObject, PersistentVolume, PersistentVolumeClaim, Pod, PodGroup, Queue, Reservation
from stromboli.api.volumes.provisioning import failed_attempts


def phase_of(obj: KObject | None) -> str:
    match obj:
        case Pod() | PodGroup():
            return obj.status.phase
        case Reservation():
            return f"{obj.status.phase} {obj.status.node_name} {obj.status.allocated}"
        case Job():
            return f"{obj.status.state.phase} {obj.status.version}"
        case PersistentVolumeClaim():
            return f"{obj.status.phase} {failed_attempts(obj)}"
        case PersistentVolume():
            return obj.status.phase
        case Queue():
            return f"{obj.status.state} {obj.status.reservation.nodes} {obj.status.reservation.evicting}"
        case _:
            return ""
