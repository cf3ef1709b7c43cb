"""Installs our CustomResourceDefinitions on an API server."""

from __future__ import annotations

from kube.client import Client, Refused, eventually
from stromboli.kube.crds import definitions

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
