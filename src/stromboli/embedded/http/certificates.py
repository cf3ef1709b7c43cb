"""A certificate authority of our own, and a certificate for the server.

The authority is made once and kept with the data, so that a kubeconfig stays valid across restarts. The server's
certificate is made anew at every start, for the addresses it listens on then.
"""

from __future__ import annotations

import ipaddress
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from stromboli.errors import UserError
from stromboli.files import read_secret, write_secret

_AUTHORITY_DAYS: Final = 3650
_SERVER_DAYS: Final = 365
_SKEW: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ServerIdentity:
    context: ssl.SSLContext
    authority: str
    """The certificate of the authority, as PEM: what clients verify the server with."""


def server_identity(folder: Path, hosts: tuple[str, ...]) -> ServerIdentity:
    """The TLS identity of a server for these names and addresses; its files are in the folder."""
    authority_key, authority = _authority(folder)
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _server_certificate(authority_key, authority, key, hosts)
    chain = folder / "server.pem"
    write_secret(chain, _key_text(key) + _text(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(chain)
    return ServerIdentity(context, _text(authority))


def _authority(folder: Path) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key_file, file = folder / "authority-key.pem", folder / "authority.pem"
    key_text, text = read_secret(key_file), read_secret(file)
    if key_text is not None and text is not None:
        try:
            key = serialization.load_pem_private_key(key_text.encode(), password=None)
            certificate = x509.load_pem_x509_certificate(text.encode())
        except (ValueError, TypeError):
            raise UserError(f"{file} or its key is damaged; remove both, and new ones are made") from None
        if isinstance(key, ec.EllipticCurvePrivateKey) and certificate.not_valid_after_utc > datetime.now(UTC):
            return key, certificate
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _authority_certificate(key)
    write_secret(key_file, _key_text(key))
    write_secret(file, _text(certificate))
    return key, certificate


def _authority_certificate(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stromboli embedded authority")])
    usage = x509.KeyUsage(
        digital_signature=True, key_cert_sign=True, crl_sign=True, content_commitment=False, key_encipherment=False,
        data_encipherment=False, key_agreement=False, encipher_only=False, decipher_only=False,
    )  # fmt: skip
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    return (
        _builder(name, name, key, _AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(identifier, critical=False)
        .sign(key, hashes.SHA256())
    )


def _server_certificate(
    authority_key: ec.EllipticCurvePrivateKey,
    authority: x509.Certificate,
    key: ec.EllipticCurvePrivateKey,
    hosts: tuple[str, ...],
) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stromboli")])
    issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    return (
        _builder(name, authority.subject, key, _SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
        .add_extension(issuer, critical=False)
        .sign(authority_key, hashes.SHA256())
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + timedelta(days=days))
    )


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


def _key_text(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
