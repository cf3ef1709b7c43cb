"""Kinds that an API server may have or not, whatever is installed."""

from .workload_groups import served_workload_groups, watch_workload_groups

__all__ = ["served_workload_groups", "watch_workload_groups"]
