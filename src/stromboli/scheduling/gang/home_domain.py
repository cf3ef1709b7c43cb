"""The domain that a single task must be in, because the others of its group are there already.

For whoever places tasks one by one: promises that are completed, pods without requests, moves, explanations. Groups as
a whole are placed by `close_placement`.
"""

from __future__ import annotations

from collections.abc import Iterable

from stromboli.cluster import Job, Task
from stromboli.cluster.topology import Closeness, Domain, sub_groups
from stromboli.scheduling.framework import Framework
from stromboli.scheduling.topology import allowed_tiers, home_domains, tree_for

from .sub_group_line import placed_rows


def is_close(job: Job) -> bool:
    """Whether it matters which other tasks are where a task of this job is."""
    layout = job.layout
    return layout is not None and (bool(layout.policies) or (layout.closeness is not None and layout.closeness.hard))


def home_domain(session: Framework, task: Task) -> Domain | None:
    """The widest one that a hard group or sub-group may still use; None if nothing binds the task."""
    job = task.job
    if job is None or job.layout is None:
        return None
    group = sub_groups(job).of_task.get(task.key)
    homes = [_home(session, job.layout.closeness, job.tasks.values())]
    homes += [] if group is None else [_home(session, group.policy.closeness, group.tasks)]
    return min((home for home in homes if home is not None), key=lambda home: len(home.rows), default=None)


def domain_to_stay_in(session: Framework, task: Task) -> Domain | None:
    """Where a task that runs may be moved to: in the home domain of a hard group, and of a soft one in the narrowest
    domain that has all of it, so that it never comes to be of a higher tier. None: anywhere."""
    job = task.job
    if job is None or job.layout is None:
        return None
    group = sub_groups(job).of_task.get(task.key)
    asked = [(job.layout.closeness, tuple(job.tasks.values()))]
    asked += [] if group is None else [(group.policy.closeness, group.tasks)]
    found = [home_domain(session, task)]
    for closeness, members in asked:
        rows = placed_rows(members)
        if closeness is not None and not closeness.hard and len(rows) > 1:
            found.append(tree_for(session, closeness).around(rows))
    return min((domain for domain in found if domain is not None), key=lambda domain: len(domain.rows), default=None)


def _home(session: Framework, closeness: Closeness | None, members: Iterable[Task]) -> Domain | None:
    if closeness is None or not closeness.hard:
        return None
    members = list(members)
    nodes = session.nodes.by_name
    rows = placed_rows(members) + [nodes[task.nominated].row for task in members if task.nominated in nodes]
    if not rows:
        return None
    tree = tree_for(session, closeness)
    homes = home_domains(tree, allowed_tiers(tree, closeness), rows)
    return homes[-1] if homes else None
