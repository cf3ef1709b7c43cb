"""Which servers the client believes, with certificates of every kind that is wrong."""

from __future__ import annotations

import asyncio
import logging
import ssl
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from live.scripted_server import answer
from stromboli.errors import UserError
from stromboli.kube.client import Client, from_kubeconfig

NOW = datetime.now(UTC)
NOT_TRUSTED = "the certificate of it is not trusted: "


@dataclass
class Certificates:
    """An authority in memory. Each certificate has all that is right, but for what a test says."""

    name: str = "authority"
    starts: datetime = NOW - timedelta(days=2)
    ends: datetime = NOW + timedelta(days=2)
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def __post_init__(self) -> None:
        own = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, self.name)])
        self.certificate = (
            self._builder(own, own, self.key, self.starts, self.ends)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self.key.public_key()), critical=False)
            .add_extension(_usage(signs=True), critical=True)
            .sign(self.key, hashes.SHA256())
        )

    def issue(
        self,
        *names: str,
        starts: datetime = NOW - timedelta(days=1),
        ends: datetime = NOW + timedelta(days=1),
        client: bool = False,
        self_signed: bool = False,
    ) -> bytes:
        """A certificate and its key, as PEM."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0] if names else "nobody")])
        issuer = subject if self_signed else self.certificate.subject
        signer = key if self_signed else self.key
        purpose = ExtendedKeyUsageOID.CLIENT_AUTH if client else ExtendedKeyUsageOID.SERVER_AUTH
        builder = (
            self._builder(subject, issuer, key, starts, ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
        )
        if names and not client:
            others = x509.SubjectAlternativeName([_general(one) for one in names])
            builder = builder.add_extension(others, critical=False)
        made = builder.sign(signer, hashes.SHA256())
        return _pem(made) + key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def _builder(
        self, subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, starts: datetime, ends: datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(starts)
            .not_valid_after(ends)
        )

    @property
    def pem(self) -> bytes:
        return _pem(self.certificate)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True, key_cert_sign=signs, crl_sign=signs, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@pytest.fixture(scope="module")
def authority() -> Certificates:
    return Certificates()


@pytest.fixture(autouse=True)
def no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def said(
    folder: Path, identity: bytes, cluster: dict[str, Any], user: dict[str, Any] | None = None, *,
    host: str = "127.0.0.1", clients: bytes | None = None,
) -> str:  # fmt: skip
    """What comes of asking a server with this certificate: "answered", or why not. `clients`: whose it asks for."""
    received: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            received.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(answer(b'{"major": "1", "minor": "20"}'))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def ask() -> str:
        (folder / "server.pem").write_bytes(identity)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "server.pem")
        if clients is not None:
            context.load_verify_locations(cadata=clients.decode())
            context.verify_mode = ssl.CERT_REQUIRED
        server = await asyncio.start_server(serve, host, 0, ssl=context)
        url = f"https://{f'[{host}]' if ':' in host else host}:{server.sockets[0].getsockname()[1]}"
        config = {
            "clusters": [{"name": "c", "cluster": {"server": url} | cluster}],
            "users": [{"name": "u", "user": user or {"token": "s3cret"}}],
            "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "x",
        }
        (folder / "config").write_text(yaml.safe_dump(config))
        try:
            async with Client(from_kubeconfig(folder / "config"), timeout=10.0) as client:
                await client.server_version()
        except Exception as error:
            if isinstance(error, UserError):
                raise
            assert received == [], "a server that is not believed gets nothing"
            return str(error).replace(url, "it")
        finally:
            server.close()
            await asyncio.sleep(0)
        return "answered"

    noise = logging.getLogger("asyncio")
    noise.disabled = True  # the server's side of a refused handshake
    try:
        return asyncio.run(ask())
    finally:
        noise.disabled = False


def trusting(folder: Path, authority: Certificates) -> dict[str, Any]:
    (folder / "ca.pem").write_bytes(authority.pem)
    return {"certificate-authority": "ca.pem"}


def test_the_right_certificate_is_believed(tmp_path: Path, authority: Certificates) -> None:
    assert said(tmp_path, authority.issue("127.0.0.1"), trusting(tmp_path, authority)) == "answered"


@pytest.mark.parametrize(
    ("certificate", "problem"),
    [
        pytest.param({"ends": NOW - timedelta(hours=1)}, "certificate has expired", id="expired"),
        pytest.param({"starts": NOW + timedelta(hours=1)}, "certificate is not yet valid", id="not yet valid"),
        pytest.param({"self_signed": True}, "self-signed certificate", id="self-signed"),
        pytest.param({"client": True}, "unsuitable certificate purpose", id="made for clients"),
    ],
)
def test_a_certificate_that_is_wrong_is_refused(
    certificate: dict[str, Any], problem: str, tmp_path: Path, authority: Certificates
) -> None:
    answered = said(tmp_path, authority.issue("127.0.0.1", **certificate), trusting(tmp_path, authority))
    assert answered == NOT_TRUSTED + problem


def test_another_authority_of_the_same_name_is_refused(tmp_path: Path, authority: Certificates) -> None:
    other = Certificates(name=authority.name)
    answered = said(tmp_path, other.issue("127.0.0.1"), trusting(tmp_path, authority))
    assert answered.startswith(NOT_TRUSTED)


def test_an_authority_that_has_expired_is_refused(tmp_path: Path) -> None:
    old = Certificates(ends=NOW - timedelta(hours=1))
    assert said(tmp_path, old.issue("127.0.0.1"), trusting(tmp_path, old)) == NOT_TRUSTED + "certificate has expired"


def test_without_an_authority_the_systems_are_asked(tmp_path: Path, authority: Certificates) -> None:
    assert said(tmp_path, authority.issue("127.0.0.1"), {}).startswith(NOT_TRUSTED)
    assert said(tmp_path, authority.issue("127.0.0.1", self_signed=True), {}) == NOT_TRUSTED + "self-signed certificate"


@pytest.mark.parametrize("names", [("example.org",), ("127.0.0.2",), ("::1",), ("*.0.0.1",), ()])
def test_a_certificate_for_another_name_is_refused(
    names: tuple[str, ...], tmp_path: Path, authority: Certificates
) -> None:
    answered = said(tmp_path, authority.issue(*names), trusting(tmp_path, authority))
    assert answered.startswith(f"{NOT_TRUSTED}IP address mismatch")


def test_an_address_in_the_common_name_does_not_count(tmp_path: Path, authority: Certificates) -> None:
    """The subject is CN=127.0.0.1; only alternative names are compared."""
    answered = said(tmp_path, authority.issue("127.0.0.1", client=True), trusting(tmp_path, authority))
    assert answered.startswith(NOT_TRUSTED)


def test_a_server_name_takes_the_place_of_the_address(tmp_path: Path, authority: Certificates) -> None:
    cluster = trusting(tmp_path, authority)
    identity = authority.issue("api.example.org")
    assert said(tmp_path, identity, cluster | {"tls-server-name": "api.example.org"}) == "answered"
    answered = said(tmp_path, identity, cluster | {"tls-server-name": "example.org"})
    assert answered.startswith(f"{NOT_TRUSTED}Hostname mismatch")


def test_addresses_of_version_six_are_compared(tmp_path: Path, authority: Certificates) -> None:
    cluster = trusting(tmp_path, authority)
    try:
        believed = said(tmp_path, authority.issue("::1"), cluster, host="::1")
    except OSError as error:
        pytest.skip(f"this machine has no IPv6: {error}")
    assert believed == "answered"
    assert said(tmp_path, authority.issue("::2"), cluster, host="::1").startswith(f"{NOT_TRUSTED}IP address mismatch")
    answered = said(tmp_path, authority.issue("127.0.0.1"), cluster, host="::1")
    assert answered.startswith(f"{NOT_TRUSTED}IP address mismatch")


def test_client_certificates(tmp_path: Path, authority: Certificates) -> None:
    """The server asks for one: without, and with one of another authority, there is no answer."""
    cluster = trusting(tmp_path, authority)
    for name, issued in (("mine", authority.issue("alice", client=True)),
                         ("foreign", Certificates("other").issue("alice", client=True))):  # fmt: skip
        (tmp_path / f"{name}.pem").write_bytes(issued)
    identity = authority.issue("127.0.0.1")

    def user(name: str) -> dict[str, Any]:
        return {"client-certificate": f"{name}.pem", "client-key": f"{name}.pem"}

    assert said(tmp_path, identity, cluster, user("mine"), clients=authority.pem) == "answered"
    assert said(tmp_path, identity, cluster, user("foreign"), clients=authority.pem) == "the connection to it broke"
    assert said(tmp_path, identity, cluster, {}, clients=authority.pem) == "the connection to it broke"


def test_a_client_key_of_another_certificate_is_refused(tmp_path: Path, authority: Certificates) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.pem").write_bytes(authority.issue("alice", client=True))
    user = {"client-certificate": "a.pem", "client-key": "b.pem"}
    with pytest.raises(UserError, match="are not PEM, are encrypted, or do not match"):
        said(tmp_path, authority.issue("127.0.0.1"), trusting(tmp_path, authority), user)


def test_to_skip_the_check_is_possible_with_a_warning_and_not_with_an_authority(
    tmp_path: Path, authority: Certificates, caplog: pytest.LogCaptureFixture
) -> None:
    identity = authority.issue("elsewhere", ends=NOW - timedelta(hours=1))
    assert said(tmp_path, identity, {"insecure-skip-tls-verify": True}) == "answered"
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "any server can pose as 127.0.0.1" in caplog.text
    with pytest.raises(UserError, match="has a certificate authority and insecure-skip-tls-verify, which would ignore"):
        said(tmp_path, identity, trusting(tmp_path, authority) | {"insecure-skip-tls-verify": True})


def test_old_versions_of_tls_are_not_spoken(tmp_path: Path, authority: Certificates) -> None:
    context = from_kubeconfig_context(tmp_path, authority)
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2
    assert context.check_hostname
    assert context.verify_mode is ssl.CERT_REQUIRED


def from_kubeconfig_context(folder: Path, authority: Certificates) -> ssl.SSLContext:
    cluster = {"server": "https://127.0.0.1"} | trusting(folder, authority)
    config = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "contexts": [{"name": "x", "context": {"cluster": "c"}}],
        "current-context": "x",
    }
    (folder / "config").write_text(yaml.safe_dump(config))
    found = from_kubeconfig(folder / "config").ssl
    assert found is not None
    return found
