"""Finds the cluster the way kubectl does: a kubeconfig, or the service account of the pod we run in.

Several files in $KUBECONFIG are merged, and the first to define a name wins; a path in a file is relative to that file.
What we do not support (auth-provider, impersonation) is refused: ignoring it would mean to act as another user than the
one configured.
"""

from __future__ import annotations

import binascii
import logging
import os
import ssl
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec
import yaml

from stromboli import plain_yaml
from stromboli.errors import UserError
from stromboli.files import LARGEST_SETTING, read_credential, read_input

from .client_config import ClientConfig
from .credentials import Credentials, StaticCredentials, TokenFile, basic, bearer, is_token
from .exec_plugin import ExecConfig, ExecPlugin
from .proxy import proxy_for
from .reloaded_credentials import FileCredentials, ReloadedCredentials
from .tls import ClientCertificate, Trust

log = logging.getLogger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
EXEC_EXTENSION = "client.authentication.k8s.io/exec"


class _Extension(msgspec.Struct):
    name: str = ""
    extension: Any = None


class _Cluster(msgspec.Struct, rename="kebab"):
    server: str = ""
    certificate_authority: str = ""
    certificate_authority_data: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    proxy_url: str = ""
    extensions: list[_Extension] | None = None


class _User(msgspec.Struct, rename="kebab"):
    client_certificate: str = ""
    client_certificate_data: str = ""
    client_key: str = ""
    client_key_data: str = ""
    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    username: str = ""
    password: str = ""
    exec: ExecConfig | None = None
    auth_provider: dict[str, Any] | None = None
    impersonated: str = msgspec.field(default="", name="as")


class _Context(msgspec.Struct):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster


class _NamedUser(msgspec.Struct):
    name: str
    user: _User


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context


class _File(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    users: list[_NamedUser] | None = None
    contexts: list[_NamedContext] | None = None
    current_context: str | None = None


S = TypeVar("S")


@dataclass(slots=True)
class _Merged:
    """All files merged; each section with its file, which its relative paths start from."""

    clusters: dict[str, tuple[_Cluster, Path]] = field(default_factory=dict)
    users: dict[str, tuple[_User, Path]] = field(default_factory=dict)
    contexts: dict[str, tuple[_Context, Path]] = field(default_factory=dict)
    current: str = ""

    def add(self, path: Path) -> None:
        file = _read(path)
        for cluster in file.clusters or ():
            self.clusters.setdefault(cluster.name, (cluster.cluster, path))
        for user in file.users or ():
            self.users.setdefault(user.name, (user.user, path))
        for context in file.contexts or ():
            self.contexts.setdefault(context.name, (context.context, path))
        self.current = self.current or file.current_context or ""


def load_client_config(kubeconfig: Path | None = None, context: str | None = None) -> ClientConfig:
    """The configuration that the user names, else that of the cluster we run in, else kubectl's."""
    if kubeconfig is None and context is None and _is_in_cluster():
        return in_cluster()
    return from_kubeconfig(kubeconfig, context=context)


def _is_in_cluster() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


def in_cluster() -> ClientConfig:
    """The configuration for the service account of the pod we run in."""
    if not _is_in_cluster():
        raise UserError(
            "this is not a pod with a service account; use --kubeconfig, or do not disable automountServiceAccountToken"
        )
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = SERVICE_ACCOUNT / "namespace"
    server = f"https://{f'[{host}]' if ':' in host else host}:{port}"
    return ClientConfig(
        server=server,
        ssl=_tls_context(Trust(_read_bytes(SERVICE_ACCOUNT / "ca.crt")), SERVICE_ACCOUNT / "ca.crt"),
        credentials=TokenFile(SERVICE_ACCOUNT / "token"),
        namespace=_read_bytes(namespace).decode().strip() if namespace.exists() else "default",
        proxy=proxy_for(server, "", "", os.environ),
    )


def from_kubeconfig(path: Path | None = None, *, context: str | None = None) -> ClientConfig:
    """The configuration for a context (by default the current one) of `path`, else $KUBECONFIG, else ~/.kube/config.
    When the server refuses its credentials, they are read again."""
    config, first = _read_access(path, context)
    return replace(config, credentials=ReloadedCredentials(first, lambda: _read_access(path, context)[1]))


def _read_access(path: Path | None, context: str | None) -> tuple[ClientConfig, FileCredentials]:
    paths = [path] if path is not None else _default_paths()
    merged = _Merged()
    for one in paths:
        merged.add(one)
    shown = ", ".join(str(one) for one in paths)
    name = context or merged.current
    if not name:
        raise UserError(f"{shown} has no current context; choose one with --context ({_list_names(merged.contexts)})")
    chosen, _ = _named(merged.contexts, "context", name, shown)
    cluster, cluster_file = _named(merged.clusters, "cluster", chosen.cluster, shown)
    user, user_file = _named(merged.users, "user", chosen.user, shown) if chosen.user else (_User(), paths[0])
    config = _access(cluster, cluster_file, user, user_file, chosen)
    certificate = _data_or_file(user.client_certificate_data, user.client_certificate, user_file) or b""
    secret = sha256(msgspec.json.encode(user) + certificate).digest()
    return config, FileCredentials(config.credentials, secret, config.ssl if certificate else None)


def _default_paths() -> list[Path]:
    listed = [Path(text) for text in os.environ.get("KUBECONFIG", "").split(os.pathsep) if text]
    paths = [path for path in listed or [Path.home() / ".kube" / "config"] if path.exists()]
    if not paths:
        missing = "none of the files in $KUBECONFIG exists" if listed else "there is no ~/.kube/config"
        raise UserError(f"no cluster configured: {missing}; use --kubeconfig FILE or set KUBECONFIG")
    return paths


def _access(cluster: _Cluster, cluster_file: Path, user: _User, user_file: Path, context: _Context) -> ClientConfig:
    server = _url(cluster.server)
    if server is None:
        raise UserError(f"{cluster_file}: the server of cluster {context.cluster} must be an http:// or https:// URL")
    if server.username or server.password:
        raise UserError(f"{cluster_file}: the server of cluster {context.cluster} must not contain a login")
    _refuse_unsupported_logins(user, user_file, context.user)
    trust = Trust()
    tls: ssl.SSLContext | None = None
    if server.scheme == "https":
        trust = Trust(
            _data_or_file(cluster.certificate_authority_data, cluster.certificate_authority, cluster_file),
            insecure=cluster.insecure_skip_tls_verify,
        )
        if trust.insecure and trust.authority is not None:
            raise UserError(
                f"{cluster_file}: cluster {context.cluster} has a certificate authority and insecure-skip-tls-verify, "
                "which would ignore it; remove one of them"
            )
        if trust.insecure:
            log.warning("insecure-skip-tls-verify: any server can pose as %s and get our credentials", server.netloc)
        tls = _tls_context(trust, cluster_file)
        _load_client_certificate(user, user_file, context.user, tls)
    return ClientConfig(
        server=cluster.server,
        ssl=tls,
        credentials=_credentials(user, user_file, cluster, trust, context),
        namespace=context.namespace or "default",
        server_name=cluster.tls_server_name or None,
        proxy=proxy_for(
            cluster.server, cluster.proxy_url, f"{cluster_file}: proxy-url of cluster {context.cluster}", os.environ
        ),
    )


def _url(text: str) -> SplitResult | None:
    """None if nothing can be reached under it."""
    try:
        url = urlsplit(text)
        return url if url.scheme in ("http", "https") and url.hostname and url.port != 0 else None
    except ValueError:  # an address or a port that is none
        return None


def _refuse_unsupported_logins(user: _User, file: Path, name: str) -> None:
    if user.auth_provider is not None:
        raise UserError(
            f"{file}: user {name} uses an auth-provider, which Kubernetes has removed; use an exec plugin or a token"
        )
    if user.impersonated:
        raise UserError(f"{file}: user {name} impersonates {user.impersonated}; log in as that user instead")


def _credentials(user: _User, file: Path, cluster: _Cluster, trust: Trust, context: _Context) -> Credentials:
    # In kubectl's order: what is in the file comes before a plugin.
    if user.token_file:
        return TokenFile(file.parent / user.token_file)
    if user.token:
        if not is_token(user.token.strip()):
            raise UserError(f"{file}: the token of user {context.user} cannot be used in a header; is it one line?")
        return StaticCredentials(bearer(user.token.strip()))
    if user.username:
        return StaticCredentials(basic(user.username, user.password))
    if user.exec is not None:
        return ExecPlugin(user.exec, file.parent, trust, _cluster_info(cluster, trust))
    return StaticCredentials()


def _cluster_info(cluster: _Cluster, trust: Trust) -> dict[str, Any]:
    """The cluster as a plugin with provideClusterInfo gets it."""
    info: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        info["tls-server-name"] = cluster.tls_server_name
    if trust.insecure:
        info["insecure-skip-tls-verify"] = True
    if trust.authority is not None:
        info["certificate-authority-data"] = trust.authority
    if cluster.proxy_url:
        info["proxy-url"] = cluster.proxy_url
    for extension in cluster.extensions or ():
        if extension.name == EXEC_EXTENSION:
            info["config"] = extension.extension
    return info


def _load_client_certificate(user: _User, file: Path, name: str, tls: ssl.SSLContext) -> None:
    certificate = _data_or_file(user.client_certificate_data, user.client_certificate, file)
    key = _data_or_file(user.client_key_data, user.client_key, file)
    if certificate is None and key is None:
        return
    if certificate is None or key is None:
        raise UserError(f"{file}: user {name} needs both a client certificate and a client key")
    try:
        ClientCertificate(certificate, key).load_into(tls)
    except ssl.SSLError:
        raise UserError(
            f"{file}: the client certificate and key of user {name} are not PEM, are encrypted, or do not match"
        ) from None


def _tls_context(trust: Trust, file: Path) -> ssl.SSLContext:
    try:
        return trust.context()
    except (ssl.SSLError, ValueError):
        raise UserError(f"{file}: the certificate authority is not a PEM certificate") from None


def _data_or_file(data: str, name: str, file: Path) -> bytes | None:
    if data:
        try:
            return b64decode(data, validate=True)
        except binascii.Error:
            raise UserError(f"{file}: a field that ends in -data is not base64; use a file name instead") from None
    return _read_bytes(file.parent / name) if name else None


def _read_bytes(path: Path) -> bytes:
    try:
        return read_credential(path)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def _read(path: Path) -> _File:
    try:
        text = read_input(path, LARGEST_SETTING).decode("utf-8")
        # No part of an invalid document is in the message: it may be a secret.
        return msgspec.convert(plain_yaml.load(text) or {}, _File)
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise UserError(f"{path}{f':{mark.line + 1}' if mark else ''} is not YAML; is it a kubeconfig?") from None
    except msgspec.ValidationError as error:
        raise UserError(f"{path} is not a kubeconfig: {error}") from None
    except (ValueError, OverflowError):  # not UTF-8, or a number that is none
        raise UserError(f"{path} is not YAML; is it a kubeconfig?") from None


def _named(sections: dict[str, tuple[S, Path]], kind: str, name: str, shown: str) -> tuple[S, Path]:
    if name not in sections:
        raise UserError(f"there is no {kind} {name!r} in {shown}; it has {_list_names(sections)}")
    return sections[name]


def _list_names(sections: Iterable[str]) -> str:
    return ", ".join(sorted(sections)) or "none"
