"""What the checkers say, and what was really exercised."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

MOST = 4  # findings of one checker in one world


@dataclass(frozen=True)
class Finding:
    check: str
    time: float
    text: str


@dataclass
class Verdict:
    findings: list[Finding] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)  # how often each rule was really tested
    seen: Counter[str] = field(default_factory=Counter)  # what happened in the world

    def fail(self, check: str, time: float, text: str) -> None:
        """A rule that is broken is often broken for a while: a few findings of each checker are enough."""
        if sum(finding.check == check for finding in self.findings) < MOST:
            self.findings.append(Finding(check, time, text))
