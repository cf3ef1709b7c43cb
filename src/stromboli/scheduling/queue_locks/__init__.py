"""Nodes locked for queues, as the scheduler sees them.

The controllers choose the nodes (`stromboli.controllers.queue_locks`) and write them into the status of the Queue. Here
the choice is honoured. `locks_in_force` says which of them count in this cycle and enters them in the ledger, `books`
what that means for guarantees, limits and reclaim, `evictions` clears nodes of queues with the policy Guaranteed, and
the plugin `node_reservation` closes the nodes to others. `lock_arguments` reads the plugin's arguments.
"""

from .books import LockBooks
from .evictions import clear_locked_nodes
from .lock_arguments import LockRules, lock_rules
from .locks_in_force import lock_nodes

__all__ = [
    "LockBooks",
    "LockRules",
    "clear_locked_nodes",
    "lock_nodes",
    "lock_rules",
]
