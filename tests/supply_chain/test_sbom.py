"""The bill of materials has what is installed, all of it, and nothing else."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
ASSETS = ROOT / "src" / "stromboli" / "page" / "assets"


def made(*options: str) -> bytes:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "make-sbom", *options], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@pytest.fixture(scope="module")
def sbom() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(made())
    return found


def libraries(document: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one["version"] for one in document["components"] if one["type"] == "library"}


def test_it_is_what_the_format_wants(sbom: dict[str, Any]) -> None:
    """The fields that CycloneDX 1.6 requires, and references that lead somewhere."""
    assert (sbom["bomFormat"], sbom["specVersion"], sbom["version"]) == ("CycloneDX", "1.6", 1)
    assert re.fullmatch(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", sbom["serialNumber"])
    parts = [sbom["metadata"]["component"], *sbom["components"]]
    references = [one["bom-ref"] for one in parts]
    assert len(references) == len(set(references))
    for one in parts:
        assert one["type"] in ("application", "library", "file")
        assert one["name"]
    for edge in sbom["dependencies"]:
        assert {edge["ref"], *edge["dependsOn"]} <= set(references)
    assert {edge["ref"] for edge in sbom["dependencies"]} == {one["purl"] for one in parts if "purl" in one}


def test_it_has_the_versions_that_are_installed(sbom: dict[str, Any]) -> None:
    found = libraries(sbom)
    assert {"numpy", "aiohttp", "cryptography", "msgspec", "yarl", "cffi"} <= set(found)
    assert found == {name: version(name) for name in found}
    assert sbom["metadata"]["component"]["version"] == version("stromboli")
    for one in sbom["components"]:
        if one["type"] == "library":
            assert one["purl"] == f"pkg:pypi/{one['name']}@{one['version']}"


def test_it_has_what_runs_and_not_what_tests(sbom: dict[str, Any]) -> None:
    """All that is imported by a scheduler is in it; pytest is only in that of the developers."""
    assert "pytest" not in libraries(sbom)
    everything = libraries(json.loads(made("--extra", "dev")))
    assert {"pytest", "ruff", "kubernetes"} <= set(everything)
    assert libraries(sbom).items() <= everything.items()
    script = (
        "import sys\n"
        "import stromboli.kube.commands.processes, stromboli.console.up.cluster, stromboli.simulation.engine\n"
        "import stromboli.kube.scheduler, stromboli.kube.controllers, stromboli.scheduling.cycle\n"
        "print(*{name.partition('.')[0] for name in sys.modules})\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    owners: dict[str, set[str]] = {}
    for one in distributions():
        for file in one.files or ():
            top = file.parts[0].removesuffix(".py").partition(".")[0]
            owners.setdefault(top, set()).add(re.sub(r"[-_.]+", "-", one.metadata["Name"]).lower())
    for module in done.stdout.split():
        if module in owners and not owners[module] & {"stromboli", "setuptools", "pip"}:
            assert owners[module] & set(libraries(sbom)), f"{module} is used, and in no package of the list"


def test_the_files_of_the_page_are_in_it(sbom: dict[str, Any]) -> None:
    listed = {one["name"]: one["hashes"] for one in sbom["components"] if one["type"] == "file"}
    expected = {
        f"stromboli/page/assets/{file.relative_to(ASSETS)}": [
            {"alg": "SHA-256", "content": hashlib.sha256(file.read_bytes()).hexdigest()}
        ]
        for file in ASSETS.rglob("*")
        if file.is_file()
    }
    assert listed == expected
    assert len(listed) > 10


def test_equal_environments_give_equal_bytes() -> None:
    assert made() == made()


def test_wrong_options_are_one_line() -> None:
    done = subprocess.run([sys.executable, ROOT / "scripts" / "make-sbom", "-x"], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (1, "usage: scripts/make-sbom [--extra NAME]...\n")
