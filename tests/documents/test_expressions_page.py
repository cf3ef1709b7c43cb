"""docs/embedded.md lists the functions that expressions may call: all that there are, and no other."""

from __future__ import annotations

import re

from documents.pages import text_of
from stromboli.embedded.cel.functions import FUNCTIONS
from stromboli.embedded.cel.macros import MACROS

OF_POLICIES = {"variables", "params", "namespaceObject", "request", "authorizer"}


def test_the_page_lists_every_function_and_macro() -> None:
    section = text_of("docs/embedded.md").partition("## Expressions")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("| ")][1:]
    listed = {name for row in rows for name in re.findall(r"`([A-Za-z_.]+)`", row)} - OF_POLICIES
    functions = {name for name, _ in FUNCTIONS if re.fullmatch(r"[A-Za-z.]+", name)}
    macros = {"cel.bind" if name == "bind" else name for name, _, _ in MACROS}
    assert listed == functions | macros
