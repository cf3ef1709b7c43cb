"""What Reservations hold, and what jobs and queues have: the parts of the ledger that need no columns of
statuses. And views of what has changed there, for whoever keeps an answer."""

from .holding_books import Holding
from .job_books import JobBooks
from .ledger_views import JointView, LedgerViews, LogView, Moment, View

__all__ = ["Holding", "JobBooks", "JointView", "LedgerViews", "LogView", "Moment", "View"]
