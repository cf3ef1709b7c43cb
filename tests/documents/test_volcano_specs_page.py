"""docs/volcano-admission.md says of each spec what the servers are seen to do, and counts them."""

from __future__ import annotations

from documents.pages import text_of
from documents.volcano_specs_table import counts, tables


def test_the_page_has_the_tables() -> None:
    _, heading, rest = text_of("docs/volcano-admission.md").partition("## ")
    assert heading + rest.rstrip("\n") == "\n\n".join(tables())


def test_the_page_counts() -> None:
    found = counts()
    said = f"{found.total()} specs: {found['door']} at the door, {found['controller']} by the controllers, "
    assert f"{said}{found['different']} different" in text_of("docs/volcano-admission.md")
