"""The server on a socket: TLS, tokens, watches, restarts."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest

from embedded.api import Api, HttpTransport, config_map
from embedded.running import running
from stromboli.embedded.embedded_cluster import EmbeddedCluster
from stromboli.embedded.http import http_server
from stromboli.embedded.server.watch import Watch
from stromboli.embedded.store import SqliteBackend
from stromboli.errors import UserError

MAPS = "/api/v1/namespaces/default/configmaps"


def connect(cluster: EmbeddedCluster) -> tuple[int, ssl.SSLContext, str]:
    config = json.loads(cluster.kubeconfig.read_text())
    authority = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    return int(cluster.url.rpartition(":")[2]), context, config["users"][0]["user"]["token"]


def api_of(cluster: EmbeddedCluster) -> Api:
    return Api(HttpTransport(*connect(cluster)))


def test_requests_watches_and_refusals(tmp_path: Path) -> None:
    with running(tmp_path) as cluster:
        port, context, token = connect(cluster)
        api = Api(HttpTransport(port, context, token))
        start = api.get(MAPS)["metadata"]["resourceVersion"]
        api.create(MAPS, config_map("one", a="1"))
        api.delete(f"{MAPS}/one")
        events = api.watch(MAPS, 2, resourceVersion=start)
        assert [event["type"] for event in events] == ["ADDED", "DELETED"]
        assert api.call("GET", MAPS, watch="true", resourceVersion=start, timeoutSeconds=1).status == 200
        for wrong in (None, "", "made-up", token[:-1]):
            stranger = Api(HttpTransport(port, context, wrong))
            assert stranger.call("GET", "/healthz").status == 200
            for path in (MAPS, "/version", "/metrics", "/healthz/x", "/nowhere"):
                answer = stranger.call("GET", path)
                assert (answer.status, answer.reason) == (401, "Unauthorized")
        with pytest.raises(ssl.SSLError):
            Api(HttpTransport(port, ssl.create_default_context(), token)).get("/version")
        for path in ("/api/v1/namespaces/default%2Fpods", "/api/v1/namespaces/%2e%2e/pods", f"/{'x' * 9000}"):
            assert 400 <= api.call("GET", path).status < 500
        many = f"name in ({','.join(f'name-{i:05}' for i in range(2000))})"
        long = api.call("GET", MAPS, labelSelector=many)
        assert (long.status, long.reason) == (400, "BadRequest"), "a long line is answered with a Status, too"
        huge = api.call("POST", MAPS, b'{"a":"' + b"x" * (3 << 20) + b'"}')
        assert (huge.status, huge.reason) == (413, "RequestEntityTooLarge")
        secrets = [path for path in tmp_path.iterdir() if path.is_file()]
        assert {stat.S_IMODE(path.stat().st_mode) for path in secrets} == {0o600}


@pytest.mark.parametrize("bookmarks", ["true", "false"])
def test_a_watch_that_lasts_waits_for_events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bookmarks: str) -> None:
    """One that had asked for no bookmarks looked for events without a pause from the time of the first bookmark on, and
    nobody else was answered any more."""
    looks: list[bool] = []
    poll = Watch.poll

    def counted(watch: Watch, now: float) -> list[bytes]:
        if watch.resource == "configmaps":
            looks.append(watch.bookmarks)
        return poll(watch, now)

    monkeypatch.setattr(http_server, "BOOKMARK_SECONDS", 0.2)
    monkeypatch.setattr(Watch, "poll", counted)
    with running(tmp_path) as cluster:
        answer = api_of(cluster).call("GET", MAPS, watch="true", timeoutSeconds=1, allowWatchBookmarks=bookmarks)
    assert answer.status == 200
    of_this = looks.count(bookmarks == "true")
    assert 2 <= of_this < 20, "once at first, for a bookmark, and at the end"


def test_it_is_all_there_after_a_restart(tmp_path: Path) -> None:
    with running(tmp_path, persistent=True) as cluster:
        api = api_of(cluster)
        api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", _definition())
        api.create("/apis/toys.example.com/v1/balloons", {"metadata": {"name": "b"}, "kind": "Balloon",
                   "apiVersion": "toys.example.com/v1"})  # fmt: skip
        made = api.create(MAPS, config_map("one", a="1"))
        before = int(api.get(MAPS)["metadata"]["resourceVersion"])
        kubeconfig = json.loads(cluster.kubeconfig.read_text())
        with pytest.raises(UserError, match="in use by another process"):
            SqliteBackend(tmp_path / "objects.sqlite")
    with running(tmp_path, persistent=True) as cluster:
        api = api_of(cluster)
        assert api.get(f"{MAPS}/one") == made
        assert api.get("/apis/toys.example.com/v1/balloons/b")["metadata"]["name"] == "b"
        assert int(api.get(MAPS)["metadata"]["resourceVersion"]) >= before
        again = json.loads(cluster.kubeconfig.read_text())
        for part in ("users",):
            assert again[part] == kubeconfig[part], "the token stays"
        old = api.watch(MAPS, 1, resourceVersion=str(before - 2))
        assert (old[0]["type"], old[0]["object"]["code"]) == ("ERROR", 410)


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    async def start() -> None:
        async with EmbeddedCluster(tmp_path / "a", persistent=True) as first:
            port = int(first.url.rpartition(":")[2])
            async with EmbeddedCluster(tmp_path / "b", persistent=True, port=port):
                raise AssertionError("two servers on one port")

    with pytest.raises(UserError, match="Address already in use; choose another --port"):
        asyncio.run(start())
    SqliteBackend(tmp_path / "b" / "objects.sqlite").close()  # nobody holds it


def test_a_file_that_is_not_ours(tmp_path: Path) -> None:
    path = tmp_path / "objects.sqlite"
    path.write_text("no database at all, but long enough to be read as one" * 100)
    path.chmod(0o600)
    with pytest.raises(UserError, match="is not a data file of ours"):
        SqliteBackend(path)


def _definition() -> dict[str, Any]:
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "metadata": {"name": "balloons.toys.example.com"},
        "spec": {
            "group": "toys.example.com", "scope": "Cluster", "versions": [version],
            "names": {"plural": "balloons", "kind": "Balloon"},
        },
    }  # fmt: skip
