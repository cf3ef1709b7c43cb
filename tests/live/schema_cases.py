"""The table of what the schemas refuse (schema_cases.yaml), as objects."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from stromboli.api import merge_patch
from stromboli.api.rules.rule import DEFINITIONS, POLICIES

Document = dict[str, Any]

FIRST_SERVER = {"schema": (1, 20), "rules": DEFINITIONS, "policies": POLICIES}


@dataclass(frozen=True)
class Case:
    kind: str
    says: str
    since: str
    was: Document | None
    good: Document
    bad: Document

    @property
    def first_server(self) -> tuple[int, int]:
        return FIRST_SERVER[self.since]


def _read() -> Iterator[Case]:
    table = yaml.safe_load((Path(__file__).parent / "schema_cases.yaml").read_text(encoding="utf-8"))
    for row in table["cases"]:
        base = table["bases"][row["kind"]]
        was = merge_patch(base, row["was"]) if "was" in row else None
        yield Case(
            row["kind"],
            row["says"],
            row["since"],
            was,
            good=merge_patch(was or base, row["good"]),
            bad=merge_patch(was or base, row["bad"]),
        )


CASES = list(_read())
NAMES = [f"{case.kind}: {case.says}" for case in CASES]
