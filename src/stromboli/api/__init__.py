"""What users write: typed Kubernetes objects (`kinds`), their defaults, and the rules they must follow (`validation`).

Everything about objects can be imported from here. The modules `names` (labels and annotations), `quantity`,
`selectors`, `timestamps`, `pod_requests`, `pod_timing`, `reservations`, `upstream` and `waiting_reservations` are
public as well.
"""

from __future__ import annotations

from . import kinds as _kinds
from . import names
from .decoder import decode, decode_json
from .defaults import default
from .errors import ApiError
from .generated_groups import generated_group_name, is_generated_group
from .kinds import *  # noqa: F403
from .merge_patch import merge_patch
from .pod_annotations import (
    awaits_queue,
    group_name_of,
    is_backfill,
    is_marked_lent,
    names_two_groups,
    opts_in_to_queue_gate,
    with_queue_gate,
    without_queue_gate,
)
from .unknown_fields import unknown_field
from .validation import validate, validate_queue_tree, validate_submission, validate_update
from .warnings import fields_without_effect, warnings_about

__all__ = [
    "ApiError",
    "awaits_queue",
    "decode",
    "decode_json",
    "default",
    "fields_without_effect",
    "generated_group_name",
    "group_name_of",
    "is_backfill",
    "is_generated_group",
    "is_marked_lent",
    "merge_patch",
    "names",
    "names_two_groups",
    "opts_in_to_queue_gate",
    "unknown_field",
    "validate",
    "validate_queue_tree",
    "validate_submission",
    "validate_update",
    "warnings_about",
    "with_queue_gate",
    "without_queue_gate",
]
__all__ += _kinds.__all__
