"""The table of Volcano's specs on admission (volcano_specs.yaml), as objects and verdicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from stromboli.api import merge_patch

Document = dict[str, Any]


@dataclass(frozen=True)
class Spec:
    suite: str
    name: str
    object: Document
    was: Document | None
    refused: str
    filled: Document | None
    controller: str
    different: str
    is_deletion: bool
    queues: dict[str, Document] = field(default_factory=dict)
    namespace_queue: str = ""

    @property
    def verdict(self) -> tuple[str, str]:
        """Who has the last word, and what it is."""
        if self.different:
            return "different", self.different
        if self.controller:
            return "*controller*", f"`{self.controller}`"
        if self.refused:
            return "*door*", f"`{self.refused}`"
        return "*door*", "accepted" if self.filled is None or not self.is_filled_in else "accepted, and filled in"

    @property
    def is_filled_in(self) -> bool:
        return self.filled is not None and merge_patch(self.object, self.filled) != self.object


def _read() -> Iterator[Spec]:
    table = yaml.safe_load((Path(__file__).parent / "volcano_specs.yaml").read_text(encoding="utf-8"))
    for suite in table["suites"]:
        for row in suite["specs"]:
            base = table["bases"][row.get("kind", suite["kind"])]
            was = merge_patch(base, row["was"]) if "was" in row else None
            yield Spec(
                suite["suite"], row["spec"], merge_patch(was or base, row.get("object", {})), was,
                row.get("refused", ""), row.get("filled"), row.get("controller", ""), row.get("different", ""),
                row.get("delete", False), row.get("queues", {}), row.get("namespace", ""),
            )  # fmt: skip


SPECS = list(_read())
