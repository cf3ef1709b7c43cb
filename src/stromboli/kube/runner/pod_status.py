"""What the status of a pod says, from what its containers do."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from stromboli.api.timestamps import format_timestamp

State = dict[str, Any]


@dataclass(slots=True)
class ContainerStatus:
    """One container, as `kubectl describe` shows it."""

    name: str
    image: str = ""
    state: State = field(default_factory=lambda: {"waiting": {"reason": "PodInitializing"}})
    last_state: State = field(default_factory=dict)
    restarts: int = 0
    ready: bool = False
    started: bool = False

    def document(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "image": self.image,
            "imageID": "",
            "ready": self.ready,
            "started": self.started,
            "restartCount": self.restarts,
            "state": self.state,
            "lastState": self.last_state,
        }

    @property
    def exit_code(self) -> int | None:
        """None: it has not ended."""
        ended = self.state.get("terminated")
        return None if ended is None else int(ended["exitCode"])


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a pod ended."""

    phase: str
    reason: str = ""
    message: str = ""


def terminated(code: int, reason: str, started: float, *, signal: int = 0, message: str = "") -> State:
    ended: dict[str, Any] = {
        "exitCode": code,
        "reason": reason,
        "startedAt": format_timestamp(int(started)),
        "finishedAt": format_timestamp(int(time.time())),
    }
    if signal:
        ended["signal"] = signal
    if message:
        ended["message"] = message
    return {"terminated": ended}


def status_of(
    init: Sequence[ContainerStatus],
    main: Sequence[ContainerStatus],
    address: str,
    started: float,
    outcome: Outcome | None,
    *,
    initialized: bool,
) -> dict[str, Any]:
    """A strategic merge patch of the status."""
    is_ready = outcome is None and initialized and all(one.ready for one in main)
    phase = outcome.phase if outcome else "Running" if _runs(main) else "Pending"
    reason = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}.get(phase, "ContainersNotReady")
    unready = [one.name for one in main if not one.ready]
    message = f"containers with unready status: [{' '.join(unready)}]" if unready and not outcome else ""
    conditions = [
        _condition("Initialized", initialized, "ContainersNotInitialized"),
        _condition("ContainersReady", is_ready, reason, message),
        _condition("Ready", is_ready, reason, message),
    ]
    return {
        "phase": phase,
        "startTime": format_timestamp(int(started)),
        "hostIP": "127.0.0.1",
        "podIP": address,
        "podIPs": [{"ip": address}],
        "conditions": conditions,
        "initContainerStatuses": [one.document() for one in init],
        "containerStatuses": [one.document() for one in main],
        "reason": outcome.reason if outcome else "",
        "message": outcome.message if outcome else "",
    }


def _runs(main: Sequence[ContainerStatus]) -> bool:
    """Whether any of them has been started."""
    return any("running" in one.state or "terminated" in one.state or one.last_state for one in main)


def _condition(name: str, holds: bool, reason: str, message: str = "") -> dict[str, Any]:
    # None removes the value of an earlier state.
    return {
        "type": name,
        "status": str(holds),
        "reason": None if holds else reason,
        "message": None if holds or not message else message,
    }


def status_before(documents: Sequence[Mapping[str, Any]], container: Mapping[str, Any]) -> ContainerStatus:
    """What a status that was written before a restart says of one container."""
    written: Mapping[str, Any] = next((one for one in documents if one.get("name") == container["name"]), {})
    known = ContainerStatus(container["name"], container.get("image", ""))
    if written:
        known.state = written.get("state") or known.state
        known.last_state = written.get("lastState") or {}
        known.restarts = int(written.get("restartCount") or 0)
    return known
