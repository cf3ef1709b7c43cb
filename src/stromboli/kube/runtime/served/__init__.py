"""Kinds that an API server may have or not, whatever is installed."""

from .node_metrics import measure_nodes
from .optional_kinds import OF_PODS, served_optional_kinds, watch_optional_kinds

__all__ = ["OF_PODS", "measure_nodes", "served_optional_kinds", "watch_optional_kinds"]
