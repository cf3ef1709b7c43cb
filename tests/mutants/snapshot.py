"""Copies of the checkout, so that one can go on working while changes are tried.

A copy is brought up to date file by file: what is the same keeps its time, and with it the compiled files beside it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / ".mutants"

# Where a mistake costs somebody a pod, a place or a share. A folder or a module.
PACKAGES = (
    "scheduling/sharing",
    "scheduling/starvation",
    "scheduling/eviction",
    "scheduling/reservations",
    "scheduling/queue_locks",
    "scheduling/gang",
    "scheduling/attempt",
    "scheduling/statement",
    "descheduling/migration",
    "kube/scheduler",
    "kube/runtime/leader_election",
)


def modules() -> list[tuple[Path, str]]:
    """The modules of the packages: their paths below the top of the checkout, and their names."""
    base = ROOT / "src" / "stromboli"
    found = [path for name in PACKAGES for path in (*(base / name).rglob("*.py"), *base.glob(f"{name}.py"))]
    paths = sorted(path.relative_to(ROOT) for path in found)
    return [(path, ".".join(path.with_suffix("").parts[1:]).removesuffix(".__init__")) for path in paths]


def digest(path: Path) -> str:
    return sha256(path.read_bytes()).hexdigest()[:16]


def bring_up_to_date(name: str, rewrite: Callable[[str, str], str] | None = None) -> Path:
    """The copy of that name. `rewrite` gets the name and the text of each module of the packages."""
    copy = WORK / name
    listed = subprocess.run(
        ["git", "ls-files", "-coz", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout
    paths = {Path(path) for path in listed.split("\0") if path and (ROOT / path).is_file()}
    rewritten = dict(modules()) if rewrite else {}
    for path in paths:
        content = (ROOT / path).read_bytes()
        if rewrite and path in rewritten:
            content = rewrite(rewritten[path], content.decode()).encode()
        target = copy / path
        if target.is_file() and target.read_bytes() == content:
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
        shutil.copymode(ROOT / path, target)
    for folder in ("src", "tests"):
        for file in (copy / folder).rglob("*.py"):
            if file.relative_to(copy) not in paths:
                file.unlink()
    return copy


def run_pytest(copy: Path, variables: dict[str, str], *arguments: str) -> None:
    """With a path on which Python finds the copy, and no other checkout that is installed."""
    path = os.pathsep.join((str(copy / "src"), str(copy)))
    command = [sys.executable, "-m", "pytest", "-q", "--no-header", *arguments]
    subprocess.run(command, cwd=copy, env={**os.environ, **variables, "PYTHONPATH": path}, check=False)
