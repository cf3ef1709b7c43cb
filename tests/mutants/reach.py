"""Which tests reach a block, and how long they take: a plugin of pytest, and the map made of what it wrote.

A file of tests is run again when it has changed. A function that changed after a test was run is taken as one block.
`--fresh` runs everything again. The map is kept after every forty files, so a run that was ended goes on where it was.
"""

from __future__ import annotations

import json
import os
import pickle
import shutil
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from .blocks import instrumented
from .changes import Change
from .snapshot import ROOT, WORK, bring_up_to_date, digest, run_pytest

MAP = WORK / "reach.pickle"
NOT_ASKED = ("tests/kube/", "tests/browser/", "tests/mutants/")  # They need more than Python, or are about this.


@dataclass
class Reach:
    files: dict[str, str] = field(default_factory=dict)  # of tests, and their digests
    asked: set[str] = field(default_factory=set)  # Those of them that are asked in this run.
    seconds: dict[str, float] = field(default_factory=dict)  # of each test
    # By function, then by its digest and the number of the block.
    tests: dict[str, dict[str, set[str]]] = field(default_factory=dict)

    def tests_of(self, change: Change) -> set[str]:
        name = change.function.digest
        blocks = self.tests.get(f"{change.module}:{change.function.name}", {})
        found = [tests for block, tests in blocks.items() if not block.startswith(name)]
        asked = blocks.get(f"{name}:{change.block}", set()).union(*found)
        return {test for test in asked if test.partition("::")[0] in self.asked}

    def forget(self, files: set[str]) -> None:
        self.seconds = {test: s for test, s in self.seconds.items() if test.partition("::")[0] not in files}
        for blocks in self.tests.values():
            for tests in blocks.values():
                tests &= self.seconds.keys()

    def add(self, folder: Path) -> None:
        lines = [json.loads(line) for file in sorted(folder.iterdir()) for line in file.read_text().splitlines()]
        self.seconds |= {line["test"]: line["seconds"] for line in lines if "seconds" in line}
        names = {name: name for name in self.seconds}  # Each name is stored once.
        for line in lines:
            if line["test"] in names:  # Only tests that passed.
                for block in line["blocks"]:
                    module, function, rest = block.split(":", 2)
                    blocks = self.tests.setdefault(f"{module}:{function}", defaultdict(set))
                    blocks[rest].add(names[line["test"]])


def test_files(parts: list[str]) -> dict[str, str]:
    """The files of tests and their digests: all, or those that begin with one of these paths."""
    found = {str(path.relative_to(ROOT)): path for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    starts = tuple(parts) or ("tests/",)
    return {
        name: digest(path) for name, path in found.items() if name.startswith(starts) and not name.startswith(NOT_ASKED)
    }


def reach(files: dict[str, str]) -> Reach:
    """The map from the last time, with the files of tests that have changed since run again."""
    reached = pickle.loads(MAP.read_bytes()) if MAP.exists() else Reach()
    assert isinstance(reached, Reach)
    changed = [name for name, known in files.items() if known != reached.files.get(name)]
    if changed:
        print(f"Running {len(changed)} files of tests to see what they reach.", flush=True)
    for names in (changed[place : place + 40] for place in range(0, len(changed), 40)):
        reached.forget(set(names))
        reached.add(_run_tests(names))
        reached.files |= {name: files[name] for name in names}
        MAP.write_bytes(pickle.dumps(reached))
    reached.asked = set(files)
    return reached


def _run_tests(files: list[str]) -> Path:
    copy = bring_up_to_date("instrumented", lambda module, text: instrumented(text, module))
    shutil.copy(Path(__file__).parent / "reached_blocks.py", copy / "src")
    folder = WORK / "reached"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    run_pytest(copy, {"STROMBOLI_REACHED": str(folder)}, "-n", "2", "-p", "tests.mutants.reach", *files)
    return folder


# The plugin, which runs in the copy.

_of_fixtures: dict[Any, set[str]] = {}
_failed: set[str] = set()
_seconds: dict[str, float] = {}


def _blocks() -> set[str]:
    import reached_blocks  # type: ignore[import-not-found]

    found: set[str] = reached_blocks.blocks
    return found


@pytest.hookimpl(hookwrapper=True)
def pytest_fixture_setup(fixturedef: Any) -> Iterator[None]:
    """What a shared fixture reaches is reached by each test that uses it, as each might be the only one that runs."""
    if fixturedef.scope == "function":
        yield
        return
    before = set(_blocks())
    _blocks().clear()
    yield
    _of_fixtures[fixturedef] = set(_blocks())
    _blocks().update(before)


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: Any) -> Iterator[None]:
    _blocks().clear()
    yield
    found = set(_blocks())
    for definitions in item._fixtureinfo.name2fixturedefs.values():
        for definition in definitions:
            found |= _of_fixtures.get(definition, set())
    if item.nodeid not in _failed:
        line = {"test": item.nodeid, "seconds": round(_seconds.get(item.nodeid, 0.0), 4), "blocks": sorted(found)}
        with open(f"{os.environ['STROMBOLI_REACHED']}/{os.getpid()}.tests", "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid] = _seconds.get(report.nodeid, 0.0) + report.duration
    if report.outcome != "passed":
        _failed.add(report.nodeid)
