"""The client: requests, responses, errors and retries."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from live.fake_api_server import FakeApiServer, always, pod, status
from stromboli.api import Pod
from stromboli.kube.client import (
    CONFIG_MAPS,
    LEASES,
    NODES,
    POD_GROUPS,
    PODS,
    QUEUES,
    Client,
    ClientConfig,
    Failure,
    Lease,
    LeaseSpec,
    is_already_exists,
    is_conflict,
    is_gone,
    is_not_found,
    resource_of,
)
from stromboli.kube.client import client as client_module
from stromboli.kube.client.auth import StaticCredentials

Story = Callable[[FakeApiServer, Client], Awaitable[None]]


def play(story: Story, **options: Any) -> FakeApiServer:
    async def run() -> FakeApiServer:
        async with FakeApiServer() as server, Client(server.config(), **options) as client:
            await story(server, client)
            return server

    return asyncio.run(run())


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long the client wanted to wait, without the waiting."""
    wanted: list[float] = []
    sleep = asyncio.sleep

    async def note(seconds: float) -> None:
        if seconds:  # The libraries below let others go first, too.
            wanted.append(seconds)
        await sleep(0)

    monkeypatch.setattr(client_module.asyncio, "sleep", note)
    return wanted


async def failure_of(doing: Awaitable[object]) -> Failure:
    with pytest.raises(Failure) as caught:
        await doing
    return caught.value


def test_every_kind_has_its_path() -> None:
    assert PODS.path() == "/api/v1/pods"
    assert PODS.path("ns", "a", "binding") == "/api/v1/namespaces/ns/pods/a/binding"
    assert NODES.path_of("n1", "status") == "/api/v1/nodes/n1/status"
    assert QUEUES.path_of("q") == "/apis/scheduling.volcano.sh/v1beta1/queues/q"
    assert PODS.path("a/b", "c?d") == "/api/v1/namespaces/a%2Fb/pods/c%3Fd"
    assert resource_of(Pod) is PODS
    with pytest.raises(ValueError, match="namespace/name"):
        PODS.path_of("a")
    with pytest.raises(ValueError, match="without namespace"):
        NODES.path_of("ns/a")


def test_objects_are_read_and_written_as_structs() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        lease = Lease(spec=LeaseSpec(holder_identity="me"))
        lease.metadata.name, lease.metadata.namespace = "lease", "ns"
        created = await client.create(LEASES, lease)
        assert (await client.get(LEASES, "ns/lease")).spec.holder_identity == "me"
        created.spec.holder_identity = "you"
        assert (await client.replace(LEASES, created)).spec.holder_identity == "you"
        assert is_conflict(await failure_of(client.replace(LEASES, created)))
        assert is_already_exists(await failure_of(client.create(LEASES, lease)))
        patched = await client.patch(LEASES, "ns/lease", {"spec": {"holderIdentity": None}})
        assert patched.spec.holder_identity is None
        await client.delete(LEASES, "ns/lease", uid=created.metadata.uid, grace_seconds=0, propagation="Background")
        assert is_not_found(await failure_of(client.get(LEASES, "ns/lease")))

    server = play(story)
    assert server.asked("PATCH")[0].headers["Content-Type"] == "application/merge-patch+json"
    assert server.asked("DELETE")[0].body == {
        "apiVersion": "v1",
        "kind": "DeleteOptions",
        "preconditions": {"uid": server.asked("DELETE")[0].body["preconditions"]["uid"]},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


def test_kinds_that_we_only_write_are_mappings() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "hosts", "namespace": "ns"}}
        made = await client.create(CONFIG_MAPS, document)
        assert (made.kind, made.metadata.name) == ("ConfigMap", "hosts")
        with pytest.raises(ValueError, match="in a namespace"):
            await client.create(CONFIG_MAPS, {"metadata": {"name": "nowhere"}})

    play(story)


def test_another_object_of_the_same_name_is_a_conflict() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        assert is_conflict(await failure_of(client.delete(PODS, "ns/a", uid="another")))
        assert is_conflict(await failure_of(client.bind("ns/a", "another", "n1")))
        assert is_conflict(await failure_of(client.evict("ns/a", "another")))

    play(story)


def test_patches_may_be_strategic_and_for_subresources() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        await client.patch(PODS, "ns/a", {"status": {"conditions": []}}, subresource="status", strategic=True)

    (seen,) = play(story).asked("PATCH")
    assert seen.path.endswith("/pods/a/status")
    assert seen.headers["Content-Type"] == "application/strategic-merge-patch+json"


def test_a_pod_is_bound_with_its_annotations() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        uid = server.put(pod("a"))["metadata"]["uid"]
        await client.bind("ns/a", uid, "n1", annotations={"why": "because"})
        bound = await client.get(PODS, "ns/a")
        assert (bound.spec.node_name, bound.metadata.annotations) == ("n1", {"why": "because"})
        assert is_conflict(await failure_of(client.bind("ns/a", uid, "n2")))

    play(story)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_pods_are_evicted_in_the_version_that_the_server_serves(version: str) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.eviction_version = version
        for name in ("a", "b"):
            await client.evict(f"ns/{name}", server.put(pod(name))["metadata"]["uid"], grace_seconds=5)
        assert server.stored("pods", "ns/a") is None

    server = play(story)
    eviction = server.asked("POST")[0].body
    assert eviction["apiVersion"] == f"policy/{version}"
    assert eviction["metadata"] == {"namespace": "ns", "name": "a"}
    assert eviction["deleteOptions"]["gracePeriodSeconds"] == 5
    assert len(server.asked("GET")) == 1, "which version it is, is asked once"


def test_a_disruption_budget_is_a_refusal_and_not_retried(pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        uid = server.put(pod("a"))["metadata"]["uid"]
        refusal = always(lambda: status(429, "TooManyRequests", retry_after=10, cause="DisruptionBudget"))
        server.instead("POST", "/eviction", refusal)
        failure = await failure_of(client.evict("ns/a", uid))
        assert (failure.status, failure.cause) == (429, "DisruptionBudget")

    assert len(play(story).asked("POST")) == 1
    assert pauses == []


def test_a_write_is_retried_after_the_pause_that_the_server_asks_for(pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        uid = server.put(pod("a"))["metadata"]["uid"]
        server.instead("POST", "/binding", always(lambda: status(429, "TooManyRequests", retry_after=7)))
        server.instead("POST", "/binding", always(lambda: web.Response(status=503, headers={"Retry-After": "3"})))
        await client.bind("ns/a", uid, "n1")

    assert len(play(story).asked("POST")) == 3
    assert pauses == [7, 3]


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_a_write_is_not_retried_when_the_server_may_have_acted(code: int, pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("POST", "/binding", always(lambda: web.Response(status=code)))
        assert (await failure_of(client.bind("ns/a", "uid", "n1"))).status == code

    assert len(play(story).asked("POST")) == 1


@pytest.mark.parametrize("code", [429, 500, 502, 503, 504])
def test_reads_are_retried_with_backoff(code: int, pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        server.instead("GET", "/pods/a", always(lambda: web.Response(status=code)), times=3)
        assert (await client.get(PODS, "ns/a")).metadata.name == "a"

    play(story)
    # 0.2, 0.4 and 0.8 seconds, each cut by up to half.
    assert len(pauses) == 3
    assert all(longest / 2 <= pause <= longest for pause, longest in zip(pauses, (0.2, 0.4, 0.8), strict=True))


def test_reads_fail_after_the_last_attempt(pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/pods/a", always(lambda: web.Response(status=502)), times=99)
        assert (await failure_of(client.get(PODS, "ns/a"))).status == 502

    assert len(play(story).asked("GET")) == client_module.ATTEMPTS


def test_the_pause_that_a_server_asks_for_is_bounded(pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        server.instead("GET", "/pods/a", always(lambda: status(429, "TooManyRequests", retry_after=86400)))
        await client.get(PODS, "ns/a")

    play(story)
    assert pauses == [client_module.MAX_PAUSE]


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (lambda: web.Response(status=502), "the server answered 502 Bad Gateway"),
        (lambda: web.Response(status=503, text="<html>sorry</html>"), "the server answered 503 Service Unavailable"),
        (lambda: web.Response(status=404, body=b"\xff\xfe"), "the server answered 404 Not Found"),
        (lambda: web.json_response(["?"], status=403), "the server answered 403 Forbidden"),
        (
            lambda: web.json_response({"kind": "Status", "code": 418}, status=418),
            "the server answered 418 I'm a Teapot",
        ),
        (lambda: web.Response(status=302, headers={"Location": "/login"}), "the server answered 302 Found"),
        (lambda: web.Response(text="<html>welcome</html>"), "the response cannot be decoded: must be JSON: "),
        (lambda: status(403, "Forbidden", "you may not"), "you may not"),
    ],
)
def test_every_response_has_a_readable_message(
    answer: Callable[[], web.Response], message: str, pauses: list[float]
) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/pods/a", always(answer), times=99)
        failure = await failure_of(client.get(PODS, "ns/a"))
        assert failure.message.startswith(message)
        assert str(failure) == failure.message

    play(story)


def test_an_object_that_cannot_be_decoded_is_a_failure() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a", schedulingGates=7))
        failure = await failure_of(client.get(PODS, "ns/a"))
        assert failure.reason == "Unreadable"
        assert "spec.schedulingGates" in failure.message

    play(story)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_writes_are_retried_when_the_server_cannot_be_connected_to(pauses: list[float]) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    async def run() -> None:
        async with Client(ClientConfig(url, None, StaticCredentials({"Authorization": "Bearer s3cret"}))) as client:
            failure = await failure_of(client.bind("ns/a", "uid", "n1"))
        assert failure.status == 0
        assert failure.message.startswith(f"cannot connect to {url}: ")
        assert "s3cret" not in repr(failure) + repr(client.config)

    asyncio.run(run())
    assert len(pauses) == client_module.ATTEMPTS - 1


async def hang_up(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def test_reads_are_retried_when_the_connection_breaks(pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.put(pod("a"))
        server.instead("GET", "/pods/a", hang_up, times=3)
        assert (await client.get(PODS, "ns/a")).metadata.name == "a"

    play(story)
    assert pauses


def test_a_write_is_not_retried_when_the_connection_breaks(pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("POST", "/binding", hang_up, times=99)
        failure = await failure_of(client.bind("ns/a", "uid", "n1"))
        assert (failure.status, failure.message) == (0, f"the connection to {server.url} broke")

    assert len(play(story).asked("POST")) == 1
    assert pauses == []


def test_a_missing_response_is_a_timeout(pauses: list[float]) -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        never = asyncio.Event()

        async def hang(request: web.Request) -> web.StreamResponse:
            await never.wait()
            return web.Response()

        for method, doing in (("POST", client.bind("ns/a", "uid", "n1")), ("GET", client.get(PODS, "ns/a"))):
            server.instead(method, "/pods/a", hang)
            failure = await failure_of(doing)
            assert (failure.status, failure.message) == (0, f"{server.url} did not answer in time")
        never.set()

    assert len(play(story, timeout=0.2).seen) == 2, "whoever waited that long does not want to wait again"


def test_time_spent_in_the_queue_does_not_count() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        never = asyncio.Event()

        async def hang(request: web.Request) -> web.StreamResponse:
            await never.wait()
            return web.Response()

        server.instead("GET", "/version", hang)
        first, second = await asyncio.gather(
            failure_of(client.server_version()), client.serves("policy/v1"), return_exceptions=True
        )
        never.set()
        assert isinstance(first, Failure)
        assert second is True, "it waited for the only connection as long as a request may take, and had its turn then"

    play(story, timeout=1.5, connections=1)


def test_connections_are_reused(pauses: list[float]) -> None:
    peers: list[object] = []

    async def note(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return web.json_response({"major": "1", "minor": "36"})

    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/version", note, times=99)
        for _ in range(5):
            assert await client.server_version() == (1, 36)

    play(story)
    assert len(set(peers)) == 1


def test_served_groups_are_cached_and_missing_ones_are_not() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        assert await client.server_version() == (1, 20)
        assert await client.serves("v1")
        assert await client.serves("policy/v1")
        assert await client.serves("policy/v1")
        assert not await client.serves("volcano.sh/v1")
        server.served.add("volcano.sh/v1")
        assert await client.serves("volcano.sh/v1")

    server = play(story)
    assert len(server.asked("GET", "^/apis/policy/v1$")) == 1
    assert len(server.asked("GET", "^/apis/volcano.sh/v1$")) == 2


def test_a_long_list_is_read_in_pages_of_one_resource_version() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        for number in range(7):
            server.put(pod(f"p{number}"))
        listing = await client.list(PODS, namespace="ns", label_selector="a=b", field_selector="spec.nodeName!=")
        assert [item.metadata.name for item in listing.items] == [f"p{number}" for number in range(7)]
        assert listing.resource_version == str(server.revision)

    lists = play(story, page=3).lists()
    assert [one.query.get("continue", "") for one in lists] == ["", "107:3", "107:6"]
    assert {(one.query["limit"], one.query["labelSelector"]) for one in lists} == {("3", "a=b")}
    assert {one.query["fieldSelector"] for one in lists} == {"spec.nodeName!="}


def test_a_list_whose_resource_version_expires_starts_again() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        for number in range(5):
            server.put(pod(f"p{number}"))

        async def forgets(request: web.Request) -> web.StreamResponse:
            server.forget()
            server.remove(pod("p0"))
            return status(410, "Expired")

        pages = 0

        async def second_page(request: web.Request) -> web.StreamResponse:
            nonlocal pages
            pages += 1
            if "continue" in request.query:
                return await forgets(request)
            return server._list(request, "pods", "")

        server.instead("GET", "/pods$", second_page, times=2)
        listing = await client.list(PODS)
        assert pages == 2
        assert [item.metadata.name for item in listing.items] == ["p1", "p2", "p3", "p4"]

    play(story, page=2)


def test_a_list_that_is_always_too_slow_fails() -> None:
    async def story(server: FakeApiServer, client: Client) -> None:
        server.instead("GET", "/pods$", always(lambda: status(410, "Expired")), times=99)
        assert is_gone(await failure_of(client.list(PODS)))

    play(story)


def test_a_client_is_used_inside_its_block() -> None:
    async def run() -> None:
        client = Client(ClientConfig("http://127.0.0.1:1", None, StaticCredentials()))
        with pytest.raises(RuntimeError, match="async with"):
            await client.get(NODES, "n1")

    asyncio.run(run())


@pytest.mark.parametrize(("offers", "part"), [(["podgroups", "podgroups/status"], "/status"), (["podgroups"], "")])
def test_a_groups_status_is_written_where_the_installed_definition_has_it(offers: list[str], part: str) -> None:
    """Volcano's own definition of a PodGroup has no status subresource; ours has."""

    async def story(server: FakeApiServer, client: Client) -> None:
        found = {"resources": [{"name": name} for name in offers]}
        server.instead("GET", "/apis/scheduling.volcano.sh/v1beta1", always(lambda: web.json_response(found)))
        await failure_of(client.patch(POD_GROUPS, "team/gang", {"status": {"phase": "Inqueue"}}, subresource="status"))

    asked = play(story).seen[-1]
    assert asked.path == f"/apis/scheduling.volcano.sh/v1beta1/namespaces/team/podgroups/gang{part}"
