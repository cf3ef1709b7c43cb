"""The rules that objects must follow. `validate` checks an object, `validate_update` a change of one, and
`validate_queue_tree` a queue among the others, and `validate_submission` whether a queue accepts a Job or PodGroup.

`objects` dispatches by kind, `batch` and `pods` hold the rules of their kinds, and `rules` the checks that they share.
"""

from __future__ import annotations

from .objects import validate, validate_update
from .queue_tree import validate_queue_tree
from .submission import validate_submission

__all__ = ["validate", "validate_queue_tree", "validate_submission", "validate_update"]
