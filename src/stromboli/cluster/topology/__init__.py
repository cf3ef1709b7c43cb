"""Which nodes are close together, and what groups ask for.

`tree` has the domains of nodes, `layout` what a group asks for, and `sub_groups` which of its tasks belong together.
"""

from .layout import Closeness, Layout, SubGroupPolicy, layout_of
from .sub_groups import NO_SUB_GROUPS, SubGroup, SubGroups, sub_groups
from .tree import NO_TREE, Domain, Rows, Tree

__all__ = [
    "NO_SUB_GROUPS",
    "NO_TREE",
    "Closeness",
    "Domain",
    "Layout",
    "Rows",
    "SubGroup",
    "SubGroupPolicy",
    "SubGroups",
    "Tree",
    "layout_of",
    "sub_groups",
]
