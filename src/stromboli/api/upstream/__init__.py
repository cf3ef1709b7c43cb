"""Kubernetes' own PodGroups, shown as groups of our kind.

The program knows one kind of group, Volcano's PodGroup. A PodGroup of `scheduling.k8s.io` means much the same in other
words, so it is translated once, where it comes in (`as_pod_group`), and what is decided about it is translated back
where it is written (`conditions`). In between it is an `UpstreamGroup`.
"""

from .conditions import conditions_to_write, with_status
from .groups import (
    COMPOSITE_SUFFIX,
    SUFFIX,
    Part,
    UpstreamGroup,
    as_pod_group,
    as_written,
    plain_name,
    shown_key,
    translated,
    translated_place,
    with_minimum,
    written_type,
)
from .reading import (
    COMPOSITE_INITIALLY_SCHEDULED,
    DISRUPTION_TARGET,
    INITIALLY_SCHEDULED,
    OF_KUBERNETES,
    PREFIX,
    QUEUE,
    said_queue,
)

__all__ = [
    "COMPOSITE_INITIALLY_SCHEDULED",
    "COMPOSITE_SUFFIX",
    "DISRUPTION_TARGET",
    "INITIALLY_SCHEDULED",
    "OF_KUBERNETES",
    "PREFIX",
    "QUEUE",
    "SUFFIX",
    "Part",
    "UpstreamGroup",
    "as_pod_group",
    "as_written",
    "conditions_to_write",
    "plain_name",
    "said_queue",
    "shown_key",
    "translated",
    "translated_place",
    "with_minimum",
    "with_status",
    "written_type",
]
