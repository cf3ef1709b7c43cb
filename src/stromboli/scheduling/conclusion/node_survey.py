"""All nodes, as one kind of pod finds them at the end of a cycle: available, or why not.

Each node is counted once, so the numbers of a sentence add up to the nodes there are. A node that has room for a pod
now is available, also if the room is not enough for a whole gang.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from stromboli.cluster import PODS, Job, Matrix, Status, Task
from stromboli.scheduling.explanation import Code, reasons
from stromboli.scheduling.explanation.display_names import display_name
from stromboli.scheduling.explanation.node_reasons import (
    HELD_BY_RESERVATIONS,
    TOO_MANY_PODS,
    insufficient,
    kept_for,
    released_to,
)
from stromboli.scheduling.explanation.topology_reasons import domain_name
from stromboli.scheduling.placement import Fitting
from stromboli.scheduling.session import Session

from .final_books import FinalBooks

Mask = npt.NDArray[np.bool_]
_PLACES = frozenset({Status.PIPELINED, Status.ALLOCATED, Status.RESERVED})
"""Statuses of tasks that wait, and for which room is kept."""


@dataclass(frozen=True, slots=True)
class NodeSurvey:
    nodes: int  # the number of all nodes, or of those of one domain
    available: int  # nodes with room for a pod
    counts: dict[tuple[str, str], int]  # the others by (code, phrase)
    fit_now: int  # how many pods of this kind have room together
    # Available nodes that filters reject for the next pod of a gang once the others are placed, by (code, phrase).
    for_the_next: dict[tuple[str, str], int] = field(default_factory=dict)
    domain: str = ""  # what users call the domain; "" for all nodes

    @property
    def dominant(self) -> str:
        """The code that stands on the most nodes."""
        by_code: dict[str, int] = {}
        for (code, _), number in self.counts.items():
            by_code[code] = by_code.get(code, 0) + number
        if not by_code:
            return Code.INSUFFICIENT_NODE
        return min(by_code, key=lambda code: (-by_code[code], _rank(code), code))

    @property
    def ranked(self) -> list[tuple[tuple[str, str], int]]:
        """The counts, the largest first."""
        return sorted(self.counts.items(), key=lambda entry: (-entry[1], _rank(entry[0][0]), entry[0]))

    def sentence(self, *, gang: bool = False) -> str:
        counts = [(phrase, number) for (_, phrase), number in self.counts.items()]
        then = [(phrase, number) for (_, phrase), number in self.for_the_next.items()]
        return reasons.node_counts(
            self.nodes, self.available, counts, gang=gang, for_the_next=then, domain=self.domain
        )  # fmt: skip


def _rank(code: str) -> int:
    order = reasons.DOMINANT_AT_A_TIE
    return order.index(code) if code in order else len(order)


class NodeSurveys:
    """The surveys of a session, one for each kind of task; of all nodes, or of the domain that is looked at. The ledger
    must not change meanwhile, but for trials that are undone."""

    def __init__(self, session: Session, books: FinalBooks) -> None:
        self._session = session
        self._books = books
        self._known: dict[Hashable, NodeSurvey] = {}
        self._kept: dict[int, dict[str, Job]] | None = None  # by row, jobs with a place there that is not settled

    def of(self, task: Task) -> NodeSurvey:
        job = task.job
        # Jobs with reserved room see more than others do, and room that is promised to a job is its own.
        holder = job.key if job is not None and (job.counts[Status.RESERVED] or job.waiting_count) else None
        domain = self._session.domain
        inside = None if domain is None else (domain.tier, domain.name)
        key = (self._session.placement.key(task), holder, inside)
        survey = self._known.get(key)
        if survey is None:
            survey = self._known[key] = self._survey(task)
        return survey

    def _survey(self, task: Task) -> NodeSurvey:
        session = self._session
        fitting = session.placement.fitting(task)
        counts = rejected(session, fitting)
        left = fitting.mask.copy()
        if session.ledger.in_transit:
            # If the pod could have what terminating pods use there, it would be promised to it.
            idle = self._books.idle
            later = left & ~fitting.has_room(idle) & fitting.has_room(idle + session.nodes.releasing)
            if later.any():
                names, own = self._owners(later, task)
                counts[released_to(names, own=own)] = int(later.sum())
            left &= ~later
        if session.ledger.holdings:
            idle = self._books.idle
            held = left & ~fitting.has_room(idle) & fitting.has_room(idle + session.nodes.held)
            if held.any():
                counts[HELD_BY_RESERVATIONS] = int(held.sum())
            left &= ~held
        for name, column in session.axis.by_name():
            requested = int(fitting.request[column])
            if requested == 0:
                continue
            short = left & (self._books.idle[:, column] < requested)
            if short.any():
                idle = self._books.idle[short, column]
                with_held = int((np.maximum(idle, 0) + session.nodes.held[short, column]).max())
                most = int(idle.max())
                shown = task.shape.shown(name, column)
                pair = TOO_MANY_PODS if column == PODS else insufficient(*shown, most, with_held)
                counts[pair] = int(short.sum())
                left &= ~short
        room = session.placement.room_now(task.job)
        kept = left & ~fitting.has_room(room)
        if kept.any():
            names, own = self._owners(kept, task)
            counts[kept_for(names, own=own)] = int(kept.sum())
        left &= ~kept
        domain = session.domain
        return NodeSurvey(
            nodes=len(left) if domain is None else len(domain.rows),
            available=int(left.sum()),
            counts=counts,
            fit_now=_number(fitting, room, left),
            domain="" if domain is None else domain_name(domain),
        )

    def _owners(self, rows: Mask, task: Task) -> tuple[list[str], bool]:
        """Whom something is promised to on these nodes, and whether the task's own job is among them."""
        if self._kept is None:
            self._kept = {}
            for waiting in [*self._session.ledger.tentative.values(), *self._session.ledger.reserved_tasks.values()]:
                if waiting.node is not None and waiting.job is not None and waiting.status in _PLACES:
                    self._kept.setdefault(waiting.node.row, {})[waiting.job.key] = waiting.job
        found: dict[str, Job] = {}
        for row in np.flatnonzero(rows).tolist():
            found |= self._kept.get(row, {})
        own = task.job is not None and found.pop(task.job.key, None) is not None
        return [display_name(job) for job in found.values()], own


def rejected(session: Session, fitting: Fitting) -> dict[tuple[str, str], int]:
    """Nodes that a filter rejects, by (code, phrase), in the domain that is looked at."""
    counts: dict[tuple[str, str], int] = {}
    found = fitting.reasons if session.domain is None else fitting.reasons[session.domain.rows]
    ids, numbers = np.unique(found[found > 0], return_counts=True)
    for reason_id, number in zip(ids.tolist(), numbers.tolist(), strict=True):
        reason = session.node_reasons[reason_id - 1]
        pair = (reason.code, reason.text)
        counts[pair] = counts.get(pair, 0) + number
    return counts


def _number(fitting: Fitting, room: Matrix, rows: Mask) -> int:
    """How many pods of a kind fit in this room together."""
    if not rows.any() or not len(fitting.columns):
        return 0
    wanted = fitting.request[fitting.columns]
    each = (room[rows][:, fitting.columns] // wanted[None, :]).min(axis=1)
    return int(np.maximum(each, 0).sum())
