"""Installing a distribution as pip does, without pip: its modules and a dist-info directory, in a folder on the path.

Tests must not need a network or a build backend, and what Stromboli sees of an installed plugin is no more than this.
"""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path


def install(project: Path, site: Path) -> list[str]:
    """Install the project into `site`, which has to be on `sys.path`; returns the names of its modules."""
    settings = tomllib.loads((project / "pyproject.toml").read_text(encoding="utf-8"))
    about = settings["project"]
    site.mkdir(parents=True, exist_ok=True)
    modules = settings["tool"]["hatch"]["build"]["targets"]["wheel"]["include"]
    for module in modules:
        shutil.copy(project / module, site)
    info = site / f"{about['name'].replace('-', '_')}-{about['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {about['name']}\nVersion: {about['version']}\n", encoding="utf-8"
    )
    lines: list[str] = []
    for group, entries in about["entry-points"].items():
        lines += [f"[{group}]", *(f"{name} = {target}" for name, target in entries.items()), ""]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return [Path(module).stem for module in modules]
