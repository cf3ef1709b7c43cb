"""CronJobs: what their Jobs must be is in `jobs`, and is found wherever the spec of a Job is."""

from __future__ import annotations

from typing import Final

from stromboli.api.kinds.batch import CronJob

from .rule import Door, Rule, text, unless

_LONGEST_NAME: Final = 52
_MUST: Final = f"must be at most {_LONGEST_NAME} characters, because the names of its Jobs have 11 more"


def _name(cron_job: CronJob) -> str:
    length = len(cron_job.metadata.name)
    return unless(length <= _LONGEST_NAME, f"{_MUST}, not {length}")


RULES: Final = (
    Rule(
        on=CronJob, field="metadata.name", must=_MUST, broken=_name, door=Door.POLICY,
        cel=f"self.metadata.name.size() <= {_LONGEST_NAME}",
        says=f"'{_MUST}, not ' + {text('self.metadata.name.size()')}",
    ),
)  # fmt: skip
