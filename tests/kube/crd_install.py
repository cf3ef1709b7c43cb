"""Installs our CustomResourceDefinitions and policies on an API server."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from kube.client import Client, Refused, eventually
from stromboli.kube.crds import definitions, validating_policies

_DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def server_version(admin: Client) -> tuple[int, int]:
    version = admin.get("/version")
    return int(version["major"]), int(version["minor"].rstrip("+"))


def install_crds(admin: Client) -> None:
    """Install every definition that does not exist yet, for the version of the server."""
    for name, definition in definitions(server_version(admin)).items():
        try:
            admin.create(_DEFINITIONS, definition)
        except Refused as refused:
            if refused.reason != "AlreadyExists":
                raise
        eventually(lambda name=name: _is_established(admin, name))


def _is_established(admin: Client, name: str) -> bool:
    conditions = admin.get(f"{_DEFINITIONS}/{name}")["status"].get("conditions") or ()
    return ("Established", "True") in ((condition["type"], condition["status"]) for condition in conditions)


def installed_policies(admin: Client, is_in_effect: Callable[[], bool]) -> AbstractContextManager[None]:
    return installed(admin, validating_policies(), is_in_effect)


@contextmanager
def installed(admin: Client, documents: list[dict[str, Any]], is_in_effect: Callable[[], bool]) -> Iterator[None]:
    """Admission policies, for as long as the `with` block runs, once the server applies them."""
    for document in documents:
        admin.create(_path(document), document)
    try:
        eventually(is_in_effect)
        yield
    finally:
        for document in reversed(documents):
            admin.delete(f"{_path(document)}/{document['metadata']['name']}")


def _path(document: dict[str, Any]) -> str:
    plurals = {"Policy": "policies", "PolicyBinding": "policybindings"}
    kind, _, rest = document["kind"].partition("Admission")
    return f"/apis/{document['apiVersion']}/{kind.lower()}admission{plurals[rest]}"
