"""The files that a browser gets, and the order in which scripts depend on each other."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

SCRIPTS: Final = (
    "dom.js", "format.js", "scales.js", "store.js", "figure.js", "table.js", "line_chart.js", "bar_chart.js",
    "gantt.js", "node_map.js", "pictures.js", "job_details.js", "views.js", "stream.js", "main.js",
)  # fmt: skip
"""A script imports only scripts before it. So the report can have them in this order in one file."""

STYLE: Final = "page.css"
INDEX: Final = "index.html"

ASSETS: Final = {
    INDEX: "text/html",
    STYLE: "text/css",
    **dict.fromkeys(SCRIPTS, "text/javascript"),
}
"""What the page serves, with the type of its content."""


@cache
def asset(name: str) -> str:
    if name not in ASSETS:
        raise KeyError(name)
    return (files(__package__) / "assets" / name).read_text(encoding="utf-8")
