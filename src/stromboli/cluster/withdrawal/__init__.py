"""Objects that are put aside, because our code failed while it handled them."""

from .withdrawn_objects import Withdrawal, WithdrawnObject, remainder

__all__ = ["Withdrawal", "WithdrawnObject", "remainder"]
