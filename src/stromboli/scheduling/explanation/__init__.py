"""Why jobs wait: reason codes and sentences, notes that actions leave, and the conclusion of a cycle.

`reasons` holds every sentence a user reads, `notes` what actions found out about each job, `conclusion` turns both into
conditions and statuses at the end of a cycle. `orphans` covers pods and groups that no session sees.
"""

from .conclusion import conclude
from .histogram import Histogram
from .notes import JobNote, Notes
from .orphans import orphans
from .reasons import Code
from .waiting_clock import WAITING, waiting_since

__all__ = ["WAITING", "Code", "Histogram", "JobNote", "Notes", "conclude", "orphans", "waiting_since"]
