"""Which nodes are close together, and what groups ask for.

`tree` has the domains of nodes.
"""

from .tree import NO_TREE, Domain, Rows, Tree

__all__ = ["NO_TREE", "Domain", "Rows", "Tree"]
