"""What the scheduler knows of claims and volumes, and the binds that wait for them."""

from .held_bind import HELD, FormerHold, HeldBind, about_room, former_hold
from .volume_index import INLINE, VolumeIndex

__all__ = ["HELD", "INLINE", "FormerHold", "HeldBind", "VolumeIndex", "about_room", "former_hold"]
