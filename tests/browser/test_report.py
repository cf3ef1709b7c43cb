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


def test_the_map_by_the_domains_of_a_tier(tmp_path: Path, open_page: Open, screenshot: Shot) -> None:
    """Racks a-1, a-2 and b-1, and a node in none of them; the first two are block a."""
    path = tmp_path / "report.html"
    assert run(["simulate", str(EXAMPLES / "topology.yaml"), "--until", "20s", "--report", str(path)]) == 0
    page = open_page(path.as_uri())
    show(page, "nodes")
    canvas = page.locator(".drawing > canvas")
    before = canvas.get_attribute("aria-label") or ""
    assert "domains" not in before
    expect(page.get_by_label("Tier", exact=True).locator("option")).to_have_text(["name", "rack", "block"])
    page.get_by_label("Tier", exact=True).select_option("rack")
    expect(canvas).to_have_attribute("aria-label", before.replace(" Use", " In 4 domains by rack. Use"))
    screenshot(page, "report-racks")
    canvas.focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):  # the second node, and there is no row below it
        page.keyboard.press(key)
    page.keyboard.press("Enter")
    expect(page.locator("section li", has_text="rack: a-1")).to_be_visible()
    expect(page.locator("section li", has_text="block: a")).to_be_visible()
    page.get_by_label("Tier", exact=True).select_option("block")
    expect(canvas).to_have_attribute("aria-label", before.replace(" Use", " In 2 domains by block. Use"))


def test_without_domains_there_is_nothing_to_choose(report: Path, open_page: Open) -> None:
    page = open_page(report.as_uri())
    show(page, "nodes")
    expect(page.get_by_label("Resource")).to_be_visible()
    expect(page.get_by_label("Tier", exact=True)).to_be_hidden()
