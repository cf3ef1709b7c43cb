"""A disk that is full: what was acknowledged stays, what was refused is not there, and the server goes on."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest

from embedded.api import Api, EmbeddedTransport, config_map
from stromboli.embedded.store import SqliteBackend, Store
from stromboli.errors import UserError

MAPS = "/api/v1/namespaces/default/configmaps"
BIG = {"text": "x" * 20_000}


def set_full(backend: SqliteBackend, full: bool) -> None:
    """SQLite says the same as on a full disk if its file must not grow any more."""
    (pages,) = backend._connection.execute("PRAGMA page_count").fetchone()
    backend._connection.execute(f"PRAGMA max_page_count = {pages if full else 1 << 30}")


def in_process(script: str, path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, str(path)]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )


def names(api: Api) -> list[str]:
    return [item["metadata"]["name"] for item in api.get(MAPS)["items"]]


def test_a_full_disk_refuses_and_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "objects.sqlite"
    backend = SqliteBackend(path)
    api = Api(EmbeddedTransport(Store(backend)))
    api.create(MAPS, {**config_map("first"), "data": BIG})
    set_full(backend, True)
    with caplog.at_level(logging.WARNING):
        for name in ("second", "third"):
            refused = api.call("POST", MAPS, {**config_map(name), "data": BIG})
            assert (refused.status, refused.reason) == (503, "ServiceUnavailable")
            assert refused.body["message"] == (
                f"the change was not made: {path} cannot be written: database or disk is full"
            )
            assert refused.body["details"]["retryAfterSeconds"] == 5
        assert names(api) == ["first"]
        set_full(backend, False)
        api.create(MAPS, {**config_map("second"), "data": BIG})
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        f"{path} cannot be written: database or disk is full; changes are refused until it can be; nothing that was "
        "acknowledged is lost",
        f"{path} can be written again",
    ]
    assert all(record.exc_info is None for record in caplog.records)
    version = api.get(MAPS)["metadata"]["resourceVersion"]
    backend.close()
    again = SqliteBackend(path)
    assert again.check() == "ok"
    api = Api(EmbeddedTransport(Store(again)))
    assert names(api) == ["first", "second"]
    assert int(api.get(MAPS)["metadata"]["resourceVersion"]) >= int(version)
    again.close()


def test_deletions_are_refused_whole(tmp_path: Path) -> None:
    """A deletion is two statements. With the second one refused, the first must not stay."""
    backend = SqliteBackend(tmp_path / "objects.sqlite")
    api = Api(EmbeddedTransport(Store(backend)))
    api.create(MAPS, config_map("one"))
    backend._connection.execute(
        "CREATE TRIGGER full BEFORE UPDATE ON counter BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    assert api.call("DELETE", f"{MAPS}/one").status == 503
    assert names(api) == ["one"]
    backend._connection.execute("DROP TRIGGER full")
    _, rows = backend.load()
    assert "one" in {key.name for key, _, _ in rows}
    assert api.call("DELETE", f"{MAPS}/one").status == 200
    backend.close()


def test_the_servers_own_controllers_go_on_when_there_is_space(tmp_path: Path) -> None:
    """Given an owner that was deleted, its dependent cannot be deleted while the disk is full; afterwards it is."""
    backend = SqliteBackend(tmp_path / "objects.sqlite")
    transport = EmbeddedTransport(Store(backend))
    api = Api(transport)
    owner = api.create(MAPS, config_map("owner"))
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    child = config_map("child")
    child["metadata"]["ownerReferences"] = [reference]
    api.create(MAPS, child)
    transport.settle()
    api.delete(f"{MAPS}/owner", {"propagationPolicy": "Background"})
    backend._connection.execute(
        "CREATE TRIGGER full BEFORE DELETE ON objects BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
    )
    transport.settle()
    assert names(api) == ["child"]
    due = transport.upkeep.next_due(transport.now)
    assert due is not None
    backend._connection.execute("DROP TRIGGER full")
    transport.settle(due - transport.now)
    assert names(api) == []
    assert transport.upkeep.next_due(transport.now) is None
    backend.close()


def test_a_file_that_must_not_grow_is_one_line(tmp_path: Path) -> None:
    """Real errors of the system, in a process of its own: RLIMIT_FSIZE makes each write beyond it fail. When the limit
    is lifted, the same process goes on, and another one finds exactly what was acknowledged."""
    script = f"""
import resource, sys
from pathlib import Path
from embedded.api import Api, EmbeddedTransport, config_map
from stromboli.embedded.store import SqliteBackend, Store
MAPS = {MAPS!r}
path = Path(sys.argv[1])
backend = SqliteBackend(path)
api = Api(EmbeddedTransport(Store(backend)))
soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, hard))
acknowledged, refused = [], 0
for number in range(60):
    body = {{**config_map(f"n{{number:02}}"), "data": {{"text": "x" * 20_000}}}}
    answer = api.call("POST", MAPS, body)
    assert answer.status in (201, 503), answer
    acknowledged += [number] if answer.status == 201 else []
    refused += answer.status == 503
resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
assert acknowledged and refused, (acknowledged, refused)
for number in range(60, 70):
    api.create(MAPS, {{**config_map(f"n{{number:02}}"), "data": {{"text": "x" * 20_000}}}})
    acknowledged.append(number)
print(*acknowledged)
import os
os._exit(0)  # as if it were killed
"""
    path = tmp_path / "objects.sqlite"
    done = in_process(script, path)
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
    backend = SqliteBackend(path)
    assert backend.check() == "ok"
    found = names(Api(EmbeddedTransport(Store(backend))))
    backend.close()
    assert found == [f"n{int(number):02}" for number in done.stdout.split()]


def test_a_full_disk_at_the_start_is_the_users_error(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
from stromboli.console.main import run
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, resource.RLIM_INFINITY))
sys.exit(run(["up", "--data", sys.argv[1], "--no-web"]))
"""
    done = in_process(script, tmp_path / "data")
    assert done.returncode == 2
    assert done.stderr.startswith(f"stromboli: error: {tmp_path}/data/objects.sqlite cannot be used: ")
    assert done.stderr.count("\n") == 1


def test_what_is_no_data_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    path.write_bytes(b"something else " * 1000)
    path.chmod(0o600)
    with pytest.raises(UserError, match="is not a data file of ours"):
        SqliteBackend(path)
