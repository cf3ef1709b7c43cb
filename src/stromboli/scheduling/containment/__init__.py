"""One job must not stop the others: a cycle that goes on after an error.

A session can be thrown away at any time: what it only tried is undone by the next snapshot, and what it committed is
decided. So there is one way to undo an error, wherever it happened. The session ends, the object that the error is
charged to is withdrawn from the cluster, and a new session goes on with all others. An error inside a commit, or one
that nobody can be charged with, ends the cycle; the world then builds its state again.

    attribution      whom an error is charged to
    contained_cycle  the sessions of one cycle
    copied_cluster   cycles on copies of a live cluster
    put_aside_said   what users are told
    time_limit       when a cycle is cut

The alternative is to undo one turn inside the session, by the statements that it left open. It would spare a session
for each error, but an error may also leave caches, books and half-made plans behind, and a session that goes on with
these decides wrongly for others without anybody noticing.
"""

from .contained_cycle import Aside, CycleInputs, CycleObserver, NotContained, run_contained
from .copied_cluster import CopiedScheduler
from .time_limit import RecordedCuts, TimeLimit

__all__ = [
    "Aside",
    "CopiedScheduler",
    "CycleInputs",
    "CycleObserver",
    "NotContained",
    "RecordedCuts",
    "TimeLimit",
    "run_contained",
]
