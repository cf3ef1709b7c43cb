"""What the scheduler knows of claims and volumes, and the binds that wait for them."""

from .held_bind import HeldBind
from .volume_index import INLINE, VolumeIndex

__all__ = ["INLINE", "HeldBind", "VolumeIndex"]
