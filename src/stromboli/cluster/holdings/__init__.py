"""What Reservations hold, and what jobs and queues have: the parts of the ledger that need no columns of statuses."""

from .holding_books import Holding
from .job_books import JobBooks

__all__ = ["Holding", "JobBooks"]
