"""A round of the benchmark that kills `stromboli up` while it runs programs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from benchmarks.test_benchmarks import load

program_kills = load("program_kills")


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_no_program_outlives_a_kill_and_none_that_may_run_once_is_started_twice(tmp_path: Path) -> None:
    """Two kills: one at a random instant, one at the end."""
    result = program_kills.run_rounds(1, 4, 7, tmp_path)
    assert (result["programs"], result["kills"]) == (4, 2)
    assert result["starts_of_those_that_run_always"] >= 2
