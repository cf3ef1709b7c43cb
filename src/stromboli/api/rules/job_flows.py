"""JobFlows: what their Jobs depend on. What the Jobs must be is in `jobs`, and is found in their templates.

That no chain of dependencies leads back to its beginning is checked in `api.validation.job_flows`: CEL cannot follow a
path of unknown length.
"""

from __future__ import annotations

from typing import Final

from stromboli.api.kinds.flow import Flow, JobFlowSpec, JobTemplate

from .rule import Door, Rule, text, unless

_ITSELF_MUST: Final = "must not name the flow itself"
_KNOWN_MUST: Final = "must depend on flows of this JobFlow only"
_TARGETS: Final = "has(f.dependsOn) && has(f.dependsOn.targets)"
_LONGEST_NAME: Final = 61
_NAME_MUST: Final = f"must be at most {_LONGEST_NAME} characters, because its Jobs are named after a JobFlow and it"
_UNKNOWN: Final = "f.dependsOn.targets.exists(t, !self.flows.exists(g, g.name == t))"


def _not_itself(flow: Flow) -> str:
    targets = [] if flow.depends_on is None else flow.depends_on.targets
    return unless(flow.name not in targets, f"{_ITSELF_MUST}, {flow.name}")


def _known(spec: JobFlowSpec) -> str:
    names = {flow.name for flow in spec.flows}
    for flow in spec.flows:
        unknown = [one for one in ([] if flow.depends_on is None else flow.depends_on.targets) if one not in names]
        if unknown:
            return f'{_KNOWN_MUST}, and {flow.name} depends on "{unknown[0]}"'
    return ""


def _name(template: JobTemplate) -> str:
    length = len(template.metadata.name)
    return unless(length <= _LONGEST_NAME, f"{_NAME_MUST}, not {length}")


RULES: Final = (
    Rule(
        on=JobTemplate, field="metadata.name", must=_NAME_MUST, broken=_name, door=Door.POLICY,
        cel=f"self.metadata.name.size() <= {_LONGEST_NAME}",
        says=f"'{_NAME_MUST}, not ' + {text('self.metadata.name.size()')}",
    ),
    Rule(
        on=Flow, field="dependsOn.targets", must=_ITSELF_MUST, broken=_not_itself,
        cel="!has(self.dependsOn) || !has(self.dependsOn.targets) || !(self.name in self.dependsOn.targets)",
        says=f"'{_ITSELF_MUST}, ' + self.name",
    ),
    Rule(
        on=JobFlowSpec, field="flows", must=_KNOWN_MUST, broken=_known, door=Door.POLICY,
        cel=f"!has(self.flows) || self.flows.all(f, !({_TARGETS}) || !{_UNKNOWN})",
        says=f"'{_KNOWN_MUST}, and ' + self.flows.filter(f, {_TARGETS} && {_UNKNOWN})[0].name + ' depends on \"'"
        f" + self.flows.filter(f, {_TARGETS} && {_UNKNOWN})[0].dependsOn.targets.filter(t,"
        " !self.flows.exists(g, g.name == t))[0] + '\"'",
    ),
)  # fmt: skip
