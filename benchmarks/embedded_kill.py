"""Kill the embedded API server at random instants while it writes, and see what is left.

    python benchmarks/embedded_kill.py --rounds 50 --seed 1

In every round a process opens the same data file and creates, changes and deletes objects as fast as it can. It reports
each write after the server has answered. At a random instant it is killed (SIGKILL). After every round the file must be
intact, every write that was reported must be there, and the version must not be smaller than any that was reported.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from stromboli.embedded.server import ApiServer, Request, Response
from stromboli.embedded.store import ObjectKey, SqliteBackend, Store

MAPS: Final = "/api/v1/namespaces/default/configmaps"
NAMES: Final = 50


def write_forever(path: Path, seed: int) -> None:
    """Report each write as a line: the version, the name, and the value (null if it was deleted)."""
    store = Store(SqliteBackend(path))
    server = ApiServer(store, now=time.time())
    dice = random.Random(seed)
    out = sys.stdout
    number = 0
    while True:
        number += 1
        name, value = f"map-{dice.randrange(NAMES)}", f"{seed}-{number}-" + "x" * dice.randrange(2000)
        exists = store.get(ObjectKey("configmaps", "default", name)) is not None
        body = json.dumps({"metadata": {"name": name}, "data": {"value": value}}).encode()
        if not exists:
            request = Request("POST", MAPS, {}, {}, body)
        elif dice.random() < 0.2:
            request, value = Request("DELETE", f"{MAPS}/{name}"), ""
        else:
            request = Request("PUT", f"{MAPS}/{name}", {}, {}, body)
        outcome = server.handle(request, time.time())
        assert isinstance(outcome, Response), outcome
        assert outcome.status < 300, outcome
        out.write(json.dumps([store.version, name, value or None]) + "\n")
        out.flush()


def run_rounds(rounds: int, seed: int, folder: Path) -> tuple[int, int]:
    """How many writes were acknowledged, and the last version. Raises AssertionError if one of them is lost."""
    path = folder / "objects.sqlite"
    dice = random.Random(seed)
    expected: dict[str, str | None] = {}
    version = total = 0
    for number in range(rounds):
        command = [sys.executable, __file__, "--write", str(path), "--seed", str(seed * 1000 + number)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            lines = [child.stdout.readline() for _ in range(dice.randrange(1, 300))]
            time.sleep(dice.random() * 0.02)
            child.kill()
            lines += child.stdout.readlines()
        for line in lines:
            if not line.endswith("\n"):
                continue  # cut off by the kill
            reported, name, value = json.loads(line)
            assert reported > version, f"round {number}: the version went from {version} to {reported}"
            version, expected[name] = reported, value
            total += 1
        _check(path, expected, version, number)
        # At most one write was made and not reported: from here on it is what is there that counts.
        version, expected = _read(path)
    return total, version


def _check(path: Path, expected: dict[str, str | None], version: int, number: int) -> None:
    backend = SqliteBackend(path)
    try:
        assert backend.check() == "ok", f"round {number}: {backend.check()}"
    finally:
        backend.close()
    stored_version, found = _read(path)
    assert stored_version >= version, f"round {number}: the version went back from {version} to {stored_version}"
    differing = [name for name, value in expected.items() if found.get(name) != value]
    # The write after the last reported one may have happened; it changed one object and has the next version.
    if differing:
        assert len(differing) == 1, f"round {number}: lost: {differing}"
        assert stored_version == version + 1, f"round {number}: lost: {differing}"


def _read(path: Path) -> tuple[int, dict[str, str | None]]:
    backend = SqliteBackend(path)
    try:
        version, rows = backend.load()
        values: dict[str, str | None] = {}
        for key, _, data in rows:
            if key.resource == "configmaps":
                values[key.name] = json.loads(data)["data"]["value"]
        return version, values
    finally:
        backend.close()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.write:
        write_forever(arguments.write, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        total, version = run_rounds(arguments.rounds, arguments.seed, Path(folder))
    print(f"killed {arguments.rounds} times: {total} acknowledged writes, all there; the last version is {version}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
