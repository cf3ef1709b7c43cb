"""Each view on a thousand nodes and two thousand jobs. The times are printed, not tested: machines differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from browser.console_errors import Errors
from browser.large_cluster import JOBS, NODES, large_document, served
from browser.showing import VIEWS, ink, show

Open = Callable[..., Page]
Shot = Callable[[Page, str], Path]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with served(large_document()) as address:
        yield address


@pytest.fixture
def page(open_page: Open, url: str) -> Page:
    opened = open_page(url)
    opened.wait_for_selector("#main[data-drawn]")
    return opened


def test_every_view_is_drawn(page: Page, screenshot: Shot, capsys: pytest.CaptureFixture[str]) -> None:
    times = {"opening": float(page.evaluate("performance.now()")) / 1000}
    for view in VIEWS:
        times[view] = show(page, view)
        expect(page.locator(f'nav a[aria-current="page"][href="#/{view}"]')).to_be_visible()
        screenshot(page, f"large-{view}")
    with capsys.disabled():
        shown = ", ".join(f"{view} {seconds:.2f} s" for view, seconds in times.items())
        print(f"\n{NODES} nodes and {JOBS} jobs: {shown}")


def test_pictures_have_something_on_them(page: Page) -> None:
    show(page, "overview")
    assert page.locator("figure svg path.plot").count() >= 8
    assert page.locator("figure svg rect.bar").count() >= 3
    show(page, "nodes")
    assert ink(page, ".drawing > canvas") > 4
    show(page, "timeline")
    assert ink(page, ".scroller canvas") > 3


def test_a_waiting_job_says_why(page: Page) -> None:
    show(page, "jobs")
    page.get_by_label("Filter").first.fill("job-0007")
    page.get_by_role("link", name="team-7/job-0007").click()
    expect(page.locator(".why")).to_contain_text("It waits: InsufficientGang")
    expect(page.locator(".why")).to_contain_text("Next step: Wait.")


def test_tables_can_be_sorted_and_searched(page: Page) -> None:
    show(page, "nodes")
    page.get_by_label("Filter").fill("node-94")
    expect(page.get_by_text("10 of 1000")).to_be_visible()
    page.get_by_role("button", name="Node", exact=True).click()
    expect(page.locator("tbody tr").first).to_contain_text("node-949")
    expect(page.locator("tbody tr").first).to_contain_text("clinic")
    page.get_by_label("Filter").fill("")
    page.get_by_role("button", name="Show more").click()
    assert page.locator("tbody tr").count() == 600


def test_everything_works_with_the_keyboard(page: Page) -> None:
    show(page, "nodes")
    page.locator(".drawing > canvas").focus()
    for key in ("ArrowRight", "ArrowDown"):
        page.keyboard.press(key)
    expect(page.locator("figure [aria-live]")).to_contain_text("cpu:")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Node node-")).to_be_visible()
    show(page, "timeline")
    page.locator(".scroller").first.focus()
    for key in ("End", "+", "ArrowRight", "0", "Home", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page.get_by_role("heading", name="PodGroup team-")).to_be_visible()
    show(page, "overview")
    page.locator("figure svg").first.focus()
    page.keyboard.press("End")
    expect(page.locator("#tip")).to_contain_text("cpu:")
    page.keyboard.press("Escape")
    expect(page.locator("#tip")).to_be_hidden()


def test_every_picture_has_its_numbers_as_a_table(page: Page) -> None:
    for view in ("overview", "queues", "nodes", "timeline"):
        show(page, view)
        for summary in page.locator("figure summary").all():
            summary.click()
        for table in page.locator("figure details table").all():
            assert table.locator("tbody tr").count() > 0
    show(page, "nodes")
    assert page.locator("figure svg[role=img]:not([aria-label]), figure canvas[role]:not([aria-label])").count() == 0


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_a_phone_needs_no_sideways_scrolling(open_page: Open, url: str, screenshot: Shot, colours: str) -> None:
    page = open_page(url, width=390, height=844, colours=colours)
    page.wait_for_selector("#main[data-drawn]")
    for view in VIEWS:
        show(page, view)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view
        screenshot(page, f"phone-{colours}-{view}")


def test_dark_and_light(open_page: Open, url: str) -> None:
    page = open_page(url, colours="dark")
    page.wait_for_selector("#main[data-drawn]")
    background = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(background)
    page.get_by_role("button", name="Dark or light").click()
    assert page.evaluate(background) != dark
    page.reload()
    page.wait_for_selector("#main[data-drawn]")
    assert page.evaluate(background) != dark


def test_a_wrong_token_leads_to_a_form(open_page: Open, url: str, errors: Errors) -> None:
    errors.expected.append("Failed to load resource: the server responded with a status of 401")
    right = url.partition("#token=")[2]
    page = open_page(url.replace(right, "wrong"))
    expect(page.get_by_text("The token is wrong.")).to_be_visible()
    page.locator("#token").fill(right)
    page.keyboard.press("Enter")
    page.wait_for_selector("#main[data-drawn]")
    assert right not in page.url
