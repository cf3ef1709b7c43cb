"""What is special about each kind: defaults, rules, columns. `builtin` lists the built-in kinds, `definitions` makes
types from CustomResourceDefinitions."""

from .builtin import builtin_resources
from .cluster_kinds import NAMESPACE_FINALIZER
from .definitions import CLEANUP_FINALIZER, defined_types
from .strategy import Column, Context, Object, ResourceType, Strategy, dig

__all__ = [
    "CLEANUP_FINALIZER",
    "NAMESPACE_FINALIZER",
    "Column",
    "Context",
    "Object",
    "ResourceType",
    "Strategy",
    "builtin_resources",
    "defined_types",
    "dig",
]
