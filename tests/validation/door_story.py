"""With every process of ours down, the API server refuses what it should, and nothing else.

Thousands of objects with mistakes are sent as dry runs: the server and the rules in Python give one verdict about each,
and name one field. What depends on other objects or on a deletion is tried one by one. The fixtures `door`, a client of
a server with our definitions and policies, and `namespace` say which server: tests/kube has a kube-apiserver, and
tests/embedded the embedded one.
"""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from kube.client import Client, Refused, eventually
from kube.test_rules import PATHS, refusal_of
from stromboli.api import ApiError, Queue, decode, default, validate_submission
from stromboli.api.kinds import KINDS
from stromboli.api.rules import RULES, Door, broken_rules
from stromboli.api.validation.conversion import convert
from stromboli.embedded.schema import custom_schema, validate_custom
from stromboli.kube.crds.definitions import NEWEST
from validation.cel_rules import filled_in, schemas
from validation.mutations import mutated

QUEUES, GROUPS, JOBS, PODS = PATHS["Queue"], PATHS["PodGroup"], PATHS["Job"], PATHS["Pod"]
TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}}
OBJECTS = 10_000
DENIED = "denied request: "
BAD: dict[str, Any] = {"plugins": {"magic": []}}


def queue(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue", "metadata": {"name": name}, "spec": spec,
    }  # fmt: skip


def group(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": name},
        "spec": {"minMember": 1, **spec},
    }  # fmt: skip


def job(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "metadata": {"name": name},
        "spec": {"tasks": [{"name": "a", "replicas": 2, "template": TEMPLATE}], **spec},
    }  # fmt: skip


def pod(annotations: dict[str, str], **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": annotations},
        "spec": {"schedulerName": "volcano", "containers": [{"name": "c", "image": "x"}], **spec},
    }  # fmt: skip


# -- objects by themselves ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(10))
def test_the_server_and_the_rules_agree(seed: int, door: Client, namespace: str) -> None:
    seen: Counter[str] = Counter()
    for document in mutated(5000 + seed, OBJECTS // 10):
        seen[_compare(door, namespace, document)] += 1
    print(seed, dict(seen))
    assert min(seen["refused"], seen["accepted"]) > OBJECTS // 10 // 20


def _compare(door: Client, namespace: str, document: dict[str, Any]) -> str:
    kind, metadata = document["kind"], dict(document["metadata"])
    here = metadata.pop("namespace", "default" if kind == "Command" else namespace)
    here = here if here in ("default", "stromboli-system", "kube-system") else namespace
    refused = _refused(door, PATHS[kind].format(here), document | {"metadata": metadata})
    as_stored = _as_stored(document | {"metadata": metadata | {"namespace": here}})
    error = _error_in(as_stored)
    if error is not None and _is_left_to_controllers(error, document):
        return "left to the controllers"
    if error is None:
        assert refused is None or _is_for_kubernetes(refused, kind), (document, str(refused))
        return "accepted" if refused is None else "refused by Kubernetes"
    assert refused is not None, (document, str(error))
    if _is_for_kubernetes(refused, kind):
        return "refused by Kubernetes"
    mistakes = _mistakes_in(as_stored)
    for field, sentence in _said(refused):
        assert _is_named(field, sentence, mistakes), (document, str(refused), mistakes)
    assert _is_named(error.field, error.message, mistakes), (document, str(error), mistakes)
    return "refused"


def _refused(door: Client, path: str, document: dict[str, Any]) -> Refused | None:
    try:
        door.create(f"{path}?dryRun=All", document)
    except Refused as refused:
        return refused
    return None


def _error_in(document: dict[str, Any]) -> ApiError | None:
    try:
        decode(document)
    except ApiError as error:
        return error
    return None


def _as_stored(document: dict[str, Any]) -> dict[str, Any]:
    """A pod that names no scheduler is not ours, once it is in a cluster."""
    if document["kind"] == "Pod" and document.get("spec", {}).get("schedulerName") in (None, ""):
        return document | {"spec": document.get("spec", {}) | {"schedulerName": "default-scheduler"}}
    return document


def _is_left_to_controllers(error: ApiError, document: dict[str, Any]) -> bool:
    """What the page says that only they see; see `api.rules.table`."""
    if document["kind"] not in schemas():
        return False
    by_rule = any(rule.must in error.message for rule in RULES)
    in_template = error.field.startswith(("spec.template.spec", "spec.tasks[0].template.spec"))
    return not by_rule and (in_template or "lead back" in error.message or "replicas together" in error.message)


def _is_for_kubernetes(refused: Refused, kind: str) -> bool:
    """Metadata, namespaces, and kinds that are not ours, unless a policy speaks, or of our annotations."""
    said = str(refused)
    if DENIED in said or "metadata.annotations[volcano.sh/" in said:
        return False
    return "metadata." in said or kind not in schemas() or refused.reason == "NotFound" or "unknown field" in said


def _said(refused: Refused) -> list[tuple[str, str]]:
    """Each field that a refusal names, and what it says of it."""
    _, denied, said = str(refused).partition(DENIED)
    if denied:
        field, _, sentence = said.partition(": ")
        return [(field, sentence)]
    assert refused.causes, str(refused)
    return [(field, sentence.removeprefix("Invalid value: ")) for field, sentence in refused.causes]


def _mistakes_in(document: dict[str, Any]) -> dict[str, set[str]]:
    """All that is wrong, by field: the sentences of rules, and "" where the schema has it, in words of its own."""
    mistakes: dict[str, set[str]] = {}
    schema = schemas().get(document["kind"])
    found = [] if schema is None else validate_custom(filled_in(document, schema), custom_schema(schema))
    for error in found:
        mistakes.setdefault(_field(error.field), set()).add("")
    if found:
        return mistakes
    typed = convert(document, KINDS[document["apiVersion"], document["kind"]])
    default(typed)
    for broken in broken_rules(typed):
        said = {broken.sentence} | ({broken.rule.must} if broken.rule.door_on(NEWEST) is Door.DEFINITION else set())
        mistakes.setdefault(_field(broken.field), set()).update(said)
    return mistakes


def _is_named(field: str, sentence: str, mistakes: dict[str, set[str]]) -> bool:
    """The server names the whole if it lacks a part that is required."""
    at = _field(field)
    if any("" in said and (at == known or at.startswith(f"{known}.")) for known, said in mistakes.items()):
        return True
    return sentence in mistakes.get(at, ())


def _field(path: str) -> str:
    """The server separates names in a mapping by dots, too."""
    return re.sub(r"\[([^\]\d][^\]]*)\]", r".\1", path)


# -- objects among others ----------------------------------------------------------------------------------------


@pytest.fixture
def queues(door: Client) -> Iterator[Client]:
    """A queue that is closed, one with a queue below it, and one that is open."""
    for name, spec in (
        ("door-closed", {}),
        ("door-open", {}),
        ("door-parent", {}),
        ("door-child", {"parent": "door-parent"}),
    ):
        door.create(QUEUES, queue(name, **spec))
    door.patch(f"{QUEUES}/door-closed/status", {"status": {"state": "Closed"}})
    yield door
    for name in ("door-child", "door-closed", "door-open", "door-parent"):
        eventually(lambda name=name: is_deleted(door, f"{QUEUES}/{name}"))


def is_deleted(door: Client, path: str) -> bool:
    try:
        door.delete(path)
    except Refused as refused:
        return refused.reason == "NotFound"
    return True


@pytest.mark.parametrize(("kind", "what"), [(job, "jobs"), (group, "groups")])
def test_queues_that_accept_nothing(kind: Any, what: str, queues: Client, namespace: str) -> None:
    path = (JOBS if what == "jobs" else GROUPS).format(namespace)
    for name, state, has_children in (("door-closed", "Closed", False), ("door-parent", "Open", True)):
        with pytest.raises(ApiError) as raised:
            validate_submission(name, what, _with_state(state), has_children=has_children)
        sentence = f"{raised.value.field}: {raised.value.message}"
        eventually(lambda name=name, sentence=sentence: sentence in refusal_of(queues, path, kind("j", queue=name)))
    assert refusal_of(queues, path, kind("j", queue="door-open")) == ""
    assert refusal_of(queues, path, kind("j", queue="nobody-made-it-yet")) == "", "such objects wait"


def _with_state(state: str) -> Queue:
    one = Queue()
    one.status.state = state
    return one


def test_groups_of_owners_are_judged_with_their_owners(queues: Client, namespace: str) -> None:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": "j", "uid": "u"}
    owned = group("g", queue="door-closed") | {"metadata": {"name": "g", "ownerReferences": [owner]}}
    path = GROUPS.format(namespace)
    eventually(lambda: refusal_of(queues, path, group("g", queue="door-closed")))
    assert refusal_of(queues, path, owned) == ""


def test_queues_that_are_needed_are_not_deleted(queues: Client) -> None:
    eventually(lambda: "door-child is below it" in _deletion(queues, "door-parent"))
    queues.patch(f"{QUEUES}/door-open/status", {"status": {"running": 2, "pending": 1}})
    assert "3 PodGroups that have not ended" in _deletion(queues, "door-open")
    queues.patch(f"{QUEUES}/door-open/status", {"status": {"running": 0, "pending": 0}})
    assert _deletion(queues, "door-open") == ""
    for name in ("default", "root"):
        with contextlib.suppress(Refused):  # it exists
            queues.create(QUEUES, queue(name))
        assert "cannot be deleted" in _deletion(queues, name)


def _deletion(door: Client, name: str) -> str:
    try:
        door.delete(f"{QUEUES}/{name}", dryRun="All")
    except Refused as refused:
        return str(refused)
    return ""


# -- objects that were there before ------------------------------------------------------------------------------


def test_what_rules_are_not_about_can_change_on_a_bad_object(door: Client) -> None:
    path = JOBS.format("default")
    assert refusal_of(door, path, job("new", **BAD))
    door.patch(f"{path}/door-old", {"metadata": {"labels": {"a": "b"}}})
    door.delete(f"{path}/door-old")
