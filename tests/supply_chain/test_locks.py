"""The lock files have everything that pyproject.toml asks for, with hashes, and are what is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
EXTRAS = PROJECT["project"]["optional-dependencies"]
ASKED = {
    "build": [*PROJECT["build-system"]["requires"], "editables"],
    "runtime": PROJECT["project"]["dependencies"],
    "dev": [*PROJECT["project"]["dependencies"], *EXTRAS["dev"]],
    "browser": [*PROJECT["project"]["dependencies"], *(text for texts in EXTRAS.values() for text in texts)],
}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
HASH = re.compile(r"--hash=sha256:[0-9a-f]{64}")


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked(name: str) -> dict[str, tuple[Requirement, list[str]]]:
    """The requirements of a lock file by name, each with its hashes."""
    text = (ROOT / "locks" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.lstrip().startswith("#")]
    found = {}
    for line in lines:
        what, *hashes = line.split(" --hash=")
        requirement = Requirement(what.strip())
        assert normalized(requirement.name) not in found, f"{requirement.name} is there twice"
        found[normalized(requirement.name)] = (requirement, [f"--hash={one.strip()}" for one in hashes])
    return found


def version_of(requirement: Requirement) -> str:
    (only,) = requirement.specifier
    assert only.operator == "=="
    assert "*" not in only.version
    return only.version


@pytest.mark.parametrize("name", ASKED)
def test_every_package_is_pinned_with_hashes(name: str) -> None:
    found = locked(name)
    assert len(found) > 3
    for requirement, hashes in found.values():
        version_of(requirement)
        assert requirement.url is None
        assert hashes
        assert all(HASH.fullmatch(one) for one in hashes), requirement


@pytest.mark.parametrize("name", ASKED)
def test_what_the_project_asks_for_is_locked(name: str) -> None:
    found = locked(name)
    for text in ASKED[name]:
        asked = Requirement(text)
        assert normalized(asked.name) in found, f"{asked.name} is missing in locks/{name}.txt; run make locks"
        requirement, _ = found[normalized(asked.name)]
        assert asked.specifier.contains(version_of(requirement)), f"{requirement} does not fit {text}; run make locks"


def test_locks_have_the_versions_of_the_constraints() -> None:
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pinned = dict(line.split("==") for line in lines if not line.startswith("#"))
    constraints = {normalized(name): version for name, version in pinned.items()}
    everything = {name: version_of(one) for name, (one, _) in locked("browser").items()}
    assert {name: everything.get(name) for name in constraints} == constraints, "run make locks"
    for name in ("build", "runtime", "dev"):
        for package, (requirement, _) in locked(name).items():
            assert constraints.get(package, version_of(requirement)) == version_of(requirement)
    assert set(locked("runtime")) <= set(locked("dev")) <= set(locked("browser"))


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("name", ["runtime", "dev"])
def test_nothing_else_would_be_installed(name: str, python: str) -> None:
    """Everything that a locked package needs on Linux is locked as well, or pip would refuse the whole file. What other
    versions of Python need is known from the packages that are installed here."""
    environment = default_environment() | {"python_version": python, "python_full_version": f"{python}.0"}
    found = locked(name)
    seen = 0
    for package, (requirement, _) in found.items():
        if requirement.marker is not None and not requirement.marker.evaluate(dict(environment)):
            continue
        try:
            needed = distribution(package).requires or []
        except PackageNotFoundError:
            continue  # not for this version of Python
        seen += 1
        for text in needed:
            other = Requirement(text)
            if other.marker is None or other.marker.evaluate({**environment, "extra": ""}):
                assert normalized(other.name) in found, f"{package} needs {text}"
    assert seen > 20


def test_installations_check_hashes() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert makefile.count("@scripts/install $(VENV)") == 2
    assert "pip install" not in makefile
    for script, lock in (("scripts/install", "locks/build.txt"), ("Containerfile", "locks/runtime.txt")):
        text = (ROOT / script).read_text(encoding="utf-8")
        assert f"--require-hashes --requirement {lock}" in text
    assert "--constraint" not in (ROOT / "Containerfile").read_text(encoding="utf-8")


def test_an_index_with_other_files_is_refused_or_warned_about(tmp_path: Path) -> None:
    """With a pip that refuses each installation with hashes, LOCKED=yes installs nothing. By default the versions of
    constraints.txt are installed, with a warning."""
    calls = tmp_path / "calls"
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\necho "$@" >>{calls}\ncase "$*" in *--require-hashes*) exit 1;; esac\n')
    python.chmod(0o755)

    def install(policy: str) -> tuple[int, str, list[str]]:
        calls.write_text("")
        command = [ROOT / "scripts" / "install", tmp_path / "venv", "dev"]
        environment = {"PATH": "/usr/bin:/bin", "LOCKED": policy}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        return done.returncode, done.stderr, calls.read_text().splitlines()

    status, error, called = install("yes")
    assert (status, len(called)) == (1, 1)
    assert "are not those of locks/dev.txt; nothing else is installed" in error
    status, error, called = install("")
    assert (status, len(called)) == (0, 2)
    assert "without checking hashes" in error
    assert called[1].endswith("--constraint constraints.txt --editable .[dev]")
    status, error, called = install("no")
    assert (status, error, len(called)) == (0, "", 1)


def test_this_python_is_supported() -> None:
    assert f"{sys.version_info.major}.{sys.version_info.minor}" in PYTHONS
