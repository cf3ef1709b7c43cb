"""DaemonSets: a pod on each node that it fits."""

from __future__ import annotations

from .daemon_set_controller import DaemonSetController

__all__ = ["DaemonSetController"]
