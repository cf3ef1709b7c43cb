"""The tasks of one job, placed together: as many as the job needs to start, or none.

`gang_placement` places them, `close_placement` in domains if they must be close together, in the order of
`sub_group_line`. `task_placement` has the sources of places, `node_sources` those on nodes; `best_effort` places those
without requests, `readiness` says how far a job is from starting, `tentative_places` keeps what a job that cannot start
was tried with. `nominated_tasks` is a short cut for gangs that pods were evicted for.
`kept_places` says who chooses first where places are kept for several tasks. `empty_nodes` knows which gangs could not
start even if nothing else ran, `half_gangs` which of them have some pods on nodes and lack others. `spare_pods` says
whether pods of a gang may leave.
"""

from .best_effort import complete_with_best_effort
from .eligibility import is_eligible
from .empty_nodes import EmptyNodes, first_beyond_cluster, missing_pods
from .gang_placement import place_afresh, place_gang
from .half_gangs import HalfGangs, holds_nodes, is_half_gang, reached_minimum
from .home_domain import domain_to_stay_in, home_domain, is_close
from .kept_places import by_choices, promised_first, with_choices
from .nominated_tasks import promise_rooms
from .readiness import complete, condition_ready, conditionally_ready, reserved_tasks, sub_groups_reach
from .spare_pods import Shortage, shortage
from .sub_group_line import (
    PLACED,
    STARTED,
    WaitingTasks,
    can_spare,
    is_whole,
    lacking_groups,
    missing_members,
    needed_groups,
    next_groups,
    placed_rows,
    waiting_members,
    whole_groups,
)
from .task_placement import alike, allowed_by_queue, missing_tasks, place_on_open_nodes
from .tentative_places import TentativePlaces

__all__ = [
    "PLACED",
    "STARTED",
    "EmptyNodes",
    "HalfGangs",
    "Shortage",
    "TentativePlaces",
    "WaitingTasks",
    "alike",
    "allowed_by_queue",
    "by_choices",
    "can_spare",
    "complete",
    "complete_with_best_effort",
    "condition_ready",
    "conditionally_ready",
    "domain_to_stay_in",
    "first_beyond_cluster",
    "holds_nodes",
    "home_domain",
    "is_close",
    "is_eligible",
    "is_half_gang",
    "is_whole",
    "lacking_groups",
    "missing_members",
    "missing_pods",
    "missing_tasks",
    "needed_groups",
    "next_groups",
    "place_afresh",
    "place_gang",
    "place_on_open_nodes",
    "placed_rows",
    "promise_rooms",
    "promised_first",
    "reached_minimum",
    "reserved_tasks",
    "shortage",
    "sub_groups_reach",
    "waiting_members",
    "whole_groups",
    "with_choices",
]
