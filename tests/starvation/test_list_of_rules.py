"""The numbered rules of docs/starvation.md and the modules of `scheduling/starvation` are the same list."""

from __future__ import annotations

import ast
import re

from documents.pages import PROJECT

PACKAGE = PROJECT / "src" / "stromboli" / "scheduling" / "starvation"


def first_lines() -> dict[str, str]:
    modules = sorted(PACKAGE.glob("*.py"))
    return {
        path.stem: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").partition("\n")[0]
        for path in modules
        if path.stem != "__init__"
    }


def stated() -> list[tuple[int, str]]:
    text = (PROJECT / "docs" / "starvation.md").read_text(encoding="utf-8")
    section = text.partition("\n## The rules\n")[2].partition("\n## ")[0]
    return [(int(number), title) for number, title in re.findall(r"^(\d+)\. \*\*(.+?)\*\*", section, re.M)]


def test_each_rule_is_one_module_and_each_module_a_rule() -> None:
    built = [
        (int(rule[1]), rule[2]) for line in first_lines().values() if (rule := re.fullmatch(r"Rule (\d+)\. (.+)", line))
    ]
    assert sorted(built) == stated()
    assert [number for number, _ in stated()] == list(range(1, len(stated()) + 1))


def test_other_modules_say_which_rule_they_are_behind() -> None:
    others = {name: line for name, line in first_lines().items() if not line.startswith("Rule ")}
    assert all(re.match(r"Behind (the rules|rule \d+, for speed): ", line) for line in others.values()), others
