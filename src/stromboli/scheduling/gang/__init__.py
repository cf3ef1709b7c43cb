"""The tasks of one job, placed together: as many as the job needs to start, or none.

`gang_placement` places them, `best_effort` those without requests, `readiness` says how far a job is from starting,
`tentative_places` keeps what a job that cannot start was tried with, and `failed_attempts` knows from one cycle to the
next which attempts are of no use. `small_jobs` is a short cut for jobs of one task.
"""

from .best_effort import complete_with_best_effort
from .eligibility import is_eligible
from .failed_attempts import FailedAttempts
from .gang_placement import place_gang, start_gang
from .readiness import complete, condition_ready, conditionally_ready, reserved_tasks
from .small_jobs import SmallJobs
from .tentative_places import TentativePlaces

__all__ = [
    "FailedAttempts",
    "SmallJobs",
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
