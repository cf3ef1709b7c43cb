"""The import contracts of pyproject.toml hold, and they are the contracts we mean."""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_import_contracts_hold() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as c; c()", "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_room_has_its_layer() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract.get("containers") == ["stromboli"])
    rank = {room.strip(" ()"): position for position, layer in enumerate(layers) for room in layer.split("|")}
    # A smaller rank may import a greater one; equal ranks must not import each other.
    assert rank["console"] < rank["kube"] == rank["embedded"] == rank["simulation"]
    assert rank["simulation"] < rank["insight"] < rank["controllers"] == rank["descheduling"] < rank["scheduling"]
    assert rank["scheduling"] < rank["cluster"] < rank["api"] < rank["errors"]
    rooms = {path.name.removesuffix(".py") for path in (ROOT / "src/stromboli").iterdir()}
    assert rooms - {"__init__", "__pycache__", "py.typed"} <= set(rank)
