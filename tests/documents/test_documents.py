"""What the documents say is so: commands do what is shown, links lead somewhere, tables are complete.

A page that shows a command is a promise to somebody who has just begun. So every command is run, in a scratch copy of
the examples, and what the page shows must come out. Tables of names are compared with the code in both directions; if
one of these tests fails after a change, its message says which row is missing, or is one too many.
"""

from __future__ import annotations

import inspect
import json
import re
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from documents.installing import install
from documents.pages import PAGES, PROJECT, anchors, blocks, commands, links, pattern, prose, table, text_of
from stromboli.api import KINDS
from stromboli.console.main import cli, run
from stromboli.scheduling.configuration import configuration_file as configuration
from stromboli.scheduling.configuration.arguments import Arguments
from stromboli.scheduling.explanation.reasons import Code
from stromboli.scheduling.plugin import Action, Plugin
from stromboli.scheduling.registry import Registry
from stromboli.simulation.journal import EVENT_TYPES

CONFIGURATION = "docs/configuration.md"
PACKAGE = PROJECT / "src" / "stromboli"
ROOMS = {path.name for path in (*PROJECT.iterdir(), *PACKAGE.iterdir())}
NOT_RUN = ("make demo", "make test", "git clone", "cd ")
"""The first two are what continuous integration runs anyway; the others only set the scene."""


# -- commands ---------------------------------------------------------------------------------------------------


def test_every_command_is_on_the_page_of_the_command_line() -> None:
    page = "docs/command-line.md"
    rows = " ".join(row[0] for row in table(page, "command"))
    elsewhere = re.search(r"The other commands have pages of their own: (.*?)\.\n", text_of(page), re.DOTALL)
    assert elsewhere is not None
    titles = " ".join(re.findall(r"\[([^]]+)\]", elsewhere[1]))
    assert set(cli.list_commands(click.Context(cli))) <= set(re.findall(r"[a-z-]+", f"{rows} {titles}"))


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory like the one a reader is in."""
    shutil.copytree(PROJECT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    modules = set(sys.modules)
    yield tmp_path
    for module in set(sys.modules) - modules:
        if str(getattr(sys.modules[module], "__file__", "")).startswith(str(tmp_path)):
            del sys.modules[module]


@pytest.mark.parametrize("page", PAGES)
def test_commands_do_what_is_shown(
    page: str, scratch: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for block in blocks(page):
        if block.file_name:
            (scratch / block.file_name).write_text(block.text, encoding="utf-8")
    for command in commands(page):
        if command.line.startswith(NOT_RUN):
            continue
        program, *arguments = shlex.split(command.line)
        if (program, arguments[:1]) == ("pip", ["install"]):
            install(scratch / arguments[1], scratch / "site-packages")
            monkeypatch.syspath_prepend(scratch / "site-packages")
            continue
        assert program == "stromboli", f"{page}: do not know how to try: {command.line}"
        status = run(arguments)
        said = capfd.readouterr()
        output = "".join(f"{line.rstrip()}\n" for line in (said.err + said.out).splitlines())
        expected = 2 if command.shown.startswith("stromboli: error:") else 0
        assert status == expected, f"{page}: {command.line}\n{output}"
        assert pattern(command.shown).search(output), f"{page}: {command.line}\nshows\n{command.shown}\nbut\n{output}"


@pytest.mark.parametrize("page", PAGES)
def test_files_on_a_page_are_used_there(page: str) -> None:
    lines = [command.line for command in commands(page)]
    for block in blocks(page):
        if block.language == "yaml":
            list(yaml.safe_load_all(block.text))
        if block.file_name:
            assert any(block.file_name in shlex.split(line) for line in lines), f"{page}: nobody uses {block.file_name}"


def test_code_on_a_page_is_code_of_the_example() -> None:
    """Or readers would copy what nobody has ever run."""
    example = (PROJECT / "examples/plugin/stromboli_thrift.py").read_text(encoding="utf-8")
    announced = (PROJECT / "examples/plugin/pyproject.toml").read_text(encoding="utf-8")
    shown = [block for block in blocks("docs/plugins.md") if block.language in ("python", "toml")]
    assert {block.language for block in shown} == {"python", "toml"}
    for block in shown:
        assert block.text in (example if block.language == "python" else announced)


def test_what_is_shown_is_taken_at_its_word() -> None:
    output = "one\ntwo  2\nthree\n"
    assert pattern("one\n…\nthree").search(output)
    assert pattern("two … 2").search("two 1 2\n")
    assert pattern("two     2").search(output)
    assert pattern("…\nthree").search(output)
    assert pattern("").search(output)
    assert not pattern("one\nthree").search(output)
    assert not pattern("wo  2").search(output)
    assert not pattern("two").search(output)


# -- links ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in links(page):
        path, _, anchor = link.partition("#")
        target = (PAGES[page].parent / path).resolve() if path else PAGES[page]
        assert target.exists(), f"{page}: {link} leads nowhere"
        if anchor:
            assert anchor in anchors(target.relative_to(PROJECT).as_posix()), f"{page}: {link} is no heading there"


@pytest.mark.parametrize("page", PAGES)
def test_modules_and_folders_on_a_page_exist(page: str) -> None:
    """Paths in code marks, below the project or below the package."""
    for path in re.findall(r"`((?:\w+/)+\w*(?:\.py)?)`", text_of(page)):
        if path.split("/")[0] in ROOMS:
            found = [root / path for root in (PROJECT, PACKAGE) if (root / path).exists()]
            assert found or (PACKAGE / f"{path}.py").exists(), f"{page}: {path} does not exist"


def test_the_index_has_every_page() -> None:
    pages = {Path(page).name for page in PAGES if page.startswith("docs/")} - {"index.md"}
    assert set(links("docs/index.md")) - {"../README.md"} == pages


def test_every_example_is_shown_somewhere() -> None:
    lines = " ".join(command.line for page in PAGES for command in commands(page))
    for example in sorted((PROJECT / "examples").glob("*.yaml")):
        name = f"examples/{example.name}"
        assert name in lines or example.name == "demo.yaml", f"no page shows {name}"


# -- scenarios --------------------------------------------------------------------------------------------------


def test_every_kind_has_its_place() -> None:
    documented = {(row[0], kind) for row in table("docs/scenarios.md", "`apiVersion`") for kind in row[1].split(", ")}
    same(set(KINDS), documented, what="docs/scenarios.md, kinds")


def test_the_sections_of_the_report_are_those_documented(capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", str(PROJECT / "examples/starvation.yaml"), "-o", "json"]) == 0
    report = json.loads(capfd.readouterr().out)
    rows = {section: content for section, _, content in table("docs/scenarios.md", "section")}
    same(set(report), set(rows), what="docs/scenarios.md, sections")
    times = {"submitted", "admitted", "started", "ended", "waited", "pods"}
    for section in ("pods", "podGroups", "jobs", "queues", "namespaces", "nodes"):
        words = set(re.findall(r"\w+", rows[section]))
        for found in list(report[section].values())[:1]:
            known = words | times if "the times below" in rows[section] else words
            assert set(found) <= known, f"docs/scenarios.md, {section}: {sorted(set(found) - known)}"
    same(set(report["summary"]), set(re.findall(r"\w+", rows["summary"])) & set(report["summary"]), what="summary")


def test_event_types_are_documented() -> None:
    documented = {name for row in table("docs/scenarios.md", "event type") for name in re.findall(r"\w+", row[0])}
    same(set(EVENT_TYPES), documented, what="docs/scenarios.md, event types")


# -- configuration ----------------------------------------------------------------------------------------------


class Listening(Arguments):
    """Arguments that say nothing, and note what is asked: the key and its default."""

    def __init__(self, asked: dict[str, Any] | None = None, prefix: str = "") -> None:
        super().__init__()
        self.asked: dict[str, Any] = {} if asked is None else asked
        self.prefix = prefix

    def section(self, key: str) -> Arguments:
        return Listening(self.asked, f"{self.prefix}{key}, ")

    def integer(self, key: str, default: int, **limits: Any) -> int:
        self.asked[self.prefix + key] = default
        return super().integer(key, default, **limits)

    def number(self, key: str, default: float, **limits: Any) -> float:
        self.asked[self.prefix + key] = default
        return super().number(key, default, **limits)

    def boolean(self, key: str, default: bool) -> bool:
        self.asked[self.prefix + key] = default
        return super().boolean(key, default)

    def text(self, key: str, default: str, **limits: Any) -> str:
        self.asked[self.prefix + key] = default
        return super().text(key, default, **limits)

    def texts(self, key: str) -> tuple[str, ...]:
        self.asked[self.prefix + key] = ""
        return super().texts(key)

    def quantity(self, key: str, default: str, **limits: Any) -> int:
        self.asked[self.prefix + key] = default
        return super().quantity(key, default, **limits)

    def duration(self, key: str, default: float, **limits: Any) -> float:
        self.asked[self.prefix + key] = default
        return super().duration(key, default, **limits)


BUILT_IN = Registry(installed_plugins=(), installed_actions=())


def parts(kind: str) -> dict[str, type[Plugin] | type[Action]]:
    if kind == "plugin":
        return {name: BUILT_IN.plugin(name) for name in BUILT_IN.plugin_names()}
    return {name: BUILT_IN.action(name) for name in BUILT_IN.action_names()}


def same(found: object, documented: object, *, what: str) -> None:
    assert isinstance(found, set)
    assert isinstance(documented, set)
    assert not found - documented, f"{what}: without a row: {sorted(found - documented)}"
    assert not documented - found, f"{what}: rows for what does not exist: {sorted(documented - found)}"


@pytest.mark.parametrize("kind", ["action", "plugin"])
def test_every_name_has_its_row(kind: str) -> None:
    says = {"action": "what it does", "plugin": "what it is for"}[kind]
    documented = {name for name, _ in table(CONFIGURATION, kind, says)}
    same(set(parts(kind)), documented, what=f"{CONFIGURATION}, {kind}s")


@pytest.mark.parametrize("kind", ["action", "plugin"])
def test_every_argument_has_its_row_and_its_default(kind: str) -> None:
    asked: dict[tuple[str, str], str] = {}
    for name, part in parts(kind).items():
        listening = Listening()
        part(listening)
        asked |= {(name, key): _written(default) for key, default in listening.asked.items()}
    documented = {(name, key): default for name, key, default, _ in table(CONFIGURATION, kind, "argument")}
    plain = {pair: default for pair, default in documented.items() if "<" not in pair[1]}
    same(set(asked), set(plain), what=f"{CONFIGURATION}, arguments of {kind}s")
    assert asked == plain


def test_arguments_named_after_others_are_read() -> None:
    """`a.<name>` stands for one argument for each name that the argument `a` lists."""
    for plugin, key, _, _ in table(CONFIGURATION, "plugin", "argument"):
        if ".<" in key and ", " not in key:
            base = key.partition(".<")[0]
            arguments = Arguments({base: "example.com/thing", f"{base}.example.com/thing": 2})
            BUILT_IN.plugin(plugin)(arguments)
            assert arguments.warnings() == ()


def _written(default: object) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    if default == "":
        return "none"
    return f"{default:g}" if isinstance(default, int | float) else str(default)


def test_every_flag_has_its_row() -> None:
    documented = {flag for row in table(CONFIGURATION, "flag") for flag in re.findall(r"enable(\w+)", row[0])}
    same(set(configuration._FLAGS), documented, what=f"{CONFIGURATION}, flags")


def test_the_built_in_configuration_is_the_one_shown() -> None:
    [shown] = [block for block in blocks(CONFIGURATION) if block.file_name == "scheduler.yaml"]
    written, built_in = BUILT_IN.load(shown.text), BUILT_IN.default()
    assert [action.name for action in written.actions] == [action.name for action in built_in.actions]
    assert [[(p.name, p.enabled) for p in tier.plugins] for tier in written.tiers] == [
        [(p.name, p.enabled) for p in tier.plugins] for tier in built_in.tiers
    ]
    assert written.warnings == ()


# -- words ------------------------------------------------------------------------------------------------------


def test_every_reason_has_its_row() -> None:
    codes = {value for name, value in vars(Code).items() if not name.startswith("_")}
    documented = {row[0] for row in table("docs/why-pending.md", "code")}
    same(codes, documented, what="docs/why-pending.md, codes")


def test_words_of_the_vocabulary_are_used() -> None:
    elsewhere = " ".join(text_of(page) for page in PAGES if page != "docs/vocabulary.md").lower()
    source = "\n".join(path.read_text(encoding="utf-8") for path in sorted((PROJECT / "src").rglob("*.py")))
    words = table("docs/vocabulary.md", "word")
    assert [row[0].lower() for row in words] == sorted(row[0].lower() for row in words)
    for row, line in zip(words, _raw_rows("docs/vocabulary.md"), strict=True):
        for word in row[0].split(", "):
            assert word.lower() in elsewhere, f"no page uses the word {word}"
        for name in re.findall(r"`([^`]+)`", line.rsplit("|", 2)[1]):
            assert name in source or name.upper() in source, f"{row[0]}: {name} is not in the code"


def _raw_rows(page: str) -> list[str]:
    lines = [line for line in prose(page).splitlines() if line.startswith("|")]
    return lines[2:]


def test_callbacks_a_page_names_exist() -> None:
    from stromboli.scheduling.session import Session

    named = {name for page in ("docs/plugins.md", "docs/design.md") for name in names_of_callbacks(text_of(page))}
    exist = {name for name, _ in inspect.getmembers(Session, inspect.isfunction)}
    assert named
    assert named <= exist


def test_every_extension_point_has_its_row() -> None:
    from stromboli.scheduling.extension_points import ExtensionPoints

    exist = {name for name, _ in inspect.getmembers(ExtensionPoints, inspect.isfunction) if name.startswith("add_")}
    documented = {name for row in table("docs/plugins.md", "register with") for name in re.findall(r"add_\w+", row[0])}
    same(exist, documented, what="docs/plugins.md, extension points")


def names_of_callbacks(text: str) -> list[str]:
    return re.findall(r"`(add_\w+)`", text)
