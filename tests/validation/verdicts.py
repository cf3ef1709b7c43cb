"""One object judged in every way there is: as a scenario, by an API server with our definitions and policies, and by
the controllers, to whom it comes on a server that is too old to judge.

All of them give one verdict and name one field. A server says everything that is wrong, and the others the first of it;
a schema has words of its own. So each sentence must be among those of the rules that the object breaks, at its field.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from controllers.fake_cluster import FakeCluster
from kube.client import Client, Refused
from kube.test_rules import PATHS
from stromboli.api import (
    ApiError,
    Command,
    CronJob,
    HyperNode,
    Job,
    JobFlow,
    JobTemplate,
    KObject,
    PodGroup,
    Queue,
    Reservation,
    decode,
    decode_json,
    default,
    validate,
)
from stromboli.api.kinds import KINDS
from stromboli.api.quantity import QuantityError
from stromboli.api.rules import RULES, Door
from stromboli.api.rules.table import Broken
from stromboli.api.rules.walk import structs
from stromboli.api.schedules import SCHEDULE_PATTERN
from stromboli.api.validation.conversion import convert
from stromboli.controllers import ControllerManager, Notify, Update
from stromboli.embedded.schema import custom_schema, validate_custom
from stromboli.kube.crds.definitions import NEWEST
from validation.cel_rules import filled_in, schemas

Document = dict[str, Any]
Said = list[tuple[str, str]]

DENIED: Final = "denied request: "
NOT_CHECKED: Final = "some validation rules were not checked"  # as the schema is broken already
_NAMESPACES: Final = ("default", "stromboli-system", "kube-system")


def compare(document: Document, namespace: str, door: Client | None, old: Client | None = None) -> str:
    """What the verdict is; an assertion fails if there are two. `door` is a server that refuses by itself, and `old`
    one that knows no rules."""
    path, sent, stored = as_sent(document, namespace)
    error = error_in(stored)
    verdict = ""
    if old is not None and document["kind"] in schemas():
        verdict = _compare_controllers(old, path, sent, stored, error)
    if door is not None:
        verdict = _compare_server(door, path, sent, stored, error)
    return verdict


def as_sent(document: Document, namespace: str) -> tuple[str, Document, Document]:
    """Where to, what, and what a cluster has then. Commands are for the namespaces of administrators."""
    kind, metadata = document["kind"], dict(document["metadata"])
    here = metadata.pop("namespace", "default" if kind == "Command" else namespace)
    here = here if here in _NAMESPACES else namespace
    sent = document | {"metadata": metadata}
    stored = document | {"metadata": metadata | {"namespace": here}}
    if kind == "Pod" and document.get("spec", {}).get("schedulerName") in (None, ""):
        # A pod that names no scheduler is not ours, once it is in a cluster.
        stored |= {"spec": document.get("spec", {}) | {"schedulerName": "default-scheduler"}}
    return PATHS[kind].format(here), sent, stored


def _compare_server(door: Client, path: str, sent: Document, stored: Document, error: ApiError | None) -> str:
    answer, kind = answer_to(door, path, sent), sent["kind"]
    refused = answer if isinstance(answer, Refused) else None
    if error is not None and _is_left_to_controllers(error, sent):
        return "left to the controllers"
    if error is None:
        assert refused is None or _is_for_kubernetes(refused, kind), (sent, str(refused))
        return "accepted" if refused is None else "refused by Kubernetes"
    assert refused is not None, (sent, str(error))
    if _is_for_kubernetes(refused, kind):
        return "refused by Kubernetes"
    _check_that_all_name_it(refused, stored, error)
    return "refused"


def _compare_controllers(old: Client, path: str, sent: Document, stored: Document, error: ApiError | None) -> str:
    made = answer_to(old, path, sent)
    if isinstance(made, Refused):
        if _is_for_kubernetes(made, sent["kind"]):
            return "refused by Kubernetes"
        assert error is not None, (sent, str(made))
        if _is_left_to_controllers(error, sent):
            return "refused"  # for something else
        # Servers of these years leave positions in lists out where a value is none of an enumeration.
        _check_that_all_name_it(made, stored, error, places=re.compile(r"\[\d+\]"))
        return "refused"
    said = said_by_controllers(decode_json(json.dumps(made), KINDS[sent["apiVersion"], sent["kind"]]))
    if error is not None and error.field.startswith("metadata.") and not said:
        return "refused by Kubernetes"  # scenarios are stricter about names that a server makes
    assert said == ("" if error is None else f"{error.field}: {error.message}"), (sent, said, str(error))
    return "accepted" if error is None else "refused"


def said_by_controllers(obj: KObject) -> str:
    """What is in the condition or status that they write, or in the event about a Command; "" if they say nothing."""
    if isinstance(obj, Command):
        try:
            validate(obj)
        except ApiError as error:
            return f"{error.field}: {error.message}"
        return ""
    default(obj)
    cluster = FakeCluster(obj, controllers=lambda: ControllerManager(validate=True))
    changes = cluster.pass_once()
    if isinstance(obj, JobFlow | JobTemplate):
        return next((one.message for one in changes if isinstance(one, Notify) and one.reason == "Invalid"), "")
    written = [change.object for change in changes if isinstance(change, Update)]
    return next((said for one in written if type(one) is type(obj) and (said := _rejection(one))), "")


def _rejection(obj: KObject) -> str:
    if isinstance(obj, Job):
        return obj.status.state.message if obj.status.state.reason == "Invalid" else ""
    assert isinstance(obj, Queue | PodGroup | Reservation | HyperNode | CronJob)
    conditions = [one for one in obj.status.conditions if one.status == "False" and one.reason == "Invalid"]
    return conditions[0].message if conditions else ""


# -- what is wrong -------------------------------------------------------------------------------------------------


def _check_that_all_name_it(
    refused: Refused, stored: Document, error: ApiError, places: re.Pattern[str] = re.compile("$")
) -> None:
    """`places` are the parts of a field that the server may leave out."""
    mistakes: dict[str, set[str]] = {}
    for field, sentences in _mistakes_in(stored).items():
        mistakes.setdefault(places.sub("", field), set()).update(sentences)
    for field, sentence in (*_said(refused), (error.field, error.message)):
        assert _is_named(places.sub("", field), sentence, mistakes), (stored, str(refused), str(error), mistakes)


def answer_to(server: Client, path: str, document: Document) -> Document | Refused:
    """What it would store, or why it would not."""
    try:
        made: Document = server.create(f"{path}?dryRun=All", document)
    except Refused as refused:
        return refused
    return made


def error_in(document: Document) -> ApiError | None:
    try:
        decode(document)
    except ApiError as error:
        return error
    return None


def _is_left_to_controllers(error: ApiError, document: Document) -> bool:
    """What the page says that only they see; see `api.rules.table`."""
    if document["kind"] not in schemas():
        return False
    by_rule = any(rule.must in error.message for rule in RULES)
    in_template = error.field.removeprefix("spec.jobTemplate.").startswith(
        ("spec.template.spec", "spec.tasks[0].template.spec")
    )
    if error.field in ("spec.schedule", "spec.timeZone") and (
        "before it begins" in error.message or "time zone" in error.message
    ):
        return True
    if "must be a regular expression" in error.message:
        return True
    return not by_rule and (in_template or "lead back" in error.message or "replicas together" in error.message)


def _is_for_kubernetes(refused: Refused, kind: str) -> bool:
    """Metadata, namespaces, and kinds that are not ours, unless a policy speaks, or of our annotations."""
    said = str(refused)
    if DENIED in said or "metadata.annotations[volcano.sh/" in said:
        return False
    return "metadata." in said or kind not in schemas() or refused.reason == "NotFound" or "unknown field" in said


def _said(refused: Refused) -> Said:
    """Each field that a refusal names, and what it says of it."""
    _, denied, said = str(refused).partition(DENIED)
    if denied:
        field, _, sentence = said.partition(": ")
        return [(field, sentence)]
    of_fields = [(field, sentence) for field, sentence in refused.causes if NOT_CHECKED not in sentence]
    assert of_fields, str(refused)
    return [(field, sentence.removeprefix("Invalid value: ")) for field, sentence in of_fields]


def _mistakes_in(document: Document) -> dict[str, set[str]]:
    """All that is wrong, by field: the sentences of rules, and "" where the schema has it, in words of its own."""
    mistakes: dict[str, set[str]] = {}
    schema = schemas().get(document["kind"])
    found = [] if schema is None else validate_custom(filled_in(document, schema), custom_schema(schema))
    for error in found:
        mistakes.setdefault(_field(error.field), set()).add("")
    schedule = document.get("spec", {}).get("schedule")
    if document["kind"] == "CronJob" and isinstance(schedule, str) and not re.fullmatch(SCHEDULE_PATTERN, schedule):
        mistakes.setdefault("spec.schedule", set()).add("")  # some say which of its five fields is wrong
    try:
        typed = convert(document, KINDS[document["apiVersion"], document["kind"]])
        default(typed)
    except (ApiError, QuantityError, msgspec.ValidationError):
        assert found
        return mistakes  # nobody can evaluate rules
    for broken in _broken(typed):
        said = {broken.sentence} | ({broken.rule.must} if broken.rule.door_on(NEWEST) is Door.DEFINITION else set())
        mistakes.setdefault(_field(broken.field), set()).update(said)
    return mistakes


def _broken(typed: KObject) -> Iterator[Broken]:
    """One by one: beside an amount that is none, servers since 1.37 evaluate the rules about other fields."""
    for rule in RULES:
        if rule.on_update:
            continue
        for path, struct in structs(typed, frozenset({rule.on})):
            try:
                sentence = rule.sentence(struct)
            except QuantityError:
                continue
            if sentence:
                yield Broken(rule, ".".join(filter(None, (path, rule.field))), sentence)


def _is_named(field: str, sentence: str, mistakes: dict[str, set[str]]) -> bool:
    """The server names the whole if it lacks a part that is required."""
    at = _field(field)
    if any("" in said and (at == known or at.startswith(f"{known}.")) for known, said in mistakes.items()):
        return True
    return sentence in mistakes.get(at, ())


def _field(path: str) -> str:
    """The server separates names in a mapping by dots, too."""
    return re.sub(r"\[([^\]\d][^\]]*)\]", r".\1", path)
