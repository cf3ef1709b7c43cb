"""Whose turn it is, and whether there is time for another."""

from .turns import MayGoOn, Turns

__all__ = ["MayGoOn", "Turns"]
