"""One attempt: a job is tried by one way.

The rule is `gang.place_gang`: tasks are placed until the job can start. `Attempts` takes jobs turn by turn,
`make_ready` is all or nothing, and `FailedAttempts.once` is for attempts of another kind. Behind these calls are short
cuts; each says when it gives the same answer as the rule, and a property test compares the two. `failed_attempts` knows
what failed from one cycle to the next. `enough_places` counts before anything is placed. With `job_kinds`, what is
known of one job is known of all that are alike. `small_jobs` places jobs of one task without what only gangs need.
"""

from .attempts import ALLOCATE, BACKFILL, LEND, Attempts, Outcome, Way, make_ready, requesting, start_instead
from .failed_attempts import FailedAttempts
from .job_kinds import JobKinds

__all__ = [
    "ALLOCATE",
    "BACKFILL",
    "LEND",
    "Attempts",
    "FailedAttempts",
    "JobKinds",
    "Outcome",
    "Way",
    "make_ready",
    "requesting",
    "start_instead",
]
