"""The report of a simulation in a browser, from a file and without a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.showing import VIEWS, ink, show
from stromboli.console.main import run

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Open = Callable[..., Page]
Shot = Callable[[Page, str], Path]


@pytest.fixture
def report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = tmp_path / "report.html"
    assert run(["simulate", str(EXAMPLES / "demo.yaml"), "--report", str(path)]) == 0
    return path


def test_every_view_of_the_report(report: Path, open_page: Open, screenshot: Shot) -> None:
    page = open_page(report.as_uri())
    requests: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    for view in VIEWS:
        show(page, view)
        screenshot(page, f"report-{view}")
    assert requests == []
    show(page, "jobs", "science/monster")
    expect(page.locator(".why")).to_contain_text("The pod can never start")


def test_the_map_goes_back_in_time(report: Path, open_page: Open) -> None:
    page = open_page(report.as_uri())
    show(page, "nodes", "node-a")
    details = page.locator("section li", has_text="of 8 used")
    expect(details).to_contain_text("8 of 8 used")
    page.get_by_label("Time").fill("11.5")  # seven pods were evicted at 11 s, and their successors start at 12 s
    expect(details).to_contain_text("0 of 8 used")
    assert ink(page, ".drawing > canvas") > 1
