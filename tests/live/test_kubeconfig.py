"""Finding the cluster: all forms of kubeconfigs, and the service account of a pod."""

from __future__ import annotations

import asyncio
import base64
import logging
import os
import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from kube.certificates import Authority, Identity
from live.fake_api_server import FakeApiServer, always
from stromboli.errors import UserError
from stromboli.kube.client import Client, ClientConfig, from_kubeconfig, in_cluster, load_client_config
from stromboli.kube.client.auth import kubeconfig as kubeconfig_module


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server_identity(authority: Authority) -> Identity:
    return authority.server()


@pytest.fixture(scope="module")
def user_identity(authority: Authority) -> Identity:
    return authority.client("alice")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without a kubeconfig, outside of any pod."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("KUBECONFIG", raising=False)
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setattr(kubeconfig_module, "SERVICE_ACCOUNT", tmp_path / "serviceaccount")
    return home


def write(
    path: Path, *, cluster: dict[str, Any] | None = None, user: dict[str, Any] | None = None, name: str = "test"
) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    document = {
        "clusters": [{"name": name, "cluster": {"server": "https://10.0.0.1:6443"} | (cluster or {})}],
        "users": [{"name": name, "user": user or {}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name, "namespace": f"ns-{name}"}}],
        "current-context": name,
    }
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def authorization(config: ClientConfig) -> str | None:
    return asyncio.run(config.credentials.identify()).headers.get("Authorization")


def test_a_file_has_the_server_and_the_user(tmp_path: Path) -> None:
    config = from_kubeconfig(write(tmp_path / "config", user={"token": "s3cret\n"}))
    assert (config.server, config.namespace) == ("https://10.0.0.1:6443", "ns-test")
    assert config.ssl is not None
    assert config.ssl.verify_mode is ssl.CERT_REQUIRED
    assert config.ssl.check_hostname
    assert authorization(config) == "Bearer s3cret"
    assert "s3cret" not in repr(config) + repr(asyncio.run(config.credentials.identify()))


def test_users_may_log_in_with_a_password(tmp_path: Path) -> None:
    config = from_kubeconfig(write(tmp_path / "config", user={"username": "alice", "password": "pä:ss"}))
    login = authorization(config)
    assert login is not None
    assert base64.b64decode(login.removeprefix("Basic ")).decode() == "alice:pä:ss"


def test_a_token_file_is_relative_to_the_kubeconfig_and_comes_before_a_token(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("from-file\n")
    config = from_kubeconfig(write(tmp_path / "config", user={"tokenFile": "token", "token": "written"}))
    assert authorization(config) == "Bearer from-file"


def test_several_files_are_merged_and_the_first_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "a" / "config", cluster={"server": "https://first"}, user={"tokenFile": "token"})
    second = write(tmp_path / "b" / "config", cluster={"server": "https://second"}, user={"token": "second"})
    third = write(tmp_path / "c" / "config", cluster={"server": "https://third"}, user={"tokenFile": "t"}, name="other")
    (tmp_path / "a" / "token").write_text("first")
    (tmp_path / "c" / "t").write_text("third")
    listed = ["", str(tmp_path / "missing"), str(first), str(second), str(third)]
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join(listed))
    config = from_kubeconfig()
    assert (config.server, authorization(config)) == ("https://first", "Bearer first")
    config = from_kubeconfig(context="other")
    assert (config.server, authorization(config)) == ("https://third", "Bearer third")


def test_a_later_file_may_name_the_current_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = write(tmp_path / "a")
    first.write_text(first.read_text().replace("current-context: test", "current-context: ''"))
    second = write(tmp_path / "b", cluster={"server": "https://second"}, name="other")
    monkeypatch.setenv("KUBECONFIG", os.pathsep.join([str(first), str(second)]))
    assert from_kubeconfig().server == "https://second"


def test_by_default_the_file_in_the_home_directory_is_used(nowhere: Path) -> None:
    write(nowhere / ".kube" / "config", cluster={"server": "https://home"})
    assert load_client_config().server == "https://home"


def test_inside_a_pod_its_service_account_is_used(
    tmp_path: Path, nowhere: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(nowhere / ".kube" / "config", cluster={"server": "https://home"})
    account = tmp_path / "serviceaccount"
    account.mkdir()
    (account / "token").write_text("of-the-pod\n")
    (account / "ca.crt").write_bytes(authority.certificate.read_bytes())
    (account / "namespace").write_text("stromboli-system")
    with pytest.raises(UserError, match="not a pod"):
        in_cluster()
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "6443")
    config = load_client_config()
    assert (config.server, config.namespace) == ("https://[fd00::1]:6443", "stromboli-system")
    assert authorization(config) == "Bearer of-the-pod"
    assert config.ssl is not None
    assert config.ssl.verify_mode is ssl.CERT_REQUIRED
    assert load_client_config(context="test").server == "https://home", "who names a context means a kubeconfig"
    assert load_client_config(write(tmp_path / "explicit")).server == "https://10.0.0.1:6443"


@pytest.mark.parametrize(
    ("cluster", "user", "message"),
    [
        ({"server": ""}, {}, "the server of cluster test must be an http"),
        ({"server": "10.0.0.1:6443"}, {}, "must be an http"),
        ({"server": "https://alice:s3cret@10.0.0.1"}, {}, "must not contain a login"),
        ({"proxy-url": "socks5://10.0.0.2"}, {}, "proxy-url of cluster test must be"),
        ({"certificate-authority-data": "?"}, {}, "not base64"),
        ({"certificate-authority-data": "czNjcmV0"}, {}, "the certificate authority is not a PEM"),
        ({"certificate-authority": "missing.crt"}, {}, "missing.crt cannot be read: No such file"),
        ({"certificate-authority": "empty.crt"}, {}, "the certificate authority is not a PEM"),
        ({}, {"client-certificate-data": "czNjcmV0"}, "both a client certificate and a client key"),
        ({}, {"client-certificate-data": "czNjcmV0", "client-key-data": "czNjcmV0"}, "are not PEM"),
        ({}, {"auth-provider": {"name": "gcp"}}, "use an exec plugin or a token"),
        ({}, {"as": "root"}, "impersonates root"),
        ({}, {"token": "s3cret\r\ns3cret"}, "the token of user test cannot be used in a header"),
        ({}, {"token": ["s3cret"]}, r"is not a kubeconfig: .*\$\.users\[0\]\.user\.token"),
        ({}, {"exec": {"apiVersion": "client.authentication.k8s.io/v1alpha1", "command": "aws"}}, "upgrade it"),
    ],
)
def test_errors_are_one_line_without_secrets(
    cluster: dict[str, Any], user: dict[str, Any], message: str, tmp_path: Path
) -> None:
    (tmp_path / "empty.crt").touch()
    with pytest.raises(UserError, match=message) as caught:
        from_kubeconfig(write(tmp_path / "config", cluster=cluster, user=user))
    assert "\n" not in str(caught.value)
    assert "s3cret" not in str(caught.value)
    assert "czNjcmV0" not in str(caught.value)


def test_missing_names_are_reported_with_the_existing_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(tmp_path / "config")
    with pytest.raises(UserError, match=r"there is no context 'prod' in .*config; it has test"):
        from_kubeconfig(config, context="prod")
    with pytest.raises(UserError, match="missing cannot be read"):
        from_kubeconfig(tmp_path / "missing")
    with pytest.raises(UserError, match=r"no ~/\.kube/config; use --kubeconfig"):
        load_client_config()
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "missing"))
    with pytest.raises(UserError, match="none of the files in"):
        load_client_config()
    config.write_text(config.read_text().replace("current-context: test", ""))
    with pytest.raises(UserError, match=r"no current context; choose one with --context \(test\)"):
        from_kubeconfig(config)
    config.write_text("users: [{token: s3cret")
    with pytest.raises(UserError, match=r":\d is not YAML") as caught:
        from_kubeconfig(config)
    assert "s3cret" not in str(caught.value)


# What comes out of all this, tried on a server with a certificate of its own


def guarded(server_identity: Identity, authority: Authority) -> ssl.SSLContext:
    """What a server needs that only answers to users with a certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(authority.certificate))
    context.load_cert_chain(server_identity.certificate, server_identity.key)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def unguarded(server_identity: Identity) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(server_identity.certificate, server_identity.key)
    return context


def outcome(tls: ssl.SSLContext, config: Path, cluster: dict[str, Any], user: dict[str, Any]) -> str:
    """What comes of asking a server that has the TLS context: its version, or why not."""

    async def ask() -> str:
        async with FakeApiServer(tls=tls) as server:
            client_config = from_kubeconfig(write(config, cluster={"server": server.url} | cluster, user=user))
            async with Client(client_config) as client:
                try:
                    return str(await client.server_version())
                except Exception as error:
                    return str(error).replace(server.url, "it")

    loop_noise = logging.getLogger("asyncio")
    loop_noise.disabled = True  # The server's side of a refused handshake.
    try:
        return asyncio.run(ask())
    finally:
        loop_noise.disabled = False


@pytest.mark.parametrize("inline", [False, True])
def test_client_certificates_are_used(
    inline: bool, tmp_path: Path, authority: Authority, server_identity: Identity, user_identity: Identity
) -> None:
    if inline:
        cluster = {"certificate-authority-data": encoded(authority.certificate)}
        user = {
            "client-certificate-data": encoded(user_identity.certificate),
            "client-key-data": encoded(user_identity.key),
        }
    else:
        cluster = {"certificate-authority": os.path.relpath(authority.certificate, tmp_path)}
        user = {"client-certificate": str(user_identity.certificate), "client-key": str(user_identity.key)}
    tls = guarded(server_identity, authority)
    assert outcome(tls, tmp_path / "config", cluster, user) == "(1, 20)"
    assert outcome(tls, tmp_path / "config", cluster, {}) == "the connection to it broke"


def test_temporary_key_files_are_deleted(
    tmp_path: Path, authority: Authority, user_identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    user = {
        "client-certificate-data": encoded(user_identity.certificate),
        "client-key-data": encoded(user_identity.key),
    }
    from_kubeconfig(write(tmp_path / "config", user=user))
    assert list(scratch.iterdir()) == []


def test_a_server_with_an_untrusted_certificate_is_refused(tmp_path: Path, server_identity: Identity) -> None:
    said = outcome(unguarded(server_identity), tmp_path / "config", {}, {"token": "s3cret"})
    assert said.startswith("the certificate of it is not trusted: ")


def test_the_certificate_must_have_the_name_of_the_server(
    tmp_path: Path, authority: Authority, server_identity: Identity
) -> None:
    tls = unguarded(server_identity)
    known = {"certificate-authority": str(authority.certificate)}
    config = tmp_path / "config"
    assert outcome(tls, config, known, {}) == "(1, 20)"
    assert outcome(tls, config, known | {"tls-server-name": "localhost"}, {}) == "(1, 20)"
    said = outcome(tls, config, known | {"tls-server-name": "elsewhere"}, {})
    assert said.startswith("the certificate of it is not trusted: Hostname mismatch")


def test_verification_is_off_only_with_a_warning(
    tmp_path: Path, server_identity: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    tls = unguarded(server_identity)
    assert outcome(tls, tmp_path / "config", {"insecure-skip-tls-verify": True}, {}) == "(1, 20)"
    assert caplog.text.count("insecure-skip-tls-verify") == 1


def test_a_configured_proxy_is_used(tmp_path: Path) -> None:
    async def ask() -> None:
        async with FakeApiServer() as proxy:
            proxy_url = proxy.url.replace("http://", "http://alice:s3cret@")
            cluster = {"server": "http://cluster.invalid/prefix", "proxy-url": proxy_url}
            config = from_kubeconfig(write(tmp_path / "config", cluster=cluster))
            assert "s3cret" not in repr(config)
            proxy.instead("GET", "/version", always(lambda: web.json_response({"major": "1", "minor": "20"})))
            async with Client(config) as client:
                assert await client.server_version() == (1, 20)
            (seen,) = proxy.seen
            assert (seen.headers["Host"], seen.path) == ("cluster.invalid", "/prefix/version")
            login = base64.b64decode(seen.headers["Proxy-Authorization"].removeprefix("Basic "))
            assert login == b"alice:s3cret"

    asyncio.run(ask())
