"""The drawing and the tables of docs/design.md agree with the code and with the import contracts."""

from __future__ import annotations

import ast
import re
import tomllib
from importlib import import_module
from pathlib import Path

from documents.pages import PROJECT, blocks, table
from stromboli.scheduling.features import FEATURES

PAGE = "docs/design.md"
SOURCE = PROJECT / "src" / "stromboli"


def drawing() -> str:
    return next(block.text for block in blocks(PAGE) if block.language == "text")


def test_every_module_in_the_drawing_exists() -> None:
    modules = re.findall(r"[\w/]+\.py|\w+(?:/\w+)*/(?=\s)", drawing())
    assert len(modules) > 15
    for module in modules:
        assert (SOURCE / module).exists(), f"{PAGE}: {module} does not exist"


def test_every_function_in_the_drawing_is_in_its_module() -> None:
    """`name()` belongs to the last module named before it."""
    module = ""
    checked = 0
    for token in re.findall(r"[\w/]+\.py|[\w.]+\(\)", drawing()):
        if token.endswith(".py"):
            module = f"stromboli.{token.removesuffix('.py').replace('/', '.')}"
            continue
        found: object = import_module(module)
        for name in token.removesuffix("()").split("."):
            assert hasattr(found, name), f"{PAGE}: {module} has no {token}"
            found = getattr(found, name)
        checked += 1
    assert checked > 15


def layers(container: str) -> list[set[str]]:
    contracts = tomllib.loads((PROJECT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]
    [contract] = [c for c in contracts["contracts"] if c.get("containers") == [container]]
    parts = [[part.strip() for part in layer.split("|")] for layer in contract["layers"]]
    return [{part for part in layer if not part.startswith("(")} for layer in parts]  # parentheses: not built yet


def rows(*header: str) -> list[set[str]]:
    return [set(re.findall(r"\w+", row[0])) for row in table(PAGE, *header)]


def test_the_table_of_packages_is_the_contract() -> None:
    assert rows("packages") == layers("stromboli")


def test_contributors_see_the_same_packages() -> None:
    shown = [set(re.findall(r"\w+", row[0])) for row in table("CONTRIBUTING.md", "package")]
    assert shown == [layer for layer in layers("stromboli") if layer != {"__main__"}]


def test_the_table_of_scheduling_is_the_contract() -> None:
    assert rows("modules of `scheduling`") == layers("stromboli.scheduling")


def imported_by(folder: Path) -> set[str]:
    """Which parts of `scheduling` the modules of a folder import."""
    found = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stromboli.scheduling."):
                assert node.module is not None
                found.add(node.module.split(".")[2])
    return found


def test_features_import_each_other_only_where_the_table_says_so() -> None:
    documented = table(PAGE, "feature", "opened by", "state")
    features = {row[0] for row in documented}
    assert {open_feature.__module__.split(".")[2] for open_feature in FEATURES} == features
    assert {open_feature.__name__ for open_feature in FEATURES} == {row[1] for row in documented}
    for feature, _, states, exceptions in documented:
        package = import_module(f"stromboli.scheduling.{feature}")
        for state in re.findall(r"\w+", states):
            assert hasattr(package, state), f"{PAGE}: {feature} has no {state}"
        actual = imported_by(SOURCE / "scheduling" / feature) & features - {feature}
        assert actual == set(re.findall(r"\w+", exceptions)) - {"none"}, f"{PAGE}: what {feature} imports"
