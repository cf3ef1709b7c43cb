"""Worlds that once broke a rule, made small. Each file says what happened."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from all_features.judge import judge
from all_features.world import World

FILES = sorted((Path(__file__).parent / "regressions").glob("*.yaml"))


def world_of(file: Path) -> World:
    told = yaml.safe_load(file.read_text(encoding="utf-8"))
    return World(told["documents"], told["scheduler"], told["descheduler"], told["until"])


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_a_world_that_once_failed_is_in_order(file: Path) -> None:
    verdict = judge(world_of(file), 0)
    assert verdict.findings == []
    assert verdict.judged["ledger: binds"] > 0


def test_there_are_such_worlds() -> None:
    assert FILES
