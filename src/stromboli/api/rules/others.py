"""Commands, and annotations of pods and Jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from stromboli.api.kinds.batch import Command, Job
from stromboli.api.kinds.pods import Pod
from stromboli.api.names import ADMINISTRATORS, DEFAULT_SCHEDULER, JDB_MAX_UNAVAILABLE, JDB_MIN_AVAILABLE

from .rule import Door, Rule, unless

DISRUPTION_BUDGETS: Final = (JDB_MIN_AVAILABLE, JDB_MAX_UNAVAILABLE)

OUR_SCHEDULERS: Final = (DEFAULT_SCHEDULER, "stromboli")
"""The name of our scheduler, alone and beside Volcano's."""

_NUMBER: Final = "^([1-9][0-9]{0,8}|[1-9][0-9]?%)$"
_NUMBER_MUST: Final = 'must be a number of pods from 1, or a part of them from "1%" to "99%"'
_BOTH_MUST: Final = f"must not have both {JDB_MIN_AVAILABLE} and {JDB_MAX_UNAVAILABLE}"
_NOT_OURS: Final = f"has(self.spec.schedulerName) && !(self.spec.schedulerName in {['', *OUR_SCHEDULERS]})"
_NAMESPACE_MUST: Final = f"must be one of {', '.join(ADMINISTRATORS)} for a command to a queue"


def _by_administrators(command: Command) -> str:
    """A queue is everybody's. Whoever may edit the objects of a namespace must not close the queues of others with
    them."""
    of_queue = command.target is not None and command.target.kind == "Queue"
    holds = not of_queue or command.metadata.namespace in ADMINISTRATORS
    return unless(holds, f"{_NAMESPACE_MUST}, not {command.metadata.namespace}")


def _budgets(owner: Pod | Job) -> dict[str, str]:
    """By name; of our pods and of Jobs, whose pods inherit them."""
    if isinstance(owner, Pod) and owner.spec.scheduler_name not in ("", *OUR_SCHEDULERS):
        return {}
    annotations = owner.metadata.annotations
    return {name: annotations[name] for name in DISRUPTION_BUDGETS if name in annotations} if annotations else {}


def _budget(name: str, owner: type[Pod | Job], not_ours: str) -> Rule:
    def broken(one: Pod | Job) -> str:
        value = _budgets(one).get(name)
        holds = value is None or re.fullmatch(_NUMBER, value) is not None
        return unless(holds, f'{_NUMBER_MUST}, not "{value}"')

    value = f"self.metadata.annotations['{name}']"
    return Rule(
        on=owner,
        field=f"metadata.annotations[{name}]",
        must=_NUMBER_MUST,
        broken=broken,
        cel=f"{not_ours}!has(self.metadata.annotations) || !('{name}' in self.metadata.annotations)"
        f" || {value}.matches('{_NUMBER}')",
        says=f"""'{_NUMBER_MUST}, not "' + {value} + '"'""",
        door=Door.POLICY,
    )


def _one_budget(owner: type[Pod | Job], not_ours: str) -> Rule:
    return Rule(
        on=owner,
        field="metadata.annotations",
        must=_BOTH_MUST,
        broken=lambda one: unless(len(_budgets(one)) <= 1, _BOTH_MUST),
        cel=f"{not_ours}!has(self.metadata.annotations) || "
        + " || ".join(f"!('{name}' in self.metadata.annotations)" for name in DISRUPTION_BUDGETS),
        door=Door.POLICY,
    )


def _of_budgets() -> Iterator[Rule]:
    for owner, not_ours in ((Pod, f"{_NOT_OURS} || "), (Job, "")):
        yield from (_budget(name, owner, not_ours) for name in DISRUPTION_BUDGETS)
        yield _one_budget(owner, not_ours)


RULES: Final = (
    Rule(
        on=Command, field="metadata.namespace", must=_NAMESPACE_MUST, broken=_by_administrators, door=Door.POLICY,
        cel=f"self.target.kind != 'Queue' || self.metadata.namespace in {list(ADMINISTRATORS)}",
        says=f"'{_NAMESPACE_MUST}, not ' + self.metadata.namespace",
    ),
    *_of_budgets(),
)  # fmt: skip
