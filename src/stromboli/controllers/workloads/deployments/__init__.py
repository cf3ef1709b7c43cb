"""Deployments: ReplicaSets with the present and earlier templates, and how pods pass from one to the next."""

from __future__ import annotations

from .deployment_controller import DeploymentController

__all__ = ["DeploymentController"]
