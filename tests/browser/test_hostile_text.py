"""Names, messages and annotations are what a tenant writes. On the page and in a report they stay text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from browser.large_cluster import served
from browser.showing import VIEWS, show
from stromboli.console.main import run
from stromboli.page import Document, self_contained

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
Open = Callable[..., Page]
HOSTILE = (
    '</script><script>window.hacked=1</script><img src=x onerror="window.hacked=1"> \'"><svg onload=window.hacked=1>'
    "--><a href='javascript:window.hacked=1'>\u202e\u2066 \u0000\u001b[31m\u2028 ${window.hacked=1} &lt; %00 \\"
)
LONG = "long" * 1000
FIXED = {"clock", "state", "kind", "outcome"}  # words of ours, which no tenant writes


def hostile(document: Document) -> Document:
    """The same document with hostile text added to every text; equal texts stay equal, so that rows still refer to each
    other. Some names become those that every object of JavaScript has."""
    special = iter(("constructor", "__proto__", "toString", "hasOwnProperty"))
    known: dict[str, str] = {}

    def changed(text: str) -> str:
        if text not in known:
            own = next(special, None) if re.fullmatch(r"[a-z-]+", text) else None
            known[text] = own or f"{text}{HOSTILE}{LONG if len(known) % 3 == 0 else ''}"
        return known[text]

    def walk(value: Any, name: str = "") -> Any:
        if isinstance(value, dict):
            return {(key if key in FIELDS else changed(key)): walk(part, key) for key, part in value.items()}
        if isinstance(value, list):
            return [walk(part) for part in value]
        return changed(value) if isinstance(value, str) and value and name not in FIXED else value

    plain = json.loads(msgspec.json.encode(document))
    spans = plain["spans"]
    outcomes = [span[6] for span in spans]
    changed_document = walk(plain)
    for span, outcome in zip(changed_document["spans"], outcomes, strict=True):
        span[6] = outcome
    return msgspec.convert(changed_document, Document)


def _fields(described: Any) -> set[str]:
    """The names of all fields in the document."""
    found: set[str] = set()
    waiting = [described]
    while waiting:
        one = waiting.pop()
        if isinstance(one, msgspec.inspect.StructType) and one.cls not in _seen:
            _seen.add(one.cls)
            for field in one.fields:
                found.add(field.encode_name)
                waiting.append(field.type)
        for part in ("item_type", "value_type", "types", "item_types"):
            inner = getattr(one, part, ())
            waiting.extend(inner if isinstance(inner, tuple) else (inner,))
    return found


_seen: set[type] = set()
FIELDS = _fields(msgspec.inspect.type_info(Document))


@pytest.fixture
def document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Document:
    path = tmp_path / "report.html"
    assert run(["simulate", str(EXAMPLES / "demo.yaml"), "--report", str(path)]) == 0
    found = re.search(r'id="document">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    return hostile(msgspec.json.decode(found[1], type=Document))


def look_at_everything(page: Page) -> None:
    for view in VIEWS:
        show(page, view)
        assert page.evaluate("window.hacked") is None
        assert page.locator("script").count() <= 2, "no script was added"
        assert page.locator("main img, main a[href^=javascript]").count() == 0
        sizes = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert sizes[0] <= sizes[1], f"{view} is wider than the window: {sizes}"
        assert "\u202e" not in page.locator("body").inner_text(), "nothing turns around the text after it"
    show(page, "jobs")
    page.locator("main tbody a, main tbody button").first.click()
    expect(page.locator("main")).to_contain_text("onerror")
    page.keyboard.press("Tab")
    assert page.evaluate("window.hacked") is None


def test_a_report_with_hostile_text_in_every_field(document: Document, tmp_path: Path, open_page: Open) -> None:
    path = tmp_path / "hostile.html"
    path.write_bytes(self_contained(document))
    page = open_page(path.as_uri())
    look_at_everything(page)
    assert "onerror" in page.title()


def test_a_page_with_hostile_text_in_every_field(document: Document, open_page: Open) -> None:
    with served(document) as url:
        page = open_page(url)
        expect(page.locator("main")).to_contain_text("onerror")
        look_at_everything(page)
