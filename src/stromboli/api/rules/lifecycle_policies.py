"""What a Job does when something happens: one action for each event and each exit code."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import Struct

from stromboli.api.kinds.batch import JobSpec, LifecyclePolicy, TaskSpec

from .rule import Rule, given, unless

EVENTS_WITHOUT_EFFECT: Final = ("OutOfSync", "CommandIssued", "JobUpdated")
"""Volcano's controllers use these among themselves. A policy for one of them is valid, and never applies."""
EVENTS: Final = (
    "*",
    "PodFailed",
    "PodEvicted",
    "PodPending",
    "PodRunning",
    "Unknown",
    "TaskCompleted",
    "TaskFailed",
    *EVENTS_WITHOUT_EFFECT,
)


def events_of(policy: LifecyclePolicy) -> list[str]:
    """Each once."""
    return list(dict.fromkeys([*([policy.event] if policy.event else []), *policy.events]))


def _one_trigger(policy: LifecyclePolicy) -> str:
    holds = bool(events_of(policy)) != (policy.exit_code is not None)
    return unless(holds, "must have either an event or an exitCode")


def _failure(policy: LifecyclePolicy) -> str:
    return unless(policy.exit_code != 0, "must not be 0, which is success")


def _no_event_twice(owner: JobSpec | TaskSpec) -> str:
    repeated = _repeated([event for policy in owner.policies for event in events_of(policy) if event in EVENTS])
    return f"must not have two actions for the event {min(repeated, key=EVENTS.index)}" if repeated else ""


def _no_code_twice(owner: JobSpec | TaskSpec) -> str:
    repeated = _repeated([policy.exit_code for policy in owner.policies if policy.exit_code is not None])
    return f"must not have two actions for the exitCode {min(repeated)}" if repeated else ""


def _any_event_alone(owner: JobSpec | TaskSpec) -> str:
    events = {event for policy in owner.policies for event in events_of(policy)}
    return unless(events <= {"*"} or "*" not in events, _ALONE)


def _repeated(values: Sequence[str | int]) -> set[str | int]:
    return {value for value in values if values.count(value) > 1}


def _triggers(policy: str, event: str) -> str:
    return f"(has({policy}.event) && {policy}.event == {event} || has({policy}.events) && {event} in {policy}.events)"


_ALONE: Final = 'must not name other events beside "*", which means all of them'
_FEW: Final = "!has(self.policies) || self.policies.size() == 0"
_TWICE: Final = f"self.policies.filter(p, {_triggers('p', 'e')}).size() > 1"
_REPEATED_CODES: Final = (
    "self.policies.filter(p, has(p.exitCode)"
    " && !self.policies.exists_one(o, has(o.exitCode) && o.exitCode == p.exitCode))"
)


def _of_lists(owner: type[Struct]) -> Iterable[Rule]:
    yield Rule(
        on=owner, field="policies", must="must not have two actions for one event", broken=_no_event_twice,
        cel=f"{_FEW} || {list(EVENTS)}.all(e, {_TWICE.replace('> 1', '<= 1')})",
        says=f"'must not have two actions for the event ' + {list(EVENTS)}.filter(e, {_TWICE})[0]",
        is_costly=owner is TaskSpec,
    )  # fmt: skip
    yield Rule(
        on=owner, field="policies", must="must not have two actions for one exitCode", broken=_no_code_twice,
        cel=f"{_FEW} || self.policies.all(p, !has(p.exitCode)"
        " || self.policies.exists_one(o, has(o.exitCode) && o.exitCode == p.exitCode))",
        says="'must not have two actions for the exitCode '"
        f" + string({_REPEATED_CODES}.map(p, p.exitCode).min())",
        is_costly=owner is TaskSpec,
    )  # fmt: skip
    yield Rule(
        on=owner, field="policies", must=_ALONE, broken=_any_event_alone,
        cel=f"{_FEW} || !self.policies.exists(p, {_triggers('p', chr(39) + '*' + chr(39))})"
        " || self.policies.all(p, (!has(p.event) || p.event in ['', '*'])"
        " && (!has(p.events) || p.events.all(e, e == '*')))",
    )  # fmt: skip


RULES: Final = (
    Rule(
        on=LifecyclePolicy, field="", must="must have either an event or an exitCode", broken=_one_trigger,
        cel=f"({given('self.event')} || has(self.events) && self.events.size() > 0) != has(self.exitCode)",
    ),
    Rule(
        on=LifecyclePolicy, field="exitCode", must="must not be 0, which is success", broken=_failure,
        cel="!has(self.exitCode) || self.exitCode != 0",
    ),
    *_of_lists(JobSpec),
    *_of_lists(TaskSpec),
)  # fmt: skip
