"""Objects that are put aside, because our code failed while it handled them.

The scheduler decides as if such an object did not exist: everything that walks over jobs, queues or Reservations knows
what to do without one, because users may delete it at any time. A PodGroup takes no pods with it, so those that run
keep their room. Events about the object are kept here until it returns, so that it comes back as it is by then.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from msgspec.structs import replace as changed

from stromboli.api import KObject, Reservation, key
from stromboli.cluster.events import Applied, Deleted
from stromboli.containment import ObjectRef


@dataclass(frozen=True, slots=True)
class WithdrawnObject:
    object: KObject
    entirely: bool


class Withdrawal:
    def __init__(self) -> None:
        self.objects: dict[ObjectRef, WithdrawnObject] = {}

    def __bool__(self) -> bool:
        return bool(self.objects)

    def keeps(self, event: Applied | Deleted) -> bool:
        """Whether the event is about a withdrawn object, and all that it changes is kept here."""
        ref = ObjectRef(event.object.kind, key(event.object))
        known = self.objects.get(ref)
        if known is None:
            return False
        if isinstance(event, Deleted):
            del self.objects[ref]
            # What remains of it in the cluster goes with it.
            return known.entirely or remainder(known.object) is None
        self.objects[ref] = replace(known, object=event.object)
        return True


def remainder(obj: KObject) -> KObject | None:
    """What stays of an object that is put aside, but not entirely: a Reservation with a node goes on to hold its room,
    without owners who could use it."""
    if isinstance(obj, Reservation) and obj.status.node_name:
        return changed(obj, spec=changed(obj.spec, owners=[]))
    return None
