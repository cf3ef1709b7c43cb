"""HyperNodes as objects: `status_controller` reports on them, and `discovery` makes them from labels of nodes."""

from .domains_from_labels import HyperNodeDiscovery
from .status_controller import HyperNodeController

__all__ = ["HyperNodeController", "HyperNodeDiscovery"]
