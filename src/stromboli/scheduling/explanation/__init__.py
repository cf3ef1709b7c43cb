"""Why jobs wait: reason codes and sentences, and the notes that actions leave.

`reasons` and the modules that end with it hold every sentence a user reads about a waiting pod, `notes` what actions
found out about each job. `stromboli.scheduling.conclusion` turns both into conditions and statuses at the end of a
cycle. `orphans` covers pods and groups that no session sees.
"""

from .conditions.waiting_clock import waiting_counts, waiting_since
from .notes import JobNote, Notes
from .orphans import orphans
from .reasons import Code

__all__ = ["Code", "JobNote", "Notes", "orphans", "waiting_counts", "waiting_since"]
