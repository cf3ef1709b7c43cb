"""What Kubernetes leaves to controllers: garbage collection, namespaces, definitions, events, disruption budgets,
ReplicaSets and Jobs."""

from .upkeep import Upkeep

__all__ = ["Upkeep"]
