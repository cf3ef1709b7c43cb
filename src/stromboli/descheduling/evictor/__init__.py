"""The default evictor: which pods must stay where they are.

default_evictor   the filters, in order
owners            who replaces a pod, and whether that owner is at rest
"""

from .default_evictor import DefaultEvictor

__all__ = ["DefaultEvictor"]
