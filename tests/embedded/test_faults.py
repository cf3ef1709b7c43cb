"""Malformed requests and sudden deaths: the first cases of the two benchmarks that do the same for longer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.test_benchmarks import load

embedded_fuzz = load("embedded_fuzz")
embedded_kill = load("embedded_kill")


def test_malformed_requests_are_refused_with_a_status() -> None:
    bad: list[tuple[int, str]] = []

    def report(number: int, request: Any, problem: str) -> None:
        bad.append((number, f"{request.method} {request.path[:100]}: {problem}"))

    counts = embedded_fuzz.fuzz(1, range(600), report)
    assert bad == []
    assert {400, 404, 405, 406, 415, 422} <= set(counts)
    assert counts[200] + counts[201] > 10, "some requests must get through, or nothing is tried"


def test_acknowledged_writes_survive_a_kill(tmp_path: Path) -> None:
    total, version = embedded_kill.run_rounds(2, 7, tmp_path)
    assert 0 < total <= version
