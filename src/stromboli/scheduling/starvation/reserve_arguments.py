"""Behind the rules: the arguments of the reserve action, and what is kept for the length of a session."""

from __future__ import annotations

import math
from dataclasses import dataclass

from stromboli.cluster import JobKey, Queue
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.session import Session

DEFAULT_THRESHOLD = 172_800.0  # two days, in seconds


@dataclass(frozen=True, slots=True)
class ReserveRules:
    """The arguments of the reserve action."""

    threshold: float = DEFAULT_THRESHOLD
    percent: float = 50.0
    scope: str = "node"
    clock: str = "waiting"
    yields: bool = True
    max_holders: int = 4
    timeout: float = DEFAULT_THRESHOLD  # 0: a holder never gives its place away

    @classmethod
    def read(cls, arguments: Arguments) -> ReserveRules:
        threshold = arguments.duration("starvingJobTimeThreshold", DEFAULT_THRESHOLD, minimum=0)
        return cls(
            threshold=threshold,
            percent=arguments.number("reservedNodePercent", 50.0, minimum=0, maximum=100),
            scope=arguments.text("scope", "node", choices=("node", "amount")),
            clock=arguments.text("starvationClock", "waiting", choices=("waiting", "creation")),
            yields=arguments.boolean("yieldToHigherPriority", True),
            max_holders=arguments.integer("maxHolders", 4, minimum=0),
            timeout=arguments.duration("reservationTimeout", threshold, minimum=0),
        )

    @property
    def sets_aside(self) -> bool:
        """Whether anything may be set aside at all."""
        return self.percent > 0 and self.max_holders > 0

    def most_nodes(self, session: Session, queue: Queue) -> int:
        """How many nodes may have reserved room at a time, for jobs of a queue. Nodes that are locked for other queues
        are not in its reach."""
        nodes = session.nodes
        open_ = int((nodes.ready & nodes.schedulable).sum())
        for node in session.ledger.locked.values():
            open_ -= node.is_closed_to(queue) and node.ready and node.schedulable
        return math.ceil(open_ * self.percent / 100)


class Starvation:
    """What the reserve action's configuration means for the whole session, and what happened in it."""

    def __init__(self, session: Session) -> None:
        arguments = session.action_arguments("reserve")
        self.rules = None if arguments is None else ReserveRules.read(arguments)
        # Tasks that room was set aside for when the session began. Some of them may be promised a place since; until
        # they are bound, their node is still theirs.
        self.reserved_at_open = list(session.ledger.reserved_tasks.values())
        self.nodes_at_open: dict[JobKey, set[str]] = {}
        for task in self.reserved_at_open:
            if task.job is not None and task.node is not None:
                self.nodes_at_open.setdefault(task.job.key, set()).add(task.node.name)
        self.stuck: dict[JobKey, bool] = {}  # by holder, until something is reserved or given up
        self.reserved = session.ledger.views.reserved()
        self.limits: dict[JobKey, str] = {}  # why nothing was set aside for a job although it has starved
        self.cannot_start: dict[JobKey, str] = {}  # why a job that has starved could not start on empty nodes either
        self.gave_up_place: dict[JobKey, str] = {}  # jobs that gave their place to another in this session, and why
