"""`make audit` never calls a package safe that nobody was asked about."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Makes an environment in which pip installs nothing, and pip-audit answers what the test says.
PYTHON = """#!/bin/sh
[ "$1 $2" = "-m venv" ] || exit 1
mkdir -p "$3/bin"
cat >"$3/bin/python" <<'END'
#!/bin/sh
[ "$1 $2" != "-m pip" ] || exit {pip}
exec {real} "$@"
END
cat >"$3/bin/pip-audit" <<'END'
#!/bin/sh
while [ $# -gt 1 ]; do [ "$1" != --output ] || [ ! -e {answer} ] || cp {answer} "$2"; shift; done
echo "some connection error" >&2
END
chmod +x "$3/bin/python" "$3/bin/pip-audit"
"""

SAFE = {"name": "click", "version": "1", "vulns": []}
WEAK = {"name": "yarl", "version": "1", "vulns": [{"id": "CVE-1", "fix_versions": ["2"]}]}
SKIPPED = {"name": "numpy", "skip_reason": "not found on PyPI"}
NOT_ASKED = "the vulnerability database cannot be asked from here, so nothing was audited"


@pytest.mark.parametrize(
    ("answer", "pip", "status", "said"),
    [
        pytest.param([SAFE], 0, 0, "1 of 1 packages audited, 0 known weaknesses", id="safe"),
        pytest.param([SAFE, WEAK], 0, 1, "yarl 1: CVE-1; fixed in: 2", id="weak"),
        pytest.param([SAFE, SKIPPED], 0, 3, "audit: not audited: numpy", id="in part"),
        pytest.param([SKIPPED], 0, 3, NOT_ASKED, id="no database"),
        pytest.param(None, 0, 3, NOT_ASKED, id="no answer"),
        pytest.param(None, 1, 3, "pip-audit cannot be installed from here, so nothing was audited", id="no package"),
    ],
)
def test_what_an_audit_says(answer: list[Any] | None, pip: int, status: int, said: str, tmp_path: Path) -> None:
    file = tmp_path / "answer.json"
    if answer is not None:
        file.write_text(json.dumps({"dependencies": answer}))
    python = tmp_path / "python"
    python.write_text(PYTHON.format(pip=pip, real=sys.executable, answer=file))
    python.chmod(0o755)
    done = subprocess.run([ROOT / "scripts" / "audit", python], capture_output=True, text=True, check=False)
    assert done.returncode == status
    assert said in done.stdout + done.stderr
    if "nothing was audited" in said:
        assert done.stdout == ""
        assert done.stderr.splitlines()[-1].endswith("run it where pypi.org can be reached")
