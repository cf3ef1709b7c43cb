"""Whether a node has been overloaded for a while, or only at the moment.

Measurements vary. A node counts as overloaded after more than `abnormalities` measurements in a row that say so, and as
normal again after more than `normalities` that do not. One that was not measured for `timeout` seconds is normal.

This is the only thing that the descheduler remembers between two runs. If it is lost, it is counted again.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AnomalyCondition:
    abnormalities: int = 0
    normalities: int = 3
    timeout: float = 60.0


@dataclass(slots=True)
class _Detector:
    anomalous: bool = False
    streak: int = 0  # measurements in a row that contradict the present state
    at: float = 0.0  # of the last measurement


@dataclass(slots=True)
class Anomalies:
    """By the name of a node."""

    _detectors: dict[str, _Detector] = field(default_factory=dict)

    def observe(self, node: str, abnormal: bool, now: float, condition: AnomalyCondition) -> None:
        found = self._detectors.setdefault(node, _Detector())
        if found.at and now - found.at > condition.timeout:
            found.anomalous, found.streak = False, 0
        found.at = now
        if abnormal == found.anomalous:
            found.streak = 0
            return
        found.streak += 1
        most = condition.normalities if found.anomalous else condition.abnormalities
        if found.streak > most:
            found.anomalous, found.streak = not found.anomalous, 0

    def lasts(self, node: str, now: float, condition: AnomalyCondition) -> bool:
        """Whether the node counts as overloaded."""
        found = self._detectors.get(node)
        return found is not None and found.anomalous and now - found.at <= condition.timeout
