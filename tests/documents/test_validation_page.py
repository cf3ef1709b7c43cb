"""docs/validation.md lists every rule, and nothing that is no rule."""

from __future__ import annotations

from documents.pages import text_of
from documents.validation_page import controller_rows, field_rows, rule_rows


def test_the_tables_have_every_rule_and_no_other() -> None:
    listed = [line for line in text_of("docs/validation.md").splitlines() if line.startswith("| ")]
    kinds = (
        "Queue", "PodGroup", "Job", "CronJob", "JobFlow", "JobTemplate", "Command", "Reservation", "HyperNode", "Pod",
        "ResourceQuota",
    )  # fmt: skip
    assert [line for line in listed if line.split(" | ")[0].removeprefix("| ") in kinds] == [
        *rule_rows(), *controller_rows(), *field_rows()
    ]  # fmt: skip
