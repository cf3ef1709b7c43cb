"""Every Command that was acknowledged is obeyed, whatever became of the answer to the one who claimed it.

A Command is claimed by its deletion. Only if its claimant ends or is followed by another leader, it may be lost: it is
never executed twice.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from .truth import Document, Truth, name, uid

COMMANDS: Final = "commands.bus.volcano.sh"
JOBS: Final = "jobs.batch.volcano.sh"
LEASES: Final = "leases.coordination.k8s.io"
_SUSPENDED: Final = ("Aborting", "Aborted")
_UNDER_WAY: Final = ("", "Pending", "Inqueue", "Running", "Restarting")


@dataclass
class _Claim:
    command: str
    action: str
    job: str  # its uid
    who: str
    life: object


class Obeyed:
    def __init__(self, truth: Truth, life: Callable[[str], object], report: Callable[[str, str], None]) -> None:
        """`life`: of a process; another one after each start."""
        self._truth = truth
        self._life = life
        self._report = report
        self._claims: list[_Claim] = []  # not obeyed yet
        self._holder = ""

    def committed(self, resource: str, before: Document | None, after: Document | None, writer: str) -> None:
        if resource == COMMANDS and before is not None and after is None and writer.startswith("controllers"):
            claim = _Claim(name(before), before["action"], before["target"]["uid"], writer, self._life(writer))
            self._claims.append(claim)
        elif resource == LEASES and after is not None and name(after) == "stromboli-controllers":
            holder = after["spec"].get("holderIdentity") or ""
            if holder != self._holder:
                self._holder = holder
                self._claims.clear()
        if self._claims and resource in (COMMANDS, JOBS):
            self._claims = [claim for claim in self._claims if not self._is_obeyed(claim)]

    def _is_obeyed(self, claim: _Claim) -> bool:
        for job in self._truth.of(JOBS).values():
            if uid(job) == claim.job:
                phase = job.get("status", {}).get("state", {}).get("phase", "")
                wanted = _SUSPENDED if claim.action == "ResumeJob" else _UNDER_WAY
                return phase not in wanted
        return True  # it is gone

    def compare(self) -> None:
        """At the end."""
        for claim in self._claims:
            if self._life(claim.who) is claim.life:
                self._report("obeyed", f"{claim.who} has claimed {claim.command}, {claim.action}, and does nothing")
