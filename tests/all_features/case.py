"""A run with all that checkers ask of it."""

from __future__ import annotations

from dataclasses import dataclass

from all_features.history import History, read_history
from all_features.scenario import Scenario
from all_features.world import Document, Report, Run


@dataclass(frozen=True)
class Case:
    scenario: Scenario
    history: History
    run: Run

    @property
    def world_documents(self) -> list[Document]:
        return self.run.world.documents

    def away(self, time: float, *components: str) -> bool:
        """Whether one of these components is away, or has just returned: then what it writes is not up to date."""
        return any(
            since <= time <= until + 1 and component in (*components, "all")
            for since, until, component in self.scenario.outages()
        )

    @property
    def report(self) -> Report:
        return self.run.report


def case_of(run: Run) -> Case:
    scenario = Scenario(run.world)
    return Case(scenario, read_history(scenario, run.report), run)
