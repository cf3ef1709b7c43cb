"""Nobody reads the counters and logs of changes but the ledger, its views, and the attempt.

A second reader of a counter is a second rule of when an answer is stale. Whoever keeps an answer asks a view
(`Ledger.views`), which knows what the answer depends on.
"""

from __future__ import annotations

import ast
from pathlib import Path

SCHEDULING = Path(__file__).resolve().parents[2] / "src" / "stromboli" / "scheduling"

LEDGERS_OWN = {"changes", "node_changes", "freed", "reserved_epoch", "log", "task_log", "queue_log"}
LEDGER = {"ledger", "_ledger"}


def reads(source: str) -> set[str]:
    """The counters and logs of the ledger that a module reads or changes, also under another name for the ledger."""
    return {
        node.attr
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Attribute) and node.attr in LEDGERS_OWN and _is_ledger(node.value)
    }


def _is_ledger(value: ast.expr) -> bool:
    return getattr(value, "attr", getattr(value, "id", "")) in LEDGER


def test_only_the_attempt_reads_change_counters() -> None:
    modules = sorted(SCHEDULING.rglob("*.py"))
    found = {str(path.relative_to(SCHEDULING)): reads(path.read_text(encoding="utf-8")) for path in modules}
    assert len(found) > 150
    readers = {path: counters for path, counters in found.items() if counters}
    assert readers, "the names of the counters have changed, so nothing was looked for"
    assert {path.partition("/")[0] for path in readers} == {"attempt"}, readers


def test_what_is_read_is_found() -> None:
    assert reads("at = len(session.ledger.log)") == {"log"}
    assert reads("ledger = session.ledger\nledger.changes += 1") == {"changes"}
    assert reads("free.log + math.log(2) + session.ledger.views.rows()") == set()
