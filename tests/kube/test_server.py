"""The API server that the tests of this folder use: what they assume about it."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from kube.client import Client, Refused, eventually
from kube.server import ApiServer, MissingAssets, find_assets

PROJECT = Path(__file__).parents[2]


def settings(name: str, **data: str) -> dict[str, object]:
    return {"metadata": {"name": name}, "data": data}


def test_it_is_ready_and_has_the_default_namespace(admin: Client) -> None:
    assert admin.text("/readyz") == "ok"
    assert admin.get("/api/v1/namespaces/default")["status"]["phase"] == "Active"


def test_a_pod_needs_no_service_account_and_can_be_bound(admin: Client, namespace: str) -> None:
    pods = f"/api/v1/namespaces/{namespace}/pods"
    admin.create(pods, {"metadata": {"name": "one"}, "spec": {"containers": [{"name": "main", "image": "none"}]}})
    admin.create(f"{pods}/one/binding", {"metadata": {"name": "one"}, "target": {"kind": "Node", "name": "n1"}})
    assert admin.get(f"{pods}/one")["spec"]["nodeName"] == "n1"


def test_custom_resources_are_stored_checked_and_defaulted(admin: Client, namespace: str) -> None:
    properties = {"size": {"type": "integer", "minimum": 1}, "colour": {"type": "string", "default": "red"}}
    spec = {"type": "object", "properties": properties}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}},
    }
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    definition = {
        "metadata": {"name": "balloons.toys.example.com"},
        "spec": {
            "group": "toys.example.com",
            "scope": "Namespaced",
            "names": {"plural": "balloons", "singular": "balloon", "kind": "Balloon", "listKind": "BalloonList"},
            "versions": [version],
        },
    }

    def balloon(name: str, size: int) -> dict[str, object]:
        return {
            "apiVersion": "toys.example.com/v1",
            "kind": "Balloon",
            "metadata": {"name": name},
            "spec": {"size": size},
        }

    def established() -> bool:
        conditions = admin.get(f"{definitions}/balloons.toys.example.com")["status"]["conditions"] or []
        return ("Established", "True") in [(condition["type"], condition["status"]) for condition in conditions]

    balloons = f"/apis/toys.example.com/v1/namespaces/{namespace}/balloons"
    admin.create(definitions, definition)
    try:
        eventually(established)
        admin.create(balloons, balloon("one", 3))
        admin.patch(f"{balloons}/one", {"spec": {"size": 4}})
        assert [item["spec"] for item in admin.list(balloons)] == [{"size": 4, "colour": "red"}]
        with pytest.raises(Refused, match="should be greater than or equal to 1"):
            admin.create(balloons, balloon("two", 0))
    finally:
        admin.delete(f"{definitions}/balloons.toys.example.com")


def test_objects_survive_stop_and_crash(api_server: ApiServer, admin: Client, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    admin.create(maps, settings("kept", answer="42"))
    for outage in (api_server.stop, api_server.kill):
        outage()
        with pytest.raises(ConnectionRefusedError):
            admin.text("/readyz")
        api_server.start()
        assert admin.get(f"{maps}/kept")["data"] == {"answer": "42"}


def test_stopping_ends_an_open_watch(api_server: ApiServer, admin: Client, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    events = admin.watch(maps)
    admin.create(maps, settings("one"))
    assert next(events)["type"] == "ADDED"
    api_server.stop()
    assert list(events) == []


def test_paused_it_takes_connections_and_answers_only_when_resumed(api_server: ApiServer, admin: Client) -> None:
    api_server.pause()
    with socket.create_connection(("127.0.0.1", api_server.port)) as connection:
        connection.settimeout(0.2)
        with pytest.raises(TimeoutError):  # the greeting is never answered
            ssl.create_default_context().wrap_socket(connection, server_hostname="127.0.0.1")
    api_server.resume()
    assert admin.text("/readyz") == "ok"


def test_a_compacted_list_cannot_be_continued(api_server: ApiServer, admin: Client, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    for name in ("a", "b", "c"):
        admin.create(maps, settings(name))
    first_page = admin.get(maps, limit=1)
    admin.create(maps, settings("d"))
    api_server.forget()
    with pytest.raises(Refused) as refused:
        admin.get(maps, limit=1, **{"continue": first_page["metadata"]["continue"]})
    assert (refused.value.status, refused.value.reason) == (410, "Expired")


def test_compacting_twice_is_compacting_once(api_server: ApiServer) -> None:
    api_server.stop()
    api_server.compact()
    api_server.compact()


def test_a_compacted_version_cannot_be_watched_from(api_server: ApiServer, admin: Client, namespace: str) -> None:
    maps = f"/api/v1/namespaces/{namespace}/configmaps"
    long_ago = admin.get(maps)["metadata"]["resourceVersion"]
    admin.create(maps, settings("one"))
    events = admin.watch(maps, resourceVersion=long_ago)
    assert next(events)["type"] == "ADDED"
    events.close()

    api_server.forget()
    error = next(admin.watch(maps, resourceVersion=long_ago))
    assert (error["type"], error["object"]["code"]) == ("ERROR", 410)


def test_who_may_do_what(api_server: ApiServer) -> None:
    def outcome(token: str) -> int:
        try:
            api_server.client(token).get("/api/v1/nodes")
        except Refused as refused:
            return refused.status
        return 200

    assert outcome(api_server.tokens["operator"]) == 200
    assert outcome(api_server.tokens["visitor"]) == 403
    assert outcome("made-up") == 401


def test_kubectl_with_every_kind_of_user(api_server: ApiServer, admin: Client, namespace: str) -> None:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", **settings("applied", by="kubectl")}
    api_server.kubectl("apply", "-n", namespace, "-f", "-", stdin=json.dumps(manifest))
    assert admin.get(f"/api/v1/namespaces/{namespace}/configmaps/applied")["data"] == {"by": "kubectl"}

    asked = ("get", "configmap", "applied", "-n", namespace, "-o", "name")
    for_operator = api_server.kubeconfig_for("operator")
    for_guest = api_server.kubeconfig_for("guest", "guests")
    assert api_server.kubectl(*asked, kubeconfig=for_operator) == "configmap/applied\n"
    with pytest.raises(AssertionError, match='User "guest" cannot get resource "configmaps"'):
        api_server.kubectl(*asked, kubeconfig=for_guest)

    api_server.kubectl("create", "role", "reading", "-n", namespace, "--verb=get", "--resource=configmaps")
    api_server.kubectl("create", "rolebinding", "guests-read", "-n", namespace, "--role=reading", "--group=guests")
    seen = eventually(lambda: api_server.kubectl(*asked, kubeconfig=for_guest))
    assert seen == "configmap/applied\n"


def test_secrets_are_for_their_owner_alone(api_server: ApiServer) -> None:
    assert stat.S_IMODE(api_server.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE(api_server.kubeconfig.stat().st_mode) == 0o600


def test_killed_from_outside_it_leaves_neither_processes_nor_files() -> None:
    command = [sys.executable, "-m", "tests.kube.server"]
    with subprocess.Popen(command, cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as held:
        assert held.stdout
        folder = Path(held.stdout.readline().strip().removeprefix("export KUBECONFIG=")).parent
        assert (folder / "admin.kubeconfig").exists()
        assert programs_with(str(folder)) >= {"etcd", "kube-apiserver"}
        held.send_signal(signal.SIGKILL)
    eventually(lambda: not folder.exists() and not programs_with(str(folder)))


def programs_with(argument: str) -> set[str]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = entry.read_text(encoding="utf-8", errors="replace")
        except OSError:  # it ended meanwhile
            continue
        if argument in command:
            found.add(Path(command.split("\0")[0]).name)
    return found


def test_missing_binaries_are_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(MissingAssets, match=r"^There is no etcd in .*: correct KUBEBUILDER_ASSETS, or .*\.$"):
        find_assets()
    monkeypatch.delenv("KUBEBUILDER_ASSETS")
    monkeypatch.setenv("STROMBOLI_ASSETS", str(tmp_path))
    with pytest.raises(MissingAssets, match=r"^There is no etcd in .*: run 'make kube-assets', or set .*\.$"):
        find_assets()
