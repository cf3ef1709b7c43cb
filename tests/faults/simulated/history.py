"""What happened, as lines that a person can read: requests, commits, faults, and what users and machines did.

The history is also what two runs of one seed are compared by, so it has nothing in it that depends on the machine.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from stromboli.embedded.server import Request, Response


class History:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.closed = False
        self.writer = ""
        """Whose request is being handled."""

    def say(self, now: float, who: str, text: str) -> None:
        if not self.closed:
            self.lines.append(f"{now:10.4f} {who:<14} {text}")

    def request(self, now: float, who: str, what: str, request: Request, response: Response) -> None:
        self.say(now, who, f"{what} {_name(request)} -> {response.status}")

    def fault(self, now: float, who: str, what: str, request: Request | None, fault: str, amount: float) -> None:
        name = "" if request is None else _name(request)
        self.say(now, "FAULT", f"{fault} ({amount:.1f}) on {what} {name} of {who}")

    def digest(self) -> str:
        return sha256("\n".join(self.lines).encode()).hexdigest()


def _name(request: Request) -> str:
    return request.path.rsplit("/namespaces/", 1)[-1].removeprefix("/apis/").removeprefix("/api/v1/")


def brief(value: dict[str, Any]) -> str:
    """The parts of an object that decisions are about."""
    spec, status, metadata = value.get("spec") or {}, value.get("status") or {}, value["metadata"]
    parts = [f"v{metadata.get('resourceVersion')}"]
    if metadata.get("deletionTimestamp"):
        parts.append("deleting")
    for where, names in ((spec, ("nodeName", "unschedulable", "minMember", "minAvailable", "holderIdentity")),
                         (status, ("phase", "state", "nodeName", "reservation"))):  # fmt: skip
        for name in names:
            found = where.get(name)
            if isinstance(found, dict):
                found = found.get("phase", found)
            if found:
                parts.append(f"{name}={found}")
    return " ".join(parts)
