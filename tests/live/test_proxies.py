"""Which proxy is used, as kubectl decides it: a kubeconfig, HTTPS_PROXY, NO_PROXY."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path

import pytest
import yaml

from kube.certificates import Authority
from live.scripted_server import Received, ScriptedServer, answer
from stromboli.errors import UserError
from stromboli.kube.client import Client, from_kubeconfig
from stromboli.kube.client.auth.proxy import proxy_for

SERVER = "https://api.example.org:6443"
PROXY = "http://proxy.example.org:3128"


def chosen(server: str = SERVER, configured: str = "", **environment: str) -> str | None:
    return proxy_for(server, configured, "proxy-url", environment)


def test_the_environment_names_a_proxy() -> None:
    assert chosen() is None
    assert chosen(HTTPS_PROXY=PROXY) == PROXY
    assert chosen(https_proxy=PROXY) == PROXY
    assert chosen(HTTP_PROXY=PROXY) is None, "for http:// servers only"
    assert chosen("http://api.example.org", HTTP_PROXY=PROXY) == PROXY
    assert chosen("http://api.example.org", HTTPS_PROXY=PROXY) is None
    assert chosen(HTTPS_PROXY="proxy:3128") == "http://proxy:3128"
    assert chosen(HTTPS_PROXY=" ") is None


def test_a_kubeconfig_comes_before_the_environment() -> None:
    assert chosen(configured="http://own:1", HTTPS_PROXY=PROXY, NO_PROXY="*") == "http://own:1"


@pytest.mark.parametrize(
    ("server", "no_proxy", "direct"),
    [
        (SERVER, "*", True),
        (SERVER, "api.example.org", True),
        (SERVER, "API.Example.ORG", True),
        (SERVER, "example.org", True),  # a domain stands for what is below it
        (SERVER, ".example.org", True),
        (SERVER, "*.example.org", True),
        ("https://example.org", ".example.org", False),
        ("https://example.org", "example.org", True),
        ("https://badexample.org", "example.org", False),
        (SERVER, "a.org, b.org ,example.org", True),
        (SERVER, "api.example.org:6443", True),
        (SERVER, "api.example.org:443", False),
        ("https://api.example.org", "api.example.org:443", True),
        ("https://10.1.2.3", "10.0.0.0/8", True),
        ("https://11.1.2.3", "10.0.0.0/8", False),
        ("https://10.1.2.3", "10.1.2.3", True),
        ("https://10.1.2.3", "10.1.2.3:443", True),
        ("https://10.1.2.3:6443", "10.1.2.3:443", False),
        ("https://10.1.2.3", "1.2.3", False),
        ("https://[fd00::1]:6443", "fd00::/8", True),
        ("https://[fd00::1]:6443", "fd00::1", True),
        ("https://[fd00::1]:6443", "[fd00::1]:6443", True),
        ("https://[fd00::1]:6443", "10.0.0.0/8", False),
        (SERVER, "10.0.0.0/33,,/", False),
        ("https://localhost:6443", "", True),  # servers on this machine are never behind a proxy
        ("https://127.0.0.1:6443", "", True),
        ("https://127.9.9.9:6443", "", True),
        ("https://[::1]:6443", "", True),
    ],
)
def test_servers_that_need_no_proxy(server: str, no_proxy: str, direct: bool) -> None:
    assert chosen(server, HTTPS_PROXY=PROXY, NO_PROXY=no_proxy) == (None if direct else PROXY)


@pytest.mark.parametrize(
    "proxy", ["socks5://s3cret@proxy", "ftp://proxy", "http://", "http://proxy:99999", "http://[x"]
)
def test_a_proxy_that_cannot_be_used_is_refused_and_not_ignored(proxy: str) -> None:
    with pytest.raises(UserError) as refused:
        chosen(HTTPS_PROXY=proxy)
    assert str(refused.value) == (
        "the environment variable HTTPS_PROXY must be an http:// or https:// URL; other proxies, such as socks5, are "
        "not supported"
    )
    with pytest.raises(UserError, match=r"^proxy-url must be"):
        chosen(configured=proxy)
    assert chosen(HTTPS_PROXY=proxy, NO_PROXY="example.org") is None


def kubeconfig(folder: Path, cluster: dict[str, str]) -> Path:
    document = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "s3cret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(yaml.safe_dump(document))
    return folder / "config"


def test_a_server_behind_a_proxy_of_the_environment_is_checked_like_any_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proxy is asked for a tunnel, with its own login; it sees neither our token nor our request. The certificate
    is that of the server behind it: here the proxy leads to the right server, and then to one with another name."""
    folder = tmp_path / "authority"
    folder.mkdir()
    authority = Authority(folder)
    seen: list[str] = []

    async def version(received: Received, writer: asyncio.StreamWriter) -> bool:
        writer.write(answer(b'{"major": "1", "minor": "20"}'))
        return True

    async def story(name: str) -> object:
        async with ScriptedServer(authority, version) as server:

            async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                seen.append((await reader.readuntil(b"\r\n\r\n")).decode())
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
                inner = await asyncio.open_connection("127.0.0.1", server.port)
                await asyncio.gather(pump(reader, inner[1]), pump(inner[0], writer))

            proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
            monkeypatch.setenv("HTTPS_PROXY", f"http://ann:pw@127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
            monkeypatch.delenv("NO_PROXY", raising=False)
            monkeypatch.delenv("no_proxy", raising=False)
            path = kubeconfig(
                tmp_path,
                {"server": "https://cluster.invalid:6443", "certificate-authority": str(authority.certificate),
                 "tls-server-name": name},
            )  # fmt: skip
            try:
                async with Client(from_kubeconfig(path), timeout=10.0) as client:
                    return await client.server_version()
            except Exception as error:
                return str(error)
            finally:
                proxy.close()

    assert asyncio.run(story("localhost")) == (1, 20)
    assert seen[0].startswith("CONNECT cluster.invalid:6443 HTTP/1.1\r\n")
    login = base64.b64encode(b"ann:pw").decode()
    assert f"Proxy-Authorization: Basic {login}" in seen[0]
    assert "s3cret" not in seen[0]
    assert str(asyncio.run(story("elsewhere"))).startswith("the certificate of https://cluster.invalid:6443 is not")


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
