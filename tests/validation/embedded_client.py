"""A client of the embedded server, without a socket, in the form of the simple one for kube-apiserver."""

from __future__ import annotations

import json
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qsl

from embedded.api import EmbeddedTransport
from kube.client import Client, Refused, causes_in
from stromboli.embedded.admission import ADMINISTRATOR, User
from stromboli.embedded.kinds import custom
from stromboli.embedded.server import Request, Response
from stromboli.kube.crds import definitions

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
POLICIES = "/apis/admissionregistration.k8s.io/v1"


class EmbeddedClient(Client):
    """`warnings` are those of the last answer."""

    def __init__(self, transport: EmbeddedTransport | None = None, user: User = ADMINISTRATOR) -> None:
        self.transport = transport or EmbeddedTransport()
        self.warnings: list[str] = []
        self._user = user

    def as_user(self, name: str) -> EmbeddedClient:
        return EmbeddedClient(self.transport, User(name))

    def install(self, *policies: dict[str, Any], version: tuple[int, int] = (1, 36)) -> None:
        """Our definitions, for that version of Kubernetes, and policies with their bindings."""
        for definition in definitions(version).values():
            self.create(DEFINITIONS, definition)
        for document in policies:
            self.create(policy_path(document), document)

    def _json(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        kind: str = "application/json",
        query: dict[str, object] | None = None,
    ) -> Any:
        path, _, written = path.partition("?")
        known = dict(parse_qsl(written)) | {name: str(value) for name, value in (query or {}).items()}
        headers = {"accept": "application/json", "content-type": kind, "user-agent": "tests/1"}
        data = b"" if body is None else json.dumps(body).encode()
        request = Request(method, path, known, headers, data, self._user)
        outcome = self.transport.server.handle(request, self.transport.now)
        assert isinstance(outcome, Response)
        self.warnings = [text for name, text in outcome.headers if name == "Warning"]
        answer = outcome.json()
        if outcome.status >= 300:
            raise Refused(outcome.status, answer["reason"], answer["message"], causes_in(answer))
        return answer


def too_old_to_judge() -> EmbeddedClient:
    """With the definitions for servers that know no rules, and without those that it has in Python."""
    client = EmbeddedClient()
    with patch.object(custom, "KINDS", {}):
        client.install(version=(1, 24))
    return client


def policy_path(document: dict[str, Any], name: str = "") -> str:
    kind = document["kind"].lower()
    return f"{POLICIES}/{kind.removesuffix('y')}ies" if kind.endswith("policy") else f"{POLICIES}/{kind}s"
