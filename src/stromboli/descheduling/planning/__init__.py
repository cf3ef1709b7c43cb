"""Plans: which pods leave which nodes, and where they go.

moves         a move and a plan
objects       what plans read beside the cluster
view          the cluster as plans change it, tentatively and with the scheduler's own predicates
cooldowns     nodes and groups that rest after a move
failed_plans  what must change before a plan that failed is made again
ordered_sets  StatefulSets whose pods start one after another
disruptions   gangs and disruption budgets, with everything that is planned so far
real_use      what pods really use
anomalies     how long a node has been overloaded
picture       a plan as text, with the nodes before and after
"""

from .anomalies import Anomalies, AnomalyCondition
from .cooldowns import Cooldowns, cooldown_of, resting_until
from .disruptions import Disruptions
from .failed_plans import Circumstances, with_mark
from .ordered_sets import OrderedSets
from .plan import Move, Place, Plan, Removal
from .plan_objects import Objects
from .planned_cluster import View
from .real_use import RealUse, use_annotation

__all__ = [
    "Anomalies",
    "AnomalyCondition",
    "Circumstances",
    "Cooldowns",
    "Disruptions",
    "Move",
    "Objects",
    "OrderedSets",
    "Place",
    "Plan",
    "RealUse",
    "Removal",
    "View",
    "cooldown_of",
    "resting_until",
    "use_annotation",
    "with_mark",
]
