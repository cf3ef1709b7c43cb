"""How far objects are: phases, whose changes are progress, and containers that end and start again."""

from __future__ import annotations

from .container_restarts import ContainerRestarts, ended_status, running_again, starts_again, waiting_status
from .phases import phase_of

__all__ = ["ContainerRestarts", "ended_status", "phase_of", "running_again", "starts_again", "waiting_status"]
