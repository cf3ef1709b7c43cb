"""An object, or a change of one, that is wrong anywhere (`schema_mutations`): a scenario and a server give one verdict,
and name one field.

What they may differ in is on docs/validation.md, and is counted: what only controllers see, what scenarios accept in
addition, and changes of what we do not read. Where one change makes two mistakes, each may name another one of them.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Final

from kube.client import Client, Refused
from kube.test_rules import PATHS
from stromboli.api import ApiError, decode, validate_update
from validation.cel_rules import schemas
from validation.mutations import BASES
from validation.schema_mutations import changed_anywhere

Document = dict[str, Any]

_STRICT: Final = "dryRun=All&fieldValidation=Strict"
_ONLY_CONTROLLERS: Final = re.compile(
    r"\.template\.(spec|metadata)|2\*\*63|shorter duration|regular expression|time zone|lead back|replicas together"
    r"|must name a task of this job|before it begins"
)
_WIDER: Final = re.compile(r'must be of type integer(,| or )string: "number"|\.template\.metadata\.annotations\.')
_UNREAD: Final = "must not change"


def compare_created(seed: int, count: int, door: Client, namespace: str) -> Counter[str]:
    """What the verdicts are; an assertion fails if there are two about one object."""
    seen: Counter[str] = Counter()
    for _, document in changed_anywhere(seed, count):
        here, sent = _place(document, namespace)
        seen[
            _verdict(_error_in(document, here), _answer(door, "POST", PATHS[document["kind"]].format(here), sent))
        ] += 1
    return seen


def compare_changed(seed: int, count: int, door: Client, namespace: str) -> Counter[str]:
    """The same for changes of objects that are there."""
    seen: Counter[str] = Counter()
    versions: dict[str, str] = {}
    for good in BASES:
        if good["kind"] in schemas():
            here, sent = _place(good, namespace)
            made = door.create(PATHS[good["kind"]].format(here), sent)
            versions[good["kind"]] = made["metadata"]["resourceVersion"]
    for good, document in changed_anywhere(seed, count):
        here, sent = _place(document, namespace)
        sent["metadata"]["resourceVersion"] = versions[document["kind"]]
        path = f"{PATHS[document['kind']].format(here)}/{sent['metadata']['name']}"
        seen[_verdict(_error_in(document, here, good), _answer(door, "PUT", path, sent))] += 1
    for good in BASES:
        if good["kind"] in schemas():
            here, sent = _place(good, namespace)
            door.delete(f"{PATHS[good['kind']].format(here)}/{sent['metadata']['name']}")
    return seen


def _place(document: Document, namespace: str) -> tuple[str, Document]:
    """The namespace, and what is sent. Commands are for the namespaces of administrators."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "namespace"}
    return "default" if document["kind"] == "Command" else namespace, document | {"metadata": metadata}


def _error_in(document: Document, namespace: str, was: Document | None = None) -> ApiError | None:
    here = {"namespace": namespace}
    try:
        obj = decode(document | {"metadata": document["metadata"] | here})
        if was is not None:
            validate_update(decode(was | {"metadata": was["metadata"] | here}), obj)
    except ApiError as error:
        return error
    return None


def _answer(door: Client, method: str, path: str, document: Document) -> Refused | None:
    ask = door.create if method == "POST" else door.replace
    try:
        ask(f"{path}?{_STRICT}", document)
    except Refused as refused:
        return refused
    return None


def _verdict(error: ApiError | None, refused: Refused | None) -> str:
    if error is None:
        if refused is None:
            return "accepted"
        said = str(refused)
        if _WIDER.search(said):
            return "scenarios accept it"
        assert _UNREAD in said, said
        return "not read by us"
    if refused is None:
        assert _ONLY_CONTROLLERS.search(f"{error.field} {error.message}"), str(error)
        return "left to the controllers"
    assert refused.status in (400, 422), str(refused)
    # One change may make two mistakes: replicas below the minimum of the task, and so below that of the Job.
    agrees = any(_is_same(error.field, field) for field in _fields(refused))
    return "refused" if agrees else "refused for two reasons"


def _fields(refused: Refused) -> list[str]:
    """Those that a refusal names. Servers name some of them in the sentence only."""
    _, denied, said = str(refused).partition("denied request: ")
    if denied:
        return [said.partition(": ")[0]]
    causes = [re.sub(r"^<nil>$", "", field) or sentence.rpartition(" in ")[2] for field, sentence in refused.causes]
    return causes or re.findall(r'unknown field "([^"]+)"', str(refused))


def _is_same(one: str, other: str) -> bool:
    """A whole that lacks a part may be named by either. Scenarios shorten long names."""
    one, other = (re.sub(r"\[([^\]\d][^\]]*|)\]", r".\1", field) for field in (one, other))
    if "..." in one:
        one = one.partition("...")[0]
        return other.startswith(one)
    return any(f"{short}{end}".startswith(f"{long}{end}") or f"{long}{end}".startswith(f"{short}{end}")
               for end in (".", "[") for short, long in ((one, other),))  # fmt: skip
