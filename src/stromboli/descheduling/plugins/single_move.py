"""A pod moves to the node that the scheduler likes best among those that a plugin allows: a plan of one move."""

from __future__ import annotations

import numpy as np

from stromboli.cluster import Node, Task
from stromboli.descheduling.planning.planned_cluster import Mask
from stromboli.descheduling.run import Run


def seat(run: Run, task: Task, allowed: Mask, *, by: str, goal: str, cooldown: float) -> Node | None:
    """The node that it goes to; None if no node takes it, or the plan has failed before. `goal` may name the
    `{source}` and the `{target}`."""
    source = task.node
    assert source is not None
    mark = run.mark
    open_ = allowed & run.open_targets & run.view.rows_for(task)
    open_[source.row] = False
    score = run.view.session.placement.fitting(task).score
    while open_.any():
        rows = np.flatnonzero(open_)
        best = int(rows[np.argmax(score[rows])])
        target = run.view.nodes.nodes[best]
        if run.try_move(task, target, by=by):
            said = goal.format(source=source.name, target=target.name)
            if run.accept(mark, plugin=by, subject=task.key, goal=said, cooldown=cooldown):
                return target
        open_[best] = False
    return None
