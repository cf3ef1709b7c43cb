"""The descheduler: it moves pods to other nodes, and evicts one only when its successor has a place to go.

descheduler   runs profiles, carries on moves
policy        the policy file
registry      plugins by name
strategy      the base classes of plugins that make plans
plugin        the base class of all plugins, and of evictor plugins
run           what plugins plan with
planning      plans, and the simulated cluster that they are made on
evictor       which pods must stay
plugins       the built-in ones
migration         moves as they are carried out
node_protection   nodes that autoscalers must not remove

Nothing here does input or output: objects and the time in, writes out.
"""

from .descheduler import Descheduler
from .migration import Write
from .planning import Move, Plan
from .plugin import EvictorPlugin
from .policy import Policy
from .registry import Registry, warnings_about
from .run import Options, Run
from .strategy import BalancePlugin, DeschedulePlugin

__all__ = [
    "BalancePlugin",
    "DeschedulePlugin",
    "Descheduler",
    "EvictorPlugin",
    "Move",
    "Options",
    "Plan",
    "Policy",
    "Registry",
    "Run",
    "Write",
    "warnings_about",
]
