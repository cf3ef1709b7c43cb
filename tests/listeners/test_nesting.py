"""Bodies that are nested deeper than anybody writes: one clear answer, no error of ours."""

from __future__ import annotations

import json
from typing import Any

import pytest

from listeners.servers import Listener, listening, play

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
THINGS = "/apis/tests.example/v1/namespaces/default/things"
DEEP = ["[" * 8000, "[" * 900 + "]" * 900, '{"a":' * 300 + "1" + "}" * 300, '{"job":' + "[" * 8000]


async def send(listener: Listener, path: str, body: str, method: str = "POST", kind: str = "json") -> tuple[int, Any]:
    request = listener.request(
        f"Content-Type: application/{kind}", f"Content-Length: {len(body)}", "Connection: close",
        path=path, method=method, body=body,
    )  # fmt: skip
    head, _, answer = (await listener.send(request)).partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(answer)


@pytest.mark.parametrize("body", DEEP, ids=["open", "closed", "objects", "in a field"])
@pytest.mark.parametrize("kind", ["json", "yaml"])
def test_the_api_server_says_that_a_body_is_nested_too_deeply(
    body: str, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        async with listening("api-server") as listener:
            status, answer = await send(listener, CONFIG_MAPS, body, kind=kind)
            assert status == 400
            assert "nested more than 200 levels deep" in answer["message"]
            assert "\n" not in answer["message"]

    play(story)
    assert not any(record.exc_info for record in caplog.records)


@pytest.mark.parametrize("body", ["[" * 8000, '{"other":' + "[" * 8000, '{"job": "\u00ff"}'])
def test_the_page_says_that_an_action_cannot_be_read(body: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        async with listening("page") as listener:
            status, answer = await send(listener, "/api/actions", body)
            assert status == 400
            assert answer["message"].startswith("The request cannot be read:")

    play(story)
    assert not any(record.exc_info for record in caplog.records)


def definition() -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
    spec = {
        "group": "tests.example", "scope": "Namespaced", "versions": [version],
        "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
    }  # fmt: skip
    return {
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.tests.example"}, "spec": spec,
    }  # fmt: skip


@pytest.mark.parametrize("operation", ["move", "copy"])
@pytest.mark.parametrize("levels", [250, 900])
def test_patches_that_build_a_deep_object_are_refused(operation: str, levels: int) -> None:
    """Each operation puts what there is one level deeper: {"a": 1}, then {"b": {"a": 1}}, and so on."""
    deeper = [
        {"op": operation, "from": "/spec", "path": "/held"},
        {"op": "replace", "path": "/spec", "value": {}},
        {"op": "move", "from": "/held", "path": "/spec/a"},
    ]

    async def story() -> None:
        async with listening("api-server") as listener:
            assert (await send(listener, DEFINITIONS, json.dumps(definition())))[0] == 201
            thing = {"apiVersion": "tests.example/v1", "kind": "Thing", "metadata": {"name": "x"}, "spec": {"a": 1}}
            assert (await send(listener, THINGS, json.dumps(thing)))[0] == 201
            if operation == "move":
                deeper[1]["op"] = "add"
            shallow = await send(listener, f"{THINGS}/x", json.dumps(deeper * 20), "PATCH", "json-patch+json")
            assert shallow[0] == 200
            status, answer = await send(
                listener, f"{THINGS}/x", json.dumps(deeper * levels), "PATCH", "json-patch+json"
            )
            assert status == 400
            assert "nested" in answer["message"]
            found = await listener.send(listener.request("Connection: close", path=f"{THINGS}/x"))
            assert found.startswith(b"HTTP/1.1 200")

    play(story)
