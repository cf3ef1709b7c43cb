"""What Reservations hold, counted in the ledger."""

from .holding_books import Holding, HoldingBooks

__all__ = ["Holding", "HoldingBooks"]
