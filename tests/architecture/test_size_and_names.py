"""Folders and modules stay small, and the core names no feature."""

from __future__ import annotations

import re
import tomllib
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


# Questions that plugins answer, and what the ledger says of tasks: the interface of the core, whichever feature asks.
QUESTIONS = {"job_starving", "add_job_starving", "jobStarving", "add_backfill_eligible", "backfill_eligible"}
LEDGER = {"RESERVED", "reserved", "backfill", "nominate", "nominates", "nominated", "nomination", "nominations"}

# Below all features, but made to name them: plugins and actions in files, decisions of worlds, and sentences for users.
ABOUT_FEATURES = {"configuration", "decisions", "explanation"}


def test_the_core_names_no_feature() -> None:
    """A feature registers callbacks and operations and keeps its state in the session; the core need not know that it
    exists. The core is all that the import contract has below the first package that knows a feature."""
    contracts = tomllib.loads((SOURCE.parent / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["stromboli.scheduling"])
    below = layers[layers.index("session") :]
    core = {name for layer in below if layer != "operations" for name in layer.split(" | ")} - ABOUT_FEATURES
    assert core > {"session", "statement", "framework", "placement", "callbacks"}
    for path in modules():
        if path.is_relative_to(CORE) and path.relative_to(CORE).parts[0].removesuffix(".py") in core:
            words = set(re.findall(r"\w*(?:reserv|backfill|starv|nominat)\w*", path.read_text(encoding="utf-8"), re.I))
            assert words <= QUESTIONS | LEDGER, f"{path} names a feature: {sorted(words - QUESTIONS - LEDGER)}"


def test_what_make_check_runs_exists() -> None:
    text = (SOURCE.parent / "Makefile").read_text(encoding="utf-8").replace("\\\n", " ")
    (names,) = re.findall(r"^CHECKED := (.*)$", text, re.MULTILINE)
    assert len(names.split()) > 30
    assert not [name for name in names.split() if not (SOURCE.parent / "tests" / name).exists()]
