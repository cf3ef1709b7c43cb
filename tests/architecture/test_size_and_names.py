"""Folders and modules stay small, and the core names no feature."""

from __future__ import annotations

import re
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2] / "src"
CORE = SOURCE / "stromboli" / "scheduling"

MOST_MODULES = 16  # in one folder, without __init__.py
MOST_LINES = 450  # of one module


def modules() -> list[Path]:
    found = sorted(SOURCE.rglob("*.py"))
    assert len(found) > 200
    return found


def test_folders_stay_small() -> None:
    folders: dict[Path, int] = {}
    for path in modules():
        if path.name != "__init__.py":
            folders[path.parent] = folders.get(path.parent, 0) + 1
    large = {str(folder.relative_to(SOURCE)): n for folder, n in folders.items() if n > MOST_MODULES}
    assert not large, f"more than {MOST_MODULES} modules: make sub-packages by idea"


def test_modules_stay_small() -> None:
    lines = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path in modules()}
    large = {path: n for path, n in lines.items() if n > MOST_LINES}
    assert not large, f"more than {MOST_LINES} lines: split by idea"


# Questions that plugins answer, and a status of the ledger: part of the core's interface, whichever feature asks.
QUESTIONS = {"job_starving", "add_job_starving", "jobStarving", "add_backfill_eligible", "backfillEligible"}
STATUSES = {"RESERVED"}


def test_the_core_names_no_feature() -> None:
    """A feature registers callbacks and keeps its state in the session; the core need not know that it exists."""
    for name in ("session.py", "framework.py", "extension_points.py"):
        text = (CORE / name).read_text(encoding="utf-8")
        words = {w for w in re.findall(r"\w+", text) if re.search("reserv|backfill|starv|nominat", w, re.IGNORECASE)}
        assert words <= QUESTIONS | STATUSES, f"{name} names a feature: {sorted(words - QUESTIONS - STATUSES)}"
