"""PodGroups, and the parts of objects that several kinds share."""

from __future__ import annotations

import re
from typing import Final

from stromboli.api.kinds.batch import NetworkTopology, PodGroup
from stromboli.api.kinds.metadata import LabelSelector, LabelSelectorRequirement
from stromboli.api.names import DEFAULT_QUEUE

from .rule import Door, Rule, given, unless

STARTED: Final = ("Running", "Unknown", "Completed")
"""Phases of a PodGroup whose pods have run."""

_NAME: Final = "[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
_STEP: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_KEY: Final = f"^({_STEP}([.]{_STEP})*/)?{_NAME}$"
_VALUE: Final = f"^({_NAME})?$"
_ONE_KEY_MUST: Final = 'must be such as "app" or "example.com/app"'
_KEY_MUST: Final = 'must have keys such as "app" or "example.com/app"'
_VALUE_MUST: Final = 'must have values of letters, digits, "-", "_" and ".", at most 63 characters'


def _one_tier(topology: NetworkTopology) -> str:
    both = topology.highest_tier_allowed is not None and bool(topology.highest_tier_name)
    return unless(not both, "must have highestTierAllowed or highestTierName, not both")


def _some_values(requirement: LabelSelectorRequirement) -> str:
    missing = requirement.operator in ("In", "NotIn") and not requirement.values
    return unless(not missing, "must have at least one value for the operators In and NotIn")


def _no_values(requirement: LabelSelectorRequirement) -> str:
    surplus = requirement.operator in ("Exists", "DoesNotExist") and bool(requirement.values)
    return unless(not surplus, "must have no values for the operators Exists and DoesNotExist")


def _keys(selector: LabelSelector) -> str:
    return _not_one_of(_KEY_MUST, [name for name in selector.match_labels if not _is_key(name)])


def _values(selector: LabelSelector) -> str:
    return _not_one_of(_VALUE_MUST, [value for value in selector.match_labels.values() if not _is_value(value)])


def _key(requirement: LabelSelectorRequirement) -> str:
    return unless(_is_key(requirement.key), f'{_ONE_KEY_MUST}, not "{requirement.key}"')


def _operands(requirement: LabelSelectorRequirement) -> str:
    return _not_one_of(_VALUE_MUST, [value for value in requirement.values if not _is_value(value)])


def _not_one_of(must: str, wrong: list[str]) -> str:
    return f'{must}, not "{min(wrong)}"' if wrong else ""


def _says_not(must: str, wrong: str) -> str:
    """The same in CEL; `wrong` is a list."""
    return f"""'{must}, not "' + {wrong}.min() + '"'"""


def _is_key(text: str) -> bool:
    return re.fullmatch(_KEY, text) is not None and len(text.rpartition("/")[0]) <= 253


def _is_value(text: str) -> bool:
    return re.fullmatch(_VALUE, text) is not None


def _cel_key(value: str) -> str:
    return f"{value}.matches('{_KEY}') && ({value}.indexOf('/') <= 253)"


def _queue_of_started_pods(new: PodGroup, old: PodGroup) -> str:
    holds = old.status.phase not in STARTED or (new.spec.queue or DEFAULT_QUEUE) == (old.spec.queue or DEFAULT_QUEUE)
    return unless(holds, _QUEUE_MUST)


_QUEUE_MUST: Final = "must not change once pods have started: their queue is charged for them"

RULES: Final = (
    Rule(
        on=NetworkTopology, field="", must="must have highestTierAllowed or highestTierName, not both",
        broken=_one_tier,
        cel=f"!has(self.highestTierAllowed) || !{given('self.highestTierName')}",
    ),
    Rule(
        on=LabelSelectorRequirement, field="", must="must have at least one value for the operators In and NotIn",
        broken=_some_values,
        cel="!(self.operator in ['In', 'NotIn']) || has(self.values) && self.values.size() > 0",
    ),
    Rule(
        on=LabelSelectorRequirement, field="", must="must have no values for the operators Exists and DoesNotExist",
        broken=_no_values,
        cel="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || self.values.size() == 0",
    ),
    Rule(
        on=LabelSelectorRequirement, field="key", must=_ONE_KEY_MUST, broken=_key,
        cel=f"has(self.key) && {_cel_key('self.key')}", says=_says_not(_ONE_KEY_MUST, "[self.key]"), door=Door.POLICY,
    ),
    Rule(
        on=LabelSelectorRequirement, field="values", must=_VALUE_MUST, broken=_operands,
        cel=f"!has(self.values) || self.values.all(v, v.matches('{_VALUE}'))",
        says=_says_not(_VALUE_MUST, f"self.values.filter(v, !v.matches('{_VALUE}'))"), door=Door.POLICY,
    ),
    Rule(
        on=LabelSelector, field="matchLabels", must=_KEY_MUST, broken=_keys,
        cel=f"!has(self.matchLabels) || self.matchLabels.all(k, {_cel_key('k')})",
        says=_says_not(_KEY_MUST, f"self.matchLabels.filter(k, !({_cel_key('k')}))"), door=Door.POLICY,
    ),
    Rule(
        on=LabelSelector, field="matchLabels", must=_VALUE_MUST, broken=_values,
        cel=f"!has(self.matchLabels) || self.matchLabels.all(k, self.matchLabels[k].matches('{_VALUE}'))",
        says=_says_not(
            _VALUE_MUST, f"self.matchLabels.map(k, self.matchLabels[k]).filter(v, !v.matches('{_VALUE}'))"
        ),
        door=Door.POLICY,
    ),
    Rule(
        on=PodGroup, field="spec.queue", must=_QUEUE_MUST, broken=_queue_of_started_pods, on_update=True,
        cel="!has(self.spec) || !has(oldSelf.spec) || !has(oldSelf.status) || !has(oldSelf.status.phase) || "
        f"!(oldSelf.status.phase in {list(STARTED)}) || self.spec.queue == oldSelf.spec.queue",
    ),
)  # fmt: skip
