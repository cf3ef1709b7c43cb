"""CronJobs: what their Jobs must be is in `jobs`, and is found wherever the spec of a Job is."""

from __future__ import annotations

import re
from typing import Final

from stromboli.api.kinds.batch import CronJob, CronJobSpec
from stromboli.api.schedules import SCHEDULE_PATTERN

from .rule import Door, Rule, text, unless

_LONGEST_NAME: Final = 52
_MUST: Final = f"must be at most {_LONGEST_NAME} characters, because the names of its Jobs have 11 more"
_SCHEDULE_MUST: Final = 'must be five fields such as "0 8 * * mon-fri", or such as @daily or @every 6h'
_PATTERN: Final = SCHEDULE_PATTERN.replace("\\", "\\\\")


def _schedule(spec: CronJobSpec) -> str:
    """A scenario and the controllers say which field is wrong: `validation.cron_jobs`. CEL can only say that it is."""
    holds = re.fullmatch(SCHEDULE_PATTERN, spec.schedule) is not None
    return unless(holds, f'{_SCHEDULE_MUST}, not "{spec.schedule}"')


def _name(cron_job: CronJob) -> str:
    length = len(cron_job.metadata.name)
    return unless(length <= _LONGEST_NAME, f"{_MUST}, not {length}")


RULES: Final = (
    Rule(
        on=CronJobSpec, field="schedule", must=_SCHEDULE_MUST, broken=_schedule,
        cel=f"!has(self.schedule) || self.schedule.matches('{_PATTERN}')",
        says=f"""'{_SCHEDULE_MUST}, not "' + self.schedule + '"'""",
    ),
    Rule(
        on=CronJob, field="metadata.name", must=_MUST, broken=_name, door=Door.POLICY,
        cel=f"self.metadata.name.size() <= {_LONGEST_NAME}",
        says=f"'{_MUST}, not ' + {text('self.metadata.name.size()')}",
    ),
)  # fmt: skip
