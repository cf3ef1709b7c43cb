"""Manifests that a user wants to submit: each as it was written, and as the object that we understand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from stromboli.api import ApiError, KObject, decode, key, names, warnings_about
from stromboli.errors import UserError
from stromboli.printable import printable
from stromboli.simulation.scenario import extract_lifetime, kind_and_key
from stromboli.simulation.scenario.yaml_documents import Document, read_documents


@dataclass(frozen=True, slots=True)
class Manifest:
    content: dict[str, Any]  # with the namespace that is meant
    object: KObject

    @property
    def title(self) -> str:
        return kind_and_key(type(self.object), key(self.object))


def read_manifests(files: Sequence[str], namespace: str) -> list[Manifest]:
    """All or nothing; raises UserError with the file, the document and the field. `namespace`: of those without one."""
    if list(files).count("-") > 1:
        raise UserError("-: standard input can be read only once.")
    return [_manifest(document, namespace) for path in files for document in read_documents(path)]


def warn_about(manifests: Sequence[Manifest]) -> None:
    """What their author cannot have meant, on standard error. On a cluster, these are events of the objects."""
    for manifest in manifests:
        for message in warnings_about(manifest.object).values():
            click.echo(f"stromboli: warning: {manifest.title}: {printable(message)}", err=True)


def manifest_from(content: dict[str, Any]) -> Manifest:
    """One that was not read from a file. Raises ApiError."""
    obj, _ = extract_lifetime(decode(content))
    return Manifest(content, obj)


def _manifest(document: Document, namespace: str) -> Manifest:
    content, origin = document.content, document.origin
    if isinstance(content, Mapping) and content.get("apiVersion") == names.SIM_API_VERSION:
        raise origin.error("belongs to scenarios and cannot be submitted", field="kind")
    try:
        obj, _ = extract_lifetime(decode(content))
    except ApiError as error:
        raise origin.error(error.message, title=error.what, field=error.field) from None
    whole = dict(content)
    if obj.metadata.namespace:
        if not whole["metadata"].get("namespace"):
            obj.metadata.namespace = namespace
        whole["metadata"] = {**whole["metadata"], "namespace": obj.metadata.namespace}
    return Manifest(whole, obj)
