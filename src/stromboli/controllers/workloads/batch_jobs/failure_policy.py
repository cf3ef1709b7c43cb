"""What `podFailurePolicy` says about a failed pod: the first rule that fits it decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from stromboli.api import Condition, OnExitCodes, PodFailurePolicy, PodFailurePolicyRule, PodStatus

DISRUPTED: Final = PodStatus(phase="Failed", conditions=[Condition(type="DisruptionTarget", status="True")])
"""Of a pod that was evicted and is gone."""


@dataclass(frozen=True, slots=True)
class Verdict:
    action: str = "Count"  # or Ignore, or FailJob
    why: str = ""


def verdict_on(policy: PodFailurePolicy, status: PodStatus, pod: str) -> Verdict:
    for number, rule in enumerate(policy.rules):
        if why := _fits(rule, status):
            return Verdict(rule.action, f"Rule {number} of podFailurePolicy fits {pod}: {why}.")
    return Verdict()


def _fits(rule: PodFailurePolicyRule, status: PodStatus) -> str:
    """Why a rule fits a pod; "" if it does not."""
    if rule.on_exit_codes is not None:
        for name, code in _exit_codes(status):
            if _matches(rule.on_exit_codes, name, code):
                return f"container {name} has ended with exit code {code}"
        return ""
    for wanted in rule.on_pod_conditions:
        if any((one.type, one.status) == (wanted.type, wanted.status) for one in status.conditions):
            return f"it has the condition {wanted.type}"
    return ""


def _exit_codes(status: PodStatus) -> Iterator[tuple[str, int]]:
    for container in (*status.container_statuses, *status.init_container_statuses):
        terminated = container.state.terminated
        if terminated is not None and terminated.exit_code:
            yield container.name, terminated.exit_code


def _matches(rule: OnExitCodes, name: str, code: int) -> bool:
    if rule.container_name not in ("", name):
        return False
    return (code in rule.values) == (rule.operator == "In")
