"""Nodes that the descheduler has emptied come last for a while.

Otherwise scores that prefer idle nodes would put pods back at once. The node's annotations say until when, and for
which job it was emptied: that one may use it.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Final

import numpy as np

from stromboli.api import names
from stromboli.api.timestamps import parse_timestamp
from stromboli.cluster import Task
from stromboli.scheduling.callbacks import NodeScore, Rows, Scope, Scores
from stromboli.scheduling.session import Session

FEATURE: Final = "moves"
LAST: Final = -1e9  # outweighs every other score


def open_emptied_nodes(session: Session) -> None:
    emptied: dict[int, str] = {}  # by row: the group that it was emptied for, or ""
    for node in session.nodes.nodes:
        notes = node.object.metadata.annotations
        if names.EMPTIED_FOR not in notes:
            continue
        until = _time(notes.get(names.COOLDOWN_UNTIL, ""))
        if until is not None and session.now < until:
            session.due_at(until)
            emptied[node.row] = notes[names.EMPTIED_FOR]
    if not emptied:
        return

    def prepare(task: Task) -> NodeScore | None:
        closed = [row for row, group in emptied.items() if not _is_of(task, group)]
        if not closed:
            return None
        scores = np.zeros(len(session.nodes), dtype=np.float64)
        scores[closed] = LAST

        def rate(rows: Rows) -> Scores:
            return scores[rows]

        return rate

    def key(task: Task) -> Hashable:
        return tuple(row for row, group in emptied.items() if _is_of(task, group))

    with session.registering(FEATURE):
        session.add_score(prepare, scope=Scope.STATIC, depends_on=key)


def _is_of(task: Task, group: str) -> bool:
    return task.job is not None and bool(group) and str(task.job.key) == group


def _time(text: str) -> float | None:
    try:
        return parse_timestamp(text)
    except ValueError:
        return None
