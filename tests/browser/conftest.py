"""A browser for the tests of the page: `make test-browser` gets one and says where it is.

A page must never report an error on its console. So every test watches it, and fails at its end if there was one.
Screenshots are in reports/browser.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="make test-browser installs it")

from playwright.sync_api import Browser, Page, expect, sync_playwright

from browser.console_errors import Errors

PROJECT = Path(__file__).resolve().parents[2]
ARTEFACTS = PROJECT / "reports" / "browser"
_ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip
PATIENCE = 60_000  # milliseconds that a condition may take; nothing here depends on how fast the machine is
expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    program = os.environ.get("STROMBOLI_BROWSER")
    if not program:
        pytest.skip("there is no browser; use: make test-browser")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=program, args=_ARGUMENTS)
        yield opened
        opened.close()


@pytest.fixture
def errors() -> Errors:
    return Errors()


@pytest.fixture
def open_page(browser: Browser, errors: Errors) -> Iterator[Callable[..., Page]]:
    opened: list[Page] = []

    def open_one(url: str, *, width: int = 1280, height: int = 900, colours: str = "light") -> Page:
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=colours)
        page.set_default_timeout(PATIENCE)
        page.on("console", errors.note)
        page.on("pageerror", lambda error: errors.seen.append(str(error)))
        opened.append(page)
        page.goto(url)
        return page

    yield open_one
    for page in opened:
        page.close()
    assert errors.unexpected() == []


@pytest.fixture
def screenshot(request: pytest.FixtureRequest) -> Callable[[Page, str], Path]:
    def take(page: Page, name: str) -> Path:
        ARTEFACTS.mkdir(parents=True, exist_ok=True)
        path = ARTEFACTS / f"{name}.png"
        page.screenshot(path=path)
        return path

    return take
