"""What a server with our definitions and policies says in Volcano's specs on admission. See volcano_specs.yaml.

See door_story.py for the fixtures; `server` fills in, too. Objects are sent as dry runs, except those that the spec
changes afterwards.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import Client, Refused, eventually
from kube.test_rules import PATHS
from stromboli.api import ApiError, decode, merge_patch
from stromboli.api.kinds import KINDS
from stromboli.api.names import QUEUE_NAME
from validation.door_story import QUEUES, is_deleted, queue
from validation.embedded_client import EmbeddedClient
from validation.volcano_specs import SPECS, Document, Spec

OTHERS = {"JobFlow": "/apis/flow.volcano.sh/v1alpha1/namespaces/{}/jobflows"}


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: f"{spec.suite}: {spec.name}")
def test_spec_of_volcano(spec: Spec, server: Client, namespace: str) -> None:
    path = (PATHS | OTHERS)[spec.object["kind"]].format(namespace)
    if (spec.object["apiVersion"], spec.object["kind"]) not in KINDS:
        with pytest.raises(Refused) as unknown:
            server.create(path, spec.object)
        assert (unknown.value.status, bool(spec.different)) == (404, True)
        return
    with _surroundings(spec, server, namespace):
        if spec.is_deletion:
            server.delete(f"{path}/{spec.object['metadata']['name']}")
        elif spec.refused:
            if spec.queues:  # a server learns of them a moment after they are there
                eventually(lambda: _refusal(spec, server, path))
            assert spec.refused in _refusal(spec, server, path)
        elif spec.controller:
            assert spec.controller in _said_by_controllers(spec.object)
            # The embedded server knows what the controllers know.
            assert _refusal(spec, server, path) == "" or isinstance(server, EmbeddedClient)
        else:
            made = _sent(spec, server, path)
            assert spec.filled is None or _has(made, spec.filled), made
            assert _said_by_controllers(spec.object) == ""


@contextlib.contextmanager
def _surroundings(spec: Spec, server: Client, namespace: str) -> Iterator[None]:
    """The queues of a spec, that of its namespace, and the object before it is changed."""
    path = PATHS[spec.object["kind"]].format(namespace)
    left = [f"{QUEUES}/{name}" for name in reversed(spec.queues)]
    for name, fields in spec.queues.items():
        server.create(QUEUES, queue(name, **fields))
    if spec.namespace_queue:
        annotation = {"metadata": {"annotations": {QUEUE_NAME: spec.namespace_queue}}}
        server.patch(f"/api/v1/namespaces/{namespace}", annotation)
    if spec.was is not None:
        server.create(path, spec.was)
        left.insert(0, f"{path}/{spec.was['metadata']['name']}")
    try:
        yield
    finally:
        for one in left:
            eventually(lambda one=one: is_deleted(server, one))


def _sent(spec: Spec, server: Client, path: str) -> Document:
    if spec.was is None:
        made: Document = server.create(f"{path}?dryRun=All", spec.object)
        return made
    here = f"{path}/{spec.was['metadata']['name']}"
    changed: Document = server.replace(f"{here}?dryRun=All", _update(server.get(here), spec))
    return changed


def _update(stored: Document, spec: Spec) -> Document:
    """What somebody sends who has read the object."""
    return merge_patch(stored, {name: spec.object[name] for name in ("spec", "status") if name in spec.object})


def _refusal(spec: Spec, server: Client, path: str) -> str:
    try:
        _sent(spec, server, path)
    except Refused as refused:
        # Definitions put this before what rules say, and policies do not.
        return re.sub("Invalid value: (?=[a-z])", "", str(refused))
    return ""


def _has(made: Any, part: Any) -> bool:
    """Whether everything that is written in `part` is there."""
    if isinstance(part, dict):
        return isinstance(made, dict) and all(name in made and _has(made[name], one) for name, one in part.items())
    if isinstance(part, list):
        return all(any(_has(one, wanted) for one in made) for wanted in part)
    return bool(made == part)


def _said_by_controllers(document: Document) -> str:
    try:
        decode(document)
    except ApiError as error:
        return f"{error.field}: {error.message}"
    return ""
