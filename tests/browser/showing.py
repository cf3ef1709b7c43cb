"""What the tests ask a page."""

from __future__ import annotations

from playwright.sync_api import Page

VIEWS = ("overview", "queues", "jobs", "nodes", "timeline", "evictions", "migrations")


def show(page: Page, view: str, key: str = "") -> float:
    """Go to a view, wait until it is drawn, and return how many seconds that took in the browser."""
    path = f"#/{view}" + (f"/{key}" if key else "")
    milliseconds = page.evaluate(
        """async ([path, view]) => {
            const main = document.getElementById("main");
            const start = performance.now();
            delete main.dataset.drawn;
            if (location.hash === path) dispatchEvent(new HashChangeEvent("hashchange"));
            location.hash = path;
            while (!main.dataset.drawn?.startsWith(view)) await new Promise(requestAnimationFrame);
            await new Promise(requestAnimationFrame);
            return performance.now() - start;
        }""",
        [path, view],
    )
    return float(milliseconds) / 1000


def ink(page: Page, selector: str) -> int:
    """How many different colours a canvas has: one that was not drawn has one."""
    return int(
        page.evaluate(
            """(selector) => {
                const canvas = document.querySelector(selector);
                const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
                return new Set(new Uint32Array(data.buffer)).size;
            }""",
            selector,
        )
    )
