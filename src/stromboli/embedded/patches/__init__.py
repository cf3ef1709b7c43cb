"""The four kinds of patches, and who owns which fields."""

from .errors import PatchError, PatchFailed
from .json_patch import apply_json_patch
from .managed_fields import Manager, record_update
from .server_side_apply import ApplyConflict, apply, merge_applied
from .strategic_merge import apply_strategic_merge

__all__ = [
    "ApplyConflict",
    "Manager",
    "PatchError",
    "PatchFailed",
    "apply",
    "apply_json_patch",
    "apply_strategic_merge",
    "merge_applied",
    "record_update",
]
