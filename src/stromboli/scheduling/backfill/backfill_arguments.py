"""The arguments of the backfill action, and where the other actions find them."""

from __future__ import annotations

from dataclasses import dataclass

from stromboli.cluster import JobKey
from stromboli.scheduling.configuration import Arguments
from stromboli.scheduling.session import Session

FEATURE = "backfill"
"""The name under which the feature registers its callbacks."""


@dataclass(frozen=True, slots=True)
class BackfillRules:
    """The arguments of the backfill action."""

    lends: bool = False
    evicts: bool = True
    uses_estimates: bool = False

    @classmethod
    def read(cls, arguments: Arguments) -> BackfillRules:
        return cls(
            lends=arguments.boolean("backfillNonBestEffort", False),
            evicts=arguments.text("mode", "preemption", choices=("preemption", "wait")) == "preemption",
            uses_estimates=arguments.boolean("useEstimates", False),
        )


class Lending:
    """What the backfill action's configuration means for the whole session."""

    def __init__(self, session: Session) -> None:
        arguments = session.action_arguments("backfill")
        self.rules = BackfillRules() if arguments is None else BackfillRules.read(arguments)
        self.kept: dict[JobKey, list[str]] = {}  # conditionally ready jobs, and the nodes on which they keep room
