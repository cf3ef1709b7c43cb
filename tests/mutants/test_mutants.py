"""The tool that changes the source: on a checkout of one module and its tests, with itself copied into it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from mutants.changes import changes_of
from mutants.explained import explanations, text_of
from mutants.snapshot import PACKAGES, ROOT, modules

# `count` is read by nobody, so a change of it is not noticed. `fits` has a test on both sides of its boundary.
# `refuse` is run only by a process that a test starts.
MODULE = '''"""A rule."""


def fits(free: int, request: int, log: list[str]) -> bool:
    count = len(log)
    count += 1
    return request <= free


def refuse(name: str) -> None:
    if name == "nobody":
        raise ValueError(name)
'''
TESTS = """import subprocess, sys
from pathlib import Path
from stromboli.scheduling.sharing.rule import fits

def test_it_fits():
    assert fits(2, 2, []) and not fits(2, 3, [])

def test_nobody_is_refused():
    command = "from stromboli.scheduling.sharing.rule import refuse; refuse(sys.argv[1])"
    codes = [subprocess.run([sys.executable, "-c", "import sys; " + command, name]).returncode for name in NAMES]
    assert codes == [1, 0]

NAMES = ("nobody", "somebody")
"""


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("checkout")
    shutil.copytree(
        ROOT / "tests" / "mutants",
        top / "tests" / "mutants",
        ignore=shutil.ignore_patterns("*.pyc", "unnoticeable.toml"),
    )
    for name, text in {
        ".gitignore": "/.mutants/\n__pycache__/\n.pytest_cache/\n",
        "pyproject.toml": "[tool.pytest.ini_options]\naddopts = ['--import-mode=importlib']\n",
        "src/stromboli/__init__.py": "",
        "src/stromboli/scheduling/sharing/rule.py": MODULE,
        "tests/test_rule.py": TESTS,
    }.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_text(text)
    subprocess.run(["git", "init", "-q"], cwd=top, check=True)
    return top


def run(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.mutants", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(checkout), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


def files(checkout: Path) -> dict[str, bytes]:
    found = (path for path in checkout.rglob("*") if path.is_file())
    return {str(p): p.read_bytes() for p in found if not {".mutants", ".git", ".pytest_cache"} & set(p.parts)}


def outcomes(output: str, function: str, kind: str) -> list[str]:
    return [line.split()[0] for line in output.splitlines() if f" {function} ({kind})" in line and " s  " in line]


def test_it_says_which_changes_were_noticed_and_changes_nothing_but_copies(checkout: Path) -> None:
    before = files(checkout)
    done = run(checkout, "--count", "100")
    output = done.stdout
    assert done.returncode == 1, output + done.stderr
    assert files(checkout) == before
    assert (checkout / ".mutants/changed-0/src/stromboli/scheduling/sharing/rule.py").read_text() == MODULE
    # `request < free` and `request > free`; True and False instead of the answer.
    assert outcomes(output, "fits", "comparison") == ["killed"] * 2
    assert outcomes(output, "fits", "return") == ["killed"] * 2
    # Nobody is not refused; everybody is, or nobody.
    assert outcomes(output, "refuse", "statement") == ["killed"]
    assert outcomes(output, "refuse", "condition") == ["killed"] * 2
    # `count -= 1`, `count += 2`, `count += 0`, and the statement left out.
    for kind, n in (("arithmetic", 1), ("constant", 2), ("statement", 1)):
        assert outcomes(output, "fits", kind) == ["survived"] * n
    assert output.count("Nobody noticed: stromboli/scheduling/sharing/rule.py:6 fits") == 4
    assert "-    count += 1\n    +    count -= 1" in output


def test_a_survivor_is_tried_again_when_there_are_other_tests(checkout: Path) -> None:
    first = run(checkout, "--count", "100", "--fresh").stdout
    again = run(checkout, "--count", "100").stdout
    assert "survived" in first
    assert "12 changes, 0 of them tried before." in first
    assert "12 changes, 12 of them tried before." in again
    assert not outcomes(again, "fits", "constant")
    test = checkout / "tests" / "test_count.py"
    test.write_text(
        "import sys\nfrom stromboli.scheduling.sharing.rule import fits\n\n"
        "def test_count():\n"
        "    seen = []\n"
        "    sys.settrace(lambda frame, *_: lambda frame, *_: seen.append(frame.f_locals.get('count')))\n"
        "    fits(1, 1, [])\n"
        "    sys.settrace(None)\n"
        "    assert seen[-1] == 1\n"
    )
    try:
        assert outcomes(run(checkout, "--count", "100").stdout, "fits", "constant") == ["killed"] * 2
    finally:
        test.unlink()


def test_a_survivor_may_be_explained(checkout: Path) -> None:
    def explain(*afters: str) -> None:
        entries = [
            f'[[change]]\nfunction = "stromboli.scheduling.sharing.rule:fits"\nbefore = "count += 1"\n'
            f'after = "{after}"\nwhy = "Nobody reads it."\n'
            for after in afters
        ]
        (checkout / "tests" / "mutants" / "unnoticeable.toml").write_text("\n".join(entries))

    explain("count -= 1", "count += 2", "pass")
    first = run(checkout, "--count", "100", "--fresh")
    assert first.returncode == 1
    assert first.stdout.count("Nobody noticed: ") == 1
    assert re.search(r"all +8 +3 +1 +0\n", first.stdout)
    explain("count -= 1", "count += 2", "pass", "count += 0")
    again = run(checkout, "--count", "100")
    assert again.returncode == 0
    assert again.stdout.count("\n    Nobody reads it.\n") == 4
    assert re.search(r"all +8 +4 +0 +0\n", again.stdout)


def test_each_explanation_is_of_a_change_that_can_be_made() -> None:
    """After an edit of the function, it has to be judged again."""
    named = {function for function, _, _ in explanations()}
    made = (change for path, module in modules() for change in changes_of(path, module))
    possible = {text_of(change) for change in made if f"{change.module}:{change.function.name}" in named}
    assert explanations().keys() <= possible
    assert all(why.endswith(".") for why in explanations().values())


def test_the_packages_exist_and_their_changes_are_valid_python() -> None:
    for package in PACKAGES:
        path = ROOT / "src" / "stromboli" / package
        assert path.is_dir() or path.with_suffix(".py").is_file(), package
    changes = changes_of(Path("src/stromboli/scheduling/sharing/reclaim_rule.py"), "reclaim_rule")
    assert len({change.key for change in changes}) == len(changes) > 50
    for change in changes[::7]:
        compile(change.source, "changed", "exec")
        assert change.difference
