"""Plans: which pods leave which nodes, and where they go.

moves         a move and a plan
view          the cluster as plans change it, tentatively and with the scheduler's own predicates
cooldowns     nodes and groups that rest after a move
disruptions   gangs and disruption budgets, with everything that is planned so far
real_use      what pods really use
anomalies     how long a node has been overloaded
picture       a plan as text, with the nodes before and after
"""

from .anomalies import Anomalies, AnomalyCondition
from .cooldowns import Cooldowns, cooldown_of, resting_until
from .disruptions import Disruptions
from .moves import Move, Place, Plan
from .real_use import RealUse, use_annotation
from .view import Objects, View

__all__ = [
    "Anomalies",
    "AnomalyCondition",
    "Cooldowns",
    "Disruptions",
    "Move",
    "Objects",
    "Place",
    "Plan",
    "RealUse",
    "View",
    "cooldown_of",
    "resting_until",
    "use_annotation",
]
