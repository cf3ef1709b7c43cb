"""Files with random mistakes end with status 0, or with status 2 and one line: the first cases of the fuzzer."""

from __future__ import annotations

from itertools import islice
from typing import Any

import yaml

from benchmarks.test_benchmarks import load
from stromboli.api.kinds.registry import KINDS

fuzz_files = load("fuzz_files")
FILES = 200


def test_mutated_files_are_run_or_refused() -> None:
    bad: list[tuple[int, str]] = []

    def report(case: Any, outcome: Any) -> None:
        bad.append((case.number, f"status {outcome.status}: {outcome.output}"))

    counts = fuzz_files.fuzz(1, range(FILES), workers=1, seconds=300.0, report=report)
    assert bad == []
    assert counts["ran"] + counts["refused"] == FILES
    assert counts["ran"] > FILES / 5  # otherwise the mutations are too wild to find anything beyond the reader
    assert counts["refused"] > FILES / 5


def test_mistakes_are_made_in_all_kinds_that_users_write() -> None:
    [text, *_], _, _ = fuzz_files.seeds()
    found = {(one["apiVersion"], one["kind"]) for one in yaml.safe_load_all(text)}
    assert sorted(KINDS.keys() - found) == [("apps/v1", "ControllerRevision")], "the controllers write that one"


def test_a_file_is_always_the_same() -> None:
    assert fuzz_files.make_case(3, 7) == fuzz_files.make_case(3, 7)
    assert fuzz_files.make_case(3, 7) != fuzz_files.make_case(4, 7)


def test_what_counts_as_bad() -> None:
    outcome = fuzz_files.Outcome
    assert outcome(0, "").is_good
    assert outcome(2, "stromboli: error: no").is_good
    assert not outcome(1, "stromboli: error: this is a bug in stromboli").is_good
    assert not outcome(2, "Traceback").is_good
    assert not outcome(None, "").is_good
    assert not outcome(-11, "the process died").is_good


def test_a_value_that_is_a_part_of_itself_has_each_place_once() -> None:
    value: list[Any] = [1]
    value += [value, value]
    assert len(list(islice(fuzz_files._places(value), 100))) == 3
