"""Runs the containers of pods as processes of this machine: one machine becomes a batch queue.

process_runner   pods from the API server, their processes, and their status back
container        one container as a process: command, environment, limits
logs             what the processes wrote
"""

from .logs import ProcessLogs
from .process_runner import ProcessRunner

__all__ = ["ProcessLogs", "ProcessRunner"]
