"""Runs the containers of pods as processes of this machine: one machine becomes a batch queue.

process_runner      pods from the API server, their folders, and their status back
pod_run             one pod: init containers, containers, its end
container_run       one container over its restarts: hooks, probes
sandbox_process     one program in a sandbox of its own
container           what a container is as a process: command, limits, and what cannot be had here
environment         its variables
volumes             its files
pod_objects         the ConfigMaps and Secrets that a pod names
addresses, names    who is found where
service_forwarder   the ports of services
restarts            after which pause a container is started again
probes              whether a container has started, is ready, and lives
memory_groups       limits of memory by control groups
pod_status          what the status of a pod says
logs                what the programs wrote
"""

from .logs import ProcessLogs
from .process_runner import ProcessRunner

__all__ = ["ProcessLogs", "ProcessRunner"]
