"""The tasks of one job, placed together: as many as the job needs to start, or none.

`gang_placement` places them, `best_effort` those without requests, `readiness` says how far a job is from starting, and
`tentative_places` keeps what a job that cannot start was tried with.
"""

from .best_effort import complete_with_best_effort
from .eligibility import is_eligible
from .gang_placement import place_gang, start_gang
from .readiness import complete, condition_ready, conditionally_ready, reserved_tasks
from .tentative_places import TentativePlaces

__all__ = [
    "TentativePlaces",
    "complete",
    "complete_with_best_effort",
    "condition_ready",
    "conditionally_ready",
    "is_eligible",
    "place_gang",
    "reserved_tasks",
    "start_gang",
]
