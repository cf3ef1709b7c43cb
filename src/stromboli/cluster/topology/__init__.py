"""Which nodes are close together, and what groups ask for.

`tree` has the domains of nodes. They are made from HyperNodes (`hyper_nodes`, whose `members` are nodes) or from labels
of nodes (`labels`), and `topology` keeps them for a cluster. `layout` is what a group asks for, and `sub_groups` which
of its tasks belong together.
"""

from .hyper_nodes import Problem, Resolved, resolve
from .labels import by_labels
from .layout import Closeness, Layout, SubGroupPolicy, layout_of
from .members import Members, PatternMatches
from .sub_groups import NO_SUB_GROUPS, SubGroup, SubGroups, sub_groups
from .topology import Topology
from .tree import NO_TREE, Domain, Rows, Tree

__all__ = [
    "NO_SUB_GROUPS",
    "NO_TREE",
    "Closeness",
    "Domain",
    "Layout",
    "Members",
    "PatternMatches",
    "Problem",
    "Resolved",
    "Rows",
    "SubGroup",
    "SubGroupPolicy",
    "SubGroups",
    "Topology",
    "Tree",
    "by_labels",
    "layout_of",
    "resolve",
    "sub_groups",
]
