"""No function has more branches than a reader can keep in mind, counted as `radon cc` counts them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from radon.complexity import cc_visit
from radon.visitors import Class

SOURCE = Path(__file__).resolve().parents[2] / "src" / "stromboli"

MOST = 20
MOST_IN_SCHEDULING = 15


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Functions and methods of a module, each with those inside it."""
    for block in cc_visit(path.read_text(encoding="utf-8")):
        if not isinstance(block, Class):
            yield f"{path.relative_to(SOURCE)}: {block.fullname}", block.complexity


def test_functions_stay_simple() -> None:
    above: set[str] = set()
    number = 0
    for path in sorted(SOURCE.rglob("*.py")):
        most = MOST_IN_SCHEDULING if path.is_relative_to(SOURCE / "scheduling") else MOST
        for name, complexity in functions(path):
            number += 1
            if complexity > most:
                above.add(name)
    assert number > 5000
    assert not above, "split by idea, or remove the branches that are not needed"
