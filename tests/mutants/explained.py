"""Changes that make no difference, each with a sentence that says why: `unnoticeable.toml`.

They are known by the text that is changed, not by its line, so an entry stays true until somebody edits that text. Then
it has to be judged again, and a test names it.
"""

from __future__ import annotations

import tomllib
from functools import cache

from .changes import Change
from .snapshot import ROOT

Text = tuple[str, str, str]  # the function, what is written there, and what is written instead
LIST = ROOT / "tests" / "mutants" / "unnoticeable.toml"


@cache
def explanations() -> dict[Text, str]:
    if not LIST.exists():
        return {}
    entries = tomllib.loads(LIST.read_text(encoding="utf-8"))["change"]
    return {(one["function"], one["before"], one["after"]): one["why"] for one in entries}


def text_of(change: Change) -> Text:
    """Its lines, without those around them."""
    lines = {sign: [line[1:].strip() for line in change.difference if line[0] == sign] for sign in "+-"}
    return f"{change.module}:{change.function.name}", " ".join(lines["-"]), " ".join(lines["+"])


def why_unnoticeable(change: Change) -> str | None:
    return explanations().get(text_of(change))
