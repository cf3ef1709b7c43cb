"""Finding the cluster the way kubectl does: a kubeconfig, or the account of the pod we run in.

Several files in $KUBECONFIG count as one, in which the first to name a thing wins; a path in a file is relative to
that file. What we cannot do (an auth-provider, impersonation) is refused: to leave it out would be to act as somebody
else than the user meant.
"""

from __future__ import annotations

import binascii
import logging
import os
import ssl
from base64 import b64decode
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import yaml

from stromboli.errors import UserError

from .access import Access
from .credentials import Credentials, TokenFile, Unchanging, basic, bearer, is_token
from .exec_plugin import ExecConfig, ExecPlugin
from .tls import ClientCertificate, Trust

__all__ = ["Access", "find_access", "from_kubeconfig", "in_cluster"]

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
    """All the files as one; each section with the file it stands in, which its relative paths start from."""

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


def find_access(kubeconfig: Path | None = None, context: str | None = None) -> Access:
    """The cluster the user means: what he names, else the one we run in, else kubectl's."""
    if kubeconfig is None and context is None and _inside_a_pod():
        return in_cluster()
    return from_kubeconfig(kubeconfig, context=context)


def _inside_a_pod() -> bool:
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST")) and (SERVICE_ACCOUNT / "token").exists()


def in_cluster() -> Access:
    """As the service account of the pod we run in."""
    if not _inside_a_pod():
        raise UserError(
            "this is not a pod with a service account; give --kubeconfig, or leave automountServiceAccountToken on"
        )
    host = os.environ["KUBERNETES_SERVICE_HOST"]
    port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    namespace = SERVICE_ACCOUNT / "namespace"
    return Access(
        server=f"https://{f'[{host}]' if ':' in host else host}:{port}",
        ssl=_trusting(Trust(_bytes_of(SERVICE_ACCOUNT / "ca.crt")), SERVICE_ACCOUNT / "ca.crt"),
        credentials=TokenFile(SERVICE_ACCOUNT / "token"),
        namespace=_bytes_of(namespace).decode().strip() if namespace.exists() else "default",
    )


def from_kubeconfig(path: Path | None = None, *, context: str | None = None) -> Access:
    """What `path`, else $KUBECONFIG, else ~/.kube/config says about a context (the current one unless named)."""
    paths = [path] if path is not None else _usual_paths()
    merged = _Merged()
    for one in paths:
        merged.add(one)
    shown = ", ".join(str(one) for one in paths)
    name = context or merged.current
    if not name:
        raise UserError(f"{shown} has no current context; choose one with --context ({_offered(merged.contexts)})")
    chosen, _ = _named(merged.contexts, "context", name, shown)
    cluster, cluster_file = _named(merged.clusters, "cluster", chosen.cluster, shown)
    user, user_file = _named(merged.users, "user", chosen.user, shown) if chosen.user else (_User(), paths[0])
    return _access(cluster, cluster_file, user, user_file, chosen)


def _usual_paths() -> list[Path]:
    listed = [Path(text) for text in os.environ.get("KUBECONFIG", "").split(os.pathsep) if text]
    paths = [path for path in listed or [Path.home() / ".kube" / "config"] if path.exists()]
    if not paths:
        missing = "none of the files in $KUBECONFIG exists" if listed else "there is no ~/.kube/config"
        raise UserError(f"no cluster to talk to: {missing}; give --kubeconfig FILE or set KUBECONFIG")
    return paths


def _access(cluster: _Cluster, cluster_file: Path, user: _User, user_file: Path, context: _Context) -> Access:
    server = urlsplit(cluster.server)
    if server.scheme not in ("http", "https") or not server.hostname:
        raise UserError(f"{cluster_file}: the server of cluster {context.cluster} must be an http:// or https:// URL")
    if server.username or server.password:
        raise UserError(f"{cluster_file}: the server of cluster {context.cluster} must be given without a login")
    if cluster.proxy_url and urlsplit(cluster.proxy_url).scheme not in ("http", "https"):
        raise UserError(f"{cluster_file}: proxy-url of cluster {context.cluster} must be an http:// or https:// URL")
    _refuse_unknown_logins(user, user_file, context.user)
    trust = Trust()
    tls: ssl.SSLContext | None = None
    if server.scheme == "https":
        trust = Trust(
            _data_or_file(cluster.certificate_authority_data, cluster.certificate_authority, cluster_file),
            anybody=cluster.insecure_skip_tls_verify,
        )
        if trust.anybody:
            log.warning("insecure-skip-tls-verify: whoever answers as %s gets our credentials", server.netloc)
        tls = _trusting(trust, cluster_file)
        _show_certificate(user, user_file, context.user, tls)
    return Access(
        server=cluster.server,
        ssl=tls,
        credentials=_credentials(user, user_file, cluster, trust, context),
        namespace=context.namespace or "default",
        server_name=cluster.tls_server_name or None,
        proxy=cluster.proxy_url or None,
    )


def _refuse_unknown_logins(user: _User, file: Path, name: str) -> None:
    if user.auth_provider is not None:
        raise UserError(
            f"{file}: user {name} logs in by auth-provider, which Kubernetes has dropped; use an exec plugin or a token"
        )
    if user.impersonated:
        raise UserError(f"{file}: user {name} acts as {user.impersonated}, which is not supported; log in as that user")


def _credentials(user: _User, file: Path, cluster: _Cluster, trust: Trust, context: _Context) -> Credentials:
    # In this order, as kubectl has it: what is written down comes before a plugin.
    if user.token_file:
        return TokenFile(file.parent / user.token_file)
    if user.token:
        if not is_token(user.token.strip()):
            raise UserError(f"{file}: the token of user {context.user} cannot stand in a header; is it one line?")
        return Unchanging(bearer(user.token.strip()))
    if user.username:
        return Unchanging(basic(user.username, user.password))
    if user.exec is not None:
        return ExecPlugin(user.exec, file.parent, trust, _told_to_plugins(cluster, trust))
    return Unchanging()


def _told_to_plugins(cluster: _Cluster, trust: Trust) -> dict[str, Any]:
    """The cluster as a plugin with provideClusterInfo gets to see it."""
    told: dict[str, Any] = {"server": cluster.server}
    if cluster.tls_server_name:
        told["tls-server-name"] = cluster.tls_server_name
    if trust.anybody:
        told["insecure-skip-tls-verify"] = True
    if trust.authority is not None:
        told["certificate-authority-data"] = trust.authority
    if cluster.proxy_url:
        told["proxy-url"] = cluster.proxy_url
    for extension in cluster.extensions or ():
        if extension.name == EXEC_EXTENSION:
            told["config"] = extension.extension
    return told


def _show_certificate(user: _User, file: Path, name: str, tls: ssl.SSLContext) -> None:
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
            f"{file}: the client certificate and key of user {name} are no PEM, encrypted, or do not fit each other"
        ) from None


def _trusting(trust: Trust, file: Path) -> ssl.SSLContext:
    try:
        return trust.context()
    except (ssl.SSLError, ValueError):
        raise UserError(f"{file}: the certificate authority is no PEM certificate") from None


def _data_or_file(data: str, name: str, file: Path) -> bytes | None:
    if data:
        try:
            return b64decode(data, validate=True)
        except binascii.Error:
            raise UserError(f"{file}: a field that ends in -data is not base64; give the file's name instead") from None
    return _bytes_of(file.parent / name) if name else None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from None


def _read(path: Path) -> _File:
    text = _bytes_of(path)
    try:
        # Nothing of a document that cannot be read is repeated: it may be a secret.
        return msgspec.convert(yaml.safe_load(text) or {}, _File)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        raise UserError(f"{path}{f':{mark.line + 1}' if mark else ''} is no YAML; is it a kubeconfig?") from None
    except msgspec.ValidationError as error:
        raise UserError(f"{path} is no kubeconfig: {error}") from None


def _named(sections: dict[str, tuple[S, Path]], kind: str, name: str, shown: str) -> tuple[S, Path]:
    if name not in sections:
        raise UserError(f"there is no {kind} {name!r} in {shown}; it has {_offered(sections)}")
    return sections[name]


def _offered(sections: Iterable[str]) -> str:
    return ", ".join(sorted(sections)) or "none"
