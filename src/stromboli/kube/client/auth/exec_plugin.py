"""Credentials from a program: `exec` in a kubeconfig (client.authentication.k8s.io, v1 and v1beta1).

Cloud providers log in this way. The program prints an ExecCredential with a token or a client certificate and its
expiry; we cache it and run the program again when it has expired, or when the server refuses it. A daemon has no user
to ask, so programs that require a terminal are refused, and others are told that there is none. The program writes to
our stderr: its messages are for the user.

The program is run without a shell, in a session of its own, with a limit on its time and on what it may print. When it
ends or is given up, everything that it started and that is still in that session is killed.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import ssl
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from stromboli import plain_json
from stromboli.api.timestamps import parse_timestamp
from stromboli.errors import UserError
from stromboli.kube.client.errors import NO_CREDENTIALS, NO_RESPONSE, Failure

from .credentials import Identity, bearer, is_token
from .tls import ClientCertificate, Trust

GROUP = "client.authentication.k8s.io"
VERSIONS = (f"{GROUP}/v1", f"{GROUP}/v1beta1")
PLUGIN_SECONDS = 60.0
LARGEST_OUTPUT = 1 << 20  # bytes; a credential has some thousands
# Renewed this long before its expiry, so that no request is sent with an expired credential.
EARLY_SECONDS = 10.0


class ExecVariable(msgspec.Struct):
    name: str
    value: str = ""


class ExecConfig(msgspec.Struct, rename="camel"):
    """The `exec` section of a user."""

    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[ExecVariable] | None = None
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class _Status(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: str | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecPlugin:
    def __init__(
        self,
        config: ExecConfig,
        folder: Path,
        trust: Trust,
        cluster: Mapping[str, Any],
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._config = config
        self._trust = trust
        self._cluster = dict(cluster)
        self._clock = clock
        self._identity: Identity | None = None
        self._expires: float | None = None
        self._running = asyncio.Lock()
        self._command = _program(config, folder)

    async def identify(self) -> Identity:
        async with self._running:
            if self._identity is None or (self._expires is not None and self._clock() >= self._expires - EARLY_SECONDS):
                self._identity = None
                self._identity, self._expires = self._read(await self._run())
            return self._identity

    def refused(self, identity: Identity) -> bool:
        if identity is self._identity:
            self._identity = None
        return True

    async def _run(self) -> bytes:
        environment = dict(os.environ)
        environment.update((variable.name, variable.value) for variable in self._config.env or ())
        environment["KUBERNETES_EXEC_INFO"] = self._info()
        try:
            process = await asyncio.create_subprocess_exec(
                self._command,
                *(self._config.args or ()),
                env=environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        except (OSError, ValueError):
            raise self._failure("cannot be started") from None
        try:
            async with asyncio.timeout(PLUGIN_SECONDS):
                output = await self._printed(process)
                await process.wait()
        except TimeoutError:
            raise self._failure(f"did not finish within {PLUGIN_SECONDS:.0f} seconds") from None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            # Its end of the pipe may be open in a program that left the session; nobody waits for that one.
            process._transport.close()  # type: ignore[attr-defined]
            await process.wait()
        if process.returncode:
            raise self._failure(f"ended with status {process.returncode}; run it by hand to see why")
        return output

    async def _printed(self, process: asyncio.subprocess.Process) -> bytes:
        assert process.stdout is not None
        pieces, size = [], 0
        while piece := await process.stdout.read(1 << 16):
            pieces.append(piece)
            size += len(piece)
            if size > LARGEST_OUTPUT:
                raise self._failure(f"printed more than {LARGEST_OUTPUT} bytes")
        return b"".join(pieces)

    def _info(self) -> str:
        spec: dict[str, Any] = {"interactive": False}
        if self._config.provide_cluster_info:
            spec["cluster"] = self._cluster
        info = {"apiVersion": self._config.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _read(self, output: bytes) -> tuple[Identity, float | None]:
        """Decode what the program printed. None of it may appear in a message."""
        try:
            credential = plain_json.decode(output, _ExecCredential)
        except msgspec.DecodeError:
            raise self._failure("printed no ExecCredential") from None
        if credential.kind != "ExecCredential" or credential.api_version != self._config.api_version:
            raise self._failure(f"printed no ExecCredential of {self._config.api_version}")
        status = credential.status or _Status()
        certificate = bool(status.client_certificate_data)
        if certificate != bool(status.client_key_data) or not (certificate or status.token):
            raise self._failure("gave neither a token nor a client certificate with its key")
        if status.token and not is_token(status.token):
            raise self._failure("gave a token that cannot be used in a header")
        try:
            expires = parse_timestamp(status.expiration_timestamp) if status.expiration_timestamp else None
        except ValueError:
            raise self._failure("gave an expirationTimestamp that is not a timestamp") from None
        tls = self._context(status) if certificate else None
        return Identity(bearer(status.token) if status.token else {}, tls), expires

    def _context(self, status: _Status) -> ssl.SSLContext:
        # A new context, so that connections with the old certificate are not used again.
        context = self._trust.context()
        client_certificate = ClientCertificate(status.client_certificate_data.encode(), status.client_key_data.encode())
        try:
            client_certificate.load_into(context)
        except ssl.SSLError:
            raise self._failure("gave a client certificate that is not PEM or does not match its key") from None
        return context

    def _failure(self, problem: str) -> Failure:
        return Failure(NO_RESPONSE, f"the credential plugin {self._command} {problem}", reason=NO_CREDENTIALS)


def _program(config: ExecConfig, folder: Path) -> str:
    """The program to run. Raises UserError for mistakes that show without running it."""
    if config.api_version not in VERSIONS:
        raise UserError(
            f"the exec plugin {config.command} uses {config.api_version or 'no API version'};"
            f" upgrade it to {VERSIONS[0]} and write that into the kubeconfig"
        )
    if config.interactive_mode == "Always":
        raise UserError(
            f"the exec plugin {config.command} requires a terminal (interactiveMode: Always); use a token instead"
        )
    # Like in a shell: a bare name is searched in PATH, anything else is a path relative to the kubeconfig.
    name = config.command if os.sep not in config.command else str((folder / config.command).absolute())
    found = shutil.which(name)
    # A relative entry in PATH would run what happens to be in the folder that we are started in.
    if found is None or not os.path.isabs(found):
        hint = " ".join(config.install_hint.split())
        raise UserError(f"the exec plugin {config.command} is not installed{f': {hint}' if hint else ''}")
    return found
